"""Discretization: thresholds by hand and by law, and the baskets that follow from them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.recipes import MetricGroup, Recipe
from infrascope_core.symbols.discretization import Pooled, baskets, cut, fit_thresholds, with_version
from infrascope_core.symbols.tables import BASKETS, CURATED_METRICS, GROUP_WINDOWS, THRESHOLDS

START = datetime(2025, 5, 7)
INF = float("inf")


def recipe(method: str = "mode_aware", population: str = "windows") -> Recipe:
    return Recipe(
        name="test",
        names="metric",
        constancy="pooled_cv",
        near_constant=0,
        method=method,
        population=population,
        quantiles=(0.33, 0.67),
        groups=[MetricGroup(name="load", unit="%", subsystem="CPU", patterns=("x",))],
    )


def windows(values: list[float], run: str = "run", group: str = "load") -> pl.DataFrame:
    rows = [(run, "h", i, group, START, value, 10, 1) for i, value in enumerate(values)]
    return pl.DataFrame(rows, schema=GROUP_WINDOWS.schema, orient="row")


def pooled(values: list[float]) -> Pooled:
    """The description of a group's values, by pandas."""
    series = pd.Series(values, dtype=float)
    counts = series.value_counts()
    mode = min(counts.index[counts == counts.max()])
    rest = series[series != mode]
    return Pooled(
        samples=len(series),
        lower=series.quantile(0.33),
        upper=series.quantile(0.67),
        smallest=series.min(),
        smallest_samples=int((series == series.min()).sum()),
        largest=series.max(),
        largest_samples=int((series == series.max()).sum()),
        mode=mode,
        mode_samples=int(counts.max()),
        rest_median=rest.median() if len(rest) else None,
    )


def level(value: float, low: float, high: float) -> str:
    return "LOW" if value <= low else "MED" if value <= high else "HIGH"


def levels(values: list[float], method: str = "mode_aware") -> str:
    """First letters of the values' levels."""
    low, high, _ = cut(pooled(values), method)
    return "".join(level(value, low, high)[0] for value in values)


@pytest.fixture
def fit(tmp_path):
    """Fit the group `load` on windows of runs by name; `gpu` in the name makes the platform."""

    def thresholds(runs: dict[str, list[float]], of: Recipe | None = None) -> pl.DataFrame:
        files = [tmp_path / f"{run}.parquet" for run in runs]
        for file, (run, values) in zip(files, runs.items(), strict=True):
            windows(values, run).write_parquet(file)
        return fit_thresholds([], files, platforms(runs), of or recipe(), ["load"])

    return thresholds


def platforms(runs) -> pl.DataFrame:
    return pl.DataFrame({"run_key": list(runs), "platform": ["gpu" if "gpu" in run else "cpu" for run in runs]})


# -- cut


@pytest.mark.parametrize(
    ("values", "expected", "method"),
    [
        ([1, 2, 3, 4, 5, 6], "LLMMHH", "terciles"),
        ([0, 0, 1, 2, 3, 4], "LLMMHH", "terciles"),  # a third is not more than a third
        ([0, 0, 0, 1, 2, 3, 4], "LLLMMHH", "mode_low"),
        ([1, 2, 3, 4, 9, 9, 9], "LLMMHHH", "mode_high"),
        ([1, 2, 5, 5, 5, 8, 9], "LLMMMHH", "mode_med"),
        ([5, 5, 5], "LLL", "mode_low"),
        ([5], "L", "mode_low"),
        ([0, 0, 0, 7], "LLLH", "mode_low"),
        ([0, 0, 0, 0, 3, 9, 9, 9], "LLLLMHHH", "mode_both"),
        ([0, 0, 0, 3, 9, 9, 9, 9], "LLLMHHHH", "mode_both"),
        ([0, 0, 9, 9], "LLHH", "mode_both"),  # nothing lies between
        ([0, 0, 0, 0, 0, 3, 9, 9, 9], "LLLLLMHHH", "mode_low"),  # a third is not more, but most of the rest
        ([0, 0, 0, 3, 9, 9, 9, 9, 9], "LLLMHHHHH", "mode_high"),
        ([0, 0, 0, 0, 5, 5, 5, 5, 9], "LLLLMMMMH", "mode_low"),  # two modes, but only one of them at an end
        ([0, 5, 5, 5, 5, 9, 9, 9, 9], "LMMMMHHHH", "mode_med"),
        ([7, 9, 9, 9], "LHHH", "mode_high"),
        ([-1, -1, -1, -5, 0], "MMMLH", "mode_med"),
    ],
)
def test_levels_by_hand(values, expected, method):
    assert levels(values) == expected
    assert cut(pooled(values), "mode_aware")[2] == method


