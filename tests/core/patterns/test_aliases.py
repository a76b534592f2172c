"""Aliases of metric groups, declared and found; scipy's rank correlation as oracle."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from infrascope_core.errors import RecipeError
from infrascope_core.patterns.aliases import group_aliases
from infrascope_core.patterns.tables import GROUP_ALIASES
from infrascope_core.recipes import MetricGroup, Recipe, load_recipe
from infrascope_core.symbols.tables import GROUP_WINDOWS


def recipe(**same_as: str) -> Recipe:
    groups = tuple(
        MetricGroup(name=name, unit="%", subsystem="CPU", patterns=("x",), same_as=same_as.get(name)) for name in "abcd"
    )
    return load_recipe("default").model_copy(update={"groups": groups})


def windows(key: str, **groups: np.ndarray) -> pl.DataFrame:
    start = datetime(2026, 11, 1)
    rows = [
        (key, "h", i, name, start + timedelta(seconds=i), float(value), 1, 1)
        for name, values in groups.items()
        for i, value in enumerate(values)
        if not np.isnan(value)
    ]
    return pl.DataFrame(rows, schema=GROUP_WINDOWS.schema, orient="row")


def runs(copies: int = 3) -> list[pl.DataFrame]:
    """Group b is a, turned round and bent; c moves by itself; d is a in most runs but not in all."""
    made = []
    for seed in range(copies):
        rng = np.random.default_rng(seed)
        a, c = rng.random(50), rng.random(50)
        made.append(windows(f"r{seed}", a=a, b=np.exp(-a), c=c, d=a if seed else rng.random(50)))
    return made


def test_groups_that_are_alike_within_runs_have_one_that_stands_for_them():
    found = group_aliases(runs(), list("abcd"), "gpu", recipe())
    assert found.schema == GROUP_ALIASES.schema
    assert found.select("metric_group", "same_as", "inverse", "declared").rows() == [
        ("b", "a", True, False),
        ("d", "a", False, False),
    ]
    assert found["correlation"].to_list() == pytest.approx([-1.0, 1.0])


def test_the_correlation_is_the_median_of_spearmans():
    tables = [
        windows(
            f"r{seed}",
            a=(x := np.random.default_rng(seed).random(60)),
            b=x + 0.02 * np.random.default_rng(seed + 9).random(60),
        )
        for seed in range(3)
    ]
    (found,) = group_aliases(tables, ["a", "b"], "gpu", recipe())["correlation"].to_list()
    each = [spearmanr(*(t.filter(metric_group=name)["value"] for name in "ab")).statistic for t in tables]
    assert found == pytest.approx(np.median(each))


def test_what_is_declared_holds_where_the_host_has_both():
    rng = np.random.default_rng(0)
    table = windows("r", c=rng.random(20), d=rng.random(20))
    found = group_aliases([table], ["c", "d"], "cpu", recipe(d="c"))
    assert found.select("metric_group", "same_as", "declared").rows() == [("d", "c", True)]
    assert group_aliases([table], ["d"], "cpu", recipe(d="c")).is_empty()


def test_little_that_is_known_makes_no_alias():
    a = np.arange(9.0)
    assert group_aliases([windows("r", a=a, b=a)], ["a", "b"], "gpu", recipe()).is_empty()
    flat = np.ones(40)
    assert group_aliases([windows("r", a=flat, b=flat)], ["a", "b"], "gpu", recipe()).is_empty()
    assert group_aliases([], [], "gpu", recipe()).is_empty()
    holes = np.where(np.arange(40) < 35, np.nan, 1.0 * np.arange(40))
    assert group_aliases([windows("r", a=np.arange(40.0), b=holes)], ["a", "b"], "gpu", recipe()).is_empty()


@pytest.mark.parametrize(
    ("name", "message"), [("c", "'c', which is no other group"), ("a", "'a', which is no other group")]
)
def test_an_alias_of_nothing_is_refused_in_one_sentence(tmp_path, name, message):
    group = f"{{name: a, unit: x, subsystem: CPU, patterns: [x], same_as: {name}}}"
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nnames: metric\nconstancy: pooled_cv\nnear_constant: 0\nmethod: terciles\npopulation: windows\n"
        f"quantiles: [0.3, 0.6]\ngroups:\n  - {group}\n"
    )
    with pytest.raises(RecipeError, match=f"a is said to be the same as {message}"):
        load_recipe(str(path))
