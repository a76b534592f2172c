"""Of many runs some are looked at: which, that the tables say so, and how far the result is from that of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from infrascope_core.patterns.aliases import group_aliases
from infrascope_core.patterns.held import Items, Packed
from infrascope_core.patterns.scopes import chosen_runs, runs_tested
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import (
    ASSOCIATION_RULES,
    GROUP_ALIASES,
    MINED_SCOPES,
    SEQUENTIAL_PATTERNS,
)
from tests.core.patterns.generated import ITEMS, independent, mine, together
from tests.core.patterns.test_aliases import recipe, windows
from tests.core.patterns.test_odd_baskets import mined, usual

PLANTED = (("CPU_busy_HIGH", "Disk_write_LOW", 0.9), ("GPU_util_LOW", "Net_rx_HIGH", 0.5))


def fleet(of_each: int, workloads: str = "UVW") -> pl.DataFrame:
    return pl.DataFrame(
        [(f"{name}{number:03d}", "gpu", "train", name) for name in workloads for number in range(of_each)],
        schema=["run_key", "platform", "phase", "workload"],
        orient="row",
    )


def test_all_runs_are_tested_where_they_are_not_too_many():
    tested = runs_tested(fleet(4), MiningSettings(max_runs=12, max_runs_of_workloads=12))
    assert tested["gpu"] == sorted(fleet(4)["run_key"])
    assert tested["gpu/train/U"] == [f"U{number:03d}" for number in range(4)]


def test_of_many_each_workload_gives_as_many():
    settings = MiningSettings(max_runs=12, max_runs_of_workloads=15)
    tested = runs_tested(fleet(20), settings)
    assert tested["gpu"] == tested["gpu/train"] == sorted(tested["gpu"])
    assert [sum(key.startswith(name) for key in tested["gpu"]) for name in "UVW"] == [4, 4, 4]
    for name in "UVW":
        assert len(tested[f"gpu/train/{name}"]) == 5
        assert {key for key in tested["gpu"] if key.startswith(name)} < set(tested[f"gpu/train/{name}"])
    assert tested != runs_tested(fleet(20), settings.model_copy(update={"random_state": 1}))
    assert tested == runs_tested(fleet(20).sample(fraction=1.0, shuffle=True, seed=0), settings)


def test_where_one_workload_has_few_the_others_give_more():
    runs = pl.concat([fleet(20, "UV"), fleet(1, "W")])
    tested = runs_tested(runs, MiningSettings(max_runs=11))["gpu"]
    assert [sum(key.startswith(name) for key in tested) for name in "UVW"] == [5, 5, 1]


def test_a_new_run_changes_at_most_one_of_those_chosen():
    settings = MiningSettings(max_runs=12, max_runs_of_workloads=15)
    before, after = (runs_tested(runs, settings)["gpu/train/U"] for runs in (fleet(20), fleet(21)))
    assert len(set(before) - set(after)) <= 1
    keys = list(fleet(50)["run_key"])
    assert len(set(chosen_runs(keys, 10, 0)) - set(chosen_runs([*keys, "new"], 10, 0))) <= 1
    assert chosen_runs(keys, 200, 0) == keys


def test_rules_of_some_runs_are_those_of_all():
    """What was planted is found by both, and confidences differ by less than the least gain."""
    runs = independent(48, 240, 30)
    for seed, (left, right, share) in enumerate(PLANTED):
        runs = together(runs, left, right, share, seed)
    keys = [one.run_key for one in runs]
    every = mine(runs)
    of_each = {(*a, *c): r for a, c, r in every.select("antecedent", "consequent", "confidence").iter_rows()}
    for seed in range(3):
        some = set(chosen_runs(keys, 12, seed))
        found = mine([one for one in runs if one.run_key in some])
        sampled = {(*a, *c): r for a, c, r in found.select("antecedent", "consequent", "confidence").iter_rows()}
        for left, right, _ in PLANTED:
            assert (left, right) in sampled and (left, right) in of_each
        common = sampled.keys() & of_each.keys()
        assert len(common) >= 0.7 * len(sampled)
        assert max(abs(sampled[rule] - of_each[rule]) for rule in common) < 0.1


def test_aliases_of_some_runs_are_those_of_all():
    """The median of correlations within runs is off by little, where runs differ as much as they do here."""
    tables = {}
    for number in range(60):
        rng = np.random.default_rng(number)
        a = rng.random(80).cumsum()
        tables[f"r{number:02d}"] = windows(
            f"r{number:02d}", a=a, b=-a + rng.normal(0, 1, 80), c=rng.random(80), d=a + rng.normal(0, 8, 80)
        )
    every = group_aliases(tables.values(), list("abcd"), "gpu", recipe(d="a"))
    for seed in range(10):
        keys = chosen_runs(list(tables), 20, seed)
        some = group_aliases((tables[key] for key in keys), list("abcd"), "gpu", recipe(d="a"))
        same = ["metric_group", "same_as", "inverse", "declared"]
        assert some.select(same).equals(every.select(same))
        assert (some["correlation"] - every["correlation"]).abs().max() < 0.03
        assert (some["runs"].unique().to_list(), every["runs"].unique().to_list()) == ([20], [60])


def test_tables_say_on_how_many_runs_they_rest(tmp_path):
    few = mined(tmp_path / "few", usual(), max_runs=4, max_runs_of_workloads=3, max_alias_runs=5)
    all_of_them = mined(tmp_path / "all", usual())
    # one workload, so that the platform stands for all three scopes
    for found, tested in ((few, 4), (all_of_them, 6)):
        assert found[MINED_SCOPES.name].select("runs", "tested_runs", "windows").unique().rows() == [(6, tested, 360)]
        rules = found[ASSOCIATION_RULES.name]
        assert rules.height and rules["informative_runs"].max() == tested
        assert rules["tested"].unique().to_list() == found[MINED_SCOPES.name]["tested"].unique().to_list()


def test_limits_that_are_not_exceeded_change_nothing(tmp_path):
    usual_limits = mined(tmp_path / "usual", usual())
    exact = mined(tmp_path / "exact", usual(), max_runs=6, max_runs_of_workloads=6, max_alias_runs=6)
    for table in (ASSOCIATION_RULES, SEQUENTIAL_PATTERNS, MINED_SCOPES, GROUP_ALIASES):
        assert usual_limits[table.name].equals(exact[table.name])


def test_more_rules_than_are_stored_change_nothing_of_those_that_are_shown():
    runs = independent(10, 150, 40)
    for seed, (left, right, share) in enumerate(PLANTED):
        runs = together(runs, left, right, share, seed)
    every = mine(runs)
    few = mine(runs, max_rules=every.height // 2)
    shown = pl.col("shown").is_not_null()
    assert few.height == every.height // 2
    assert few["holding"].unique().to_list() == [every.height]
    assert (
        few.filter(shown)
        .select("antecedent", "consequent", "shown")
        .equals(every.filter(shown).select("antecedent", "consequent", "shown"))
    )


def test_what_is_packed_is_held():
    (one,) = independent(1, 37, 50)
    holds = one.holds.copy()
    holds[5] = False
    holds[6, 3:] = False
    one = replace(one, holds=holds)
    some = Items.of([ITEMS.names[4], ITEMS.names[0], ITEMS.names[-1]])
    packed = Packed.of(one, ITEMS)
    columns = [ITEMS.names.index(name) for name in some.names]
    kept = holds[:, columns].any(axis=1)
    found = packed.of_items(some)
    assert np.array_equal(found.holds, holds[kept][:, columns])
    assert np.array_equal(found.start, one.start[kept]) and np.array_equal(found.window, one.window[kept])
    assert found.window_s is not None