def test_plain_terciles_ignore_the_mode():
    """A saturated GPU is LOW in every window: the exact recipe's known failure."""
    values = [100.0] * 8 + [20, 30]
    assert cut(pooled(values), "terciles") == (100, 100, "terciles")
    assert set(levels(values, "terciles")) == {"L"}
    assert levels(values) == "HHHHHHHHLM"


@pytest.mark.parametrize(("idle", "full"), [(45, 45), (50, 40)])
def test_two_values_of_more_than_a_third_each_have_their_own_levels(idle, full):
    """docs/design.md, Recipes: LOW if it is the smallest, HIGH if the largest; a GPU that waits or works."""
    values = [0.0] * idle + [30.0, 60.0] * 5 + [100.0] * full
    assert levels(values) == "L" * idle + "M" * 10 + "H" * full


VALUES = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, 100.0]), st.integers(-5, 5).map(float), st.floats(-1e9, 1e9)),
    min_size=1,
    max_size=30,
)


@given(VALUES, st.sampled_from(["terciles", "mode_aware"]))
def test_a_larger_value_never_has_a_lower_level(values, method):
    low, high, _ = cut(pooled(values), method)
    assert low <= high
    ranks = ["LOW MED HIGH".split().index(level(value, low, high)) for value in sorted(values)]
    assert ranks == sorted(ranks)


@given(VALUES)
def test_the_mode_has_its_own_level(values):
    facts = pooled(values)
    low, high, method = cut(facts, "mode_aware")
    third = len(values) / 3
    assert (method == "terciles") == (facts.mode_samples <= third)
    both = facts.smallest != facts.largest and min(facts.smallest_samples, facts.largest_samples) > third
    assert (method == "mode_both") == both
    own = {"mode_low": {"LOW"}, "mode_high": {"HIGH"}, "mode_med": {"MED"}, "mode_both": {"LOW", "HIGH"}}
    alone = {facts.smallest: "LOW", facts.largest: "HIGH"} if both else {}
    if method in own and not both:
        alone = {facts.mode: next(iter(own[method]))}
    for name in own.get(method, ()):
        at = {value for value in values if level(value, low, high) == name}
        assert at == {value for value, its in alone.items() if its == name}


@given(VALUES)
def test_both_ends_have_their_levels_wherever_a_mode_lies_at_one_of_them(values):
    facts = pooled(values)
    low, high, method = cut(facts, "mode_aware")
    if method in {"mode_low", "mode_high", "mode_both"} and facts.smallest != facts.largest:
        assert level(facts.smallest, low, high) == "LOW"
        assert level(facts.largest, low, high) == "HIGH"


# -- fit_thresholds


def test_the_table_of_a_tiny_fleet(fit):
    table = fit({"r1": [1, 2, 3], "r2": [4, 5, 6], "gpu1": [0, 0, 0, 8]})
    assert table.schema == THRESHOLDS.schema
    third = pytest.approx(1 / 3)
    assert table.drop("version").rows() == [
        ("cpu", "load", pytest.approx(2.65), pytest.approx(4.35), "terciles", 6, third, third, third, False),
        ("gpu", "load", 0.0, pytest.approx(8.0, abs=1e-12), "mode_low", 4, 0.75, 0.0, 0.25, False),
    ]
    assert table["version"].null_count() == 2


@settings(max_examples=40)
@given(VALUES, st.sampled_from(["terciles", "mode_aware"]))
def test_what_is_fitted_is_what_pandas_describes(tmp_path_factory, values, method):
    file = tmp_path_factory.mktemp("fit") / "r.parquet"
    windows(values, "r").write_parquet(file)
    row = fit_thresholds([], [file], platforms(["r"]), recipe(method), ["load"]).row(0, named=True)
    low, high, how = cut(pooled(values), method)
    assert row["method"] == how
    assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-12, abs=1e-12)
    found = [level(value, row["low"], row["high"]) for value in values]
    shares = [row[f"{name}_share"] for name in ("low", "med", "high")]
    assert shares == [found.count(name) / len(values) for name in ("LOW", "MED", "HIGH")]
    assert sum(shares) == pytest.approx(1)


def test_quantiles_interpolate_as_pandas_does(fit):
    values = list(np.random.default_rng(0).lognormal(3, 2, 997))
    table = fit({"r1": values[:500], "r2": values[500:]}, recipe("terciles"))
    series = pd.Series(values)
    expected = (series.quantile(0.33), series.quantile(0.67))
    assert table.select("low", "high").row(0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "degenerate"),
    [
        ([5.0] * 300, True),
        ([0.0] * 98 + [1.0, 2.0], True),  # MED and HIGH hold a hundredth each
        ([0.0] * 90 + [1.0] * 5 + [2.0] * 5, False),  # a twentieth each is enough
        ([0.0] * 96 + [1.0] * 4, True),
        ([1.0, 2.0], False),
    ],
)
def test_levels_are_uninformative_where_fewer_than_two_hold_a_twentieth(fit, values, degenerate):
    assert fit({"r": values})["degenerate"].to_list() == [degenerate]


@pytest.mark.parametrize(
    ("varying", "still", "degenerate"),
    [(3, 4, False), (2, 4, True), (2, 0, False), (0, 4, True)],
)
def test_two_levels_must_meet_in_three_runs_where_there_are_three(fit, varying, still, degenerate):
    """Levels that tell one run from another, and nothing within any, tie nothing to anything."""
    runs = {f"varying{i}": [0.0, 5.0] * 20 for i in range(varying)}
    runs |= {f"still{i}": [5.0 * (i % 2)] * 40 for i in range(still)}
    assert fit(runs)["degenerate"].to_list() == [degenerate]


def test_missing_and_infinite_values_are_left_out(fit):
    table = fit({"r": [1, 2, None, 3, INF, -INF, float("nan"), 4, 5, 6]})
    assert table.drop("version").equals(fit({"r": [1, 2, 3, 4, 5, 6]}).drop("version"))
    assert table["samples"].to_list() == [6]
    assert fit({"r": [None, INF]}).equals(THRESHOLDS.empty())


def test_nothing_to_fit(tmp_path):
    nobody = pl.DataFrame(schema={"run_key": pl.String, "platform": pl.String})
    assert fit_thresholds([], [], nobody, recipe(), ["load"]).equals(THRESHOLDS.empty())
    windows([1, 2], "r").write_parquet(tmp_path / "r.parquet")
    files = [tmp_path / "r.parquet"]
    assert fit_thresholds([], files, platforms(["r"]), recipe(), []).equals(THRESHOLDS.empty())
    assert fit_thresholds([], files, platforms(["r"]), recipe(), ["other"]).equals(THRESHOLDS.empty())
    assert fit_thresholds([], files, platforms(["s"]), recipe(), ["load"]).equals(THRESHOLDS.empty())


@pytest.mark.parametrize(
    ("population", "low", "high", "facts"),
    [("windows", 2.66, 3.34, (2, 0.5, 0.0, 0.5, False)), ("samples", 23.1, 46.9, (3, 1.0, 0.0, 0.0, True))],
)
def test_the_recipe_decides_which_values_are_the_population(tmp_path, population, low, high, facts):
    """The shares are those of windows, whatever the population: baskets are made of windows."""
    windows([2, 4], "r").write_parquet(tmp_path / "windows.parquet")
    samples = [("r", "h", "load", "m", i, START, v) for i, v in enumerate([0.0, None, 35.0, 70.0])]
    pl.DataFrame(samples, schema=CURATED_METRICS.schema, orient="row").write_parquet(tmp_path / "curated.parquet")
    table = fit_thresholds(
        [tmp_path / "curated.parquet"],
        [tmp_path / "windows.parquet"],
        platforms(["r"]),
        recipe("terciles", population),
        {"load"},
    )
    assert table.select("low", "high").row(0) == pytest.approx((low, high))
    assert table.select("samples", "low_share", "med_share", "high_share", "degenerate").row(0) == facts


def test_the_order_of_runs_and_of_files_does_not_matter(fit, tmp_path):
    rng = np.random.default_rng(1)
    runs = {f"{p}{i}": list(rng.lognormal(0, 3, 50)) for p in ("cpu", "gpu") for i in range(4)}
    table = fit(runs)
    backwards = fit(dict(reversed(runs.items())))
    assert backwards.equals(table)
    files: list[Path] = sorted(tmp_path.glob("*.parquet"), reverse=True)
    assert fit_thresholds([], files, platforms(runs), recipe(), {"load"}).equals(table)
    assert with_version(table.reverse()).equals(with_version(table))


# -- with_version


def test_a_version_follows_the_content_of_its_platform(fit):
    table = with_version(fit({"r1": [1, 2, 3], "gpu1": [4, 5, 6]}))
    cpu, gpu = table["version"]
    assert len({cpu, gpu}) == 2
    assert with_version(table).equals(table)  # stamping again changes nothing
    moved = table.with_columns(high=pl.when(platform="gpu").then(pl.col("high") + 1e-15).otherwise("high"))
    assert moved["high"].to_list() != table["high"].to_list()
    assert with_version(moved)["version"][0] == cpu
    assert with_version(moved)["version"][1] != gpu


def test_all_groups_of_a_platform_bear_one_version(fit):
    table = fit({"r1": [1, 2, 3]})
    two = with_version(pl.concat([table, table.with_columns(metric_group=pl.lit("power"))]))
    assert two["version"].n_unique() == 1
    assert two["version"][0] != with_version(table)["version"][0]
    assert with_version(THRESHOLDS.empty()).equals(THRESHOLDS.empty())


# -- baskets


def thresholds(**groups: tuple[float, float]) -> pl.DataFrame:
    rows = [
        ("cpu", group, low, high, "terciles", 9, 0.3, 0.3, 0.4, False, "v") for group, (low, high) in groups.items()
    ]
    return pl.DataFrame(rows, schema=THRESHOLDS.schema, orient="row")


def test_the_table_of_a_tiny_run_of_baskets():
    table = baskets(windows([1, 1.5, 2, 2.5]), thresholds(load=(1, 2)), "cpu")
    assert table.schema == BASKETS.schema
    assert table.rows() == [
        ("run", "h", 0, "load", START, 1.0, "LOW", "load_LOW"),  # at the bound is below it
        ("run", "h", 1, "load", START, 1.5, "MED", "load_MED"),
        ("run", "h", 2, "load", START, 2.0, "MED", "load_MED"),
        ("run", "h", 3, "load", START, 2.5, "HIGH", "load_HIGH"),
    ]


def test_a_group_without_thresholds_has_no_item():
    run = pl.concat([windows([1, 2]), windows([3, 4], group="power")])
    assert set(baskets(run, thresholds(load=(1, 2)), "cpu")["metric_group"]) == {"load"}
    assert baskets(run, thresholds(load=(1, 2)), "gpu").equals(BASKETS.empty())
    assert baskets(run, THRESHOLDS.empty(), "cpu").equals(BASKETS.empty())


def test_baskets_come_in_the_order_of_windows_whatever_the_order_of_rows(tmp_path):
    run = pl.concat([windows([1, 2, 3], group=group) for group in ("power", "load")])
    fitted = thresholds(load=(1, 2), power=(1, 2))
    table = baskets(run, fitted, "cpu")
    assert table.select("window", "metric_group").rows() == [
        (window, group) for window in range(3) for group in ("load", "power")
    ]
    assert baskets(run.reverse(), fitted.reverse(), "cpu").equals(table)
    run.write_parquet(tmp_path / "run.parquet")
    assert baskets([tmp_path / "run.parquet"], fitted, "cpu").equals(table)


@settings(max_examples=40)
@given(VALUES, VALUES)
def test_baskets_have_the_levels_of_the_thresholds(fitted_on, values):
    low, high, _ = cut(pooled(fitted_on), "mode_aware")
    table = baskets(windows(values), thresholds(load=(low, high)), "cpu")
    assert table["level"].to_list() == [level(value, low, high) for value in values]
