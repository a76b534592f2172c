"""Quality of metrics: the facts of one run against pandas, and the verdicts over many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.quality.metrics import quality_metrics
from infrascope_core.quality.status import metric_status
from infrascope_core.quality.tables import METRIC_CATALOG, QUALITY_METRICS
from infrascope_core.recipes import Recipe, load_recipe
from infrascope_core.run_files.columns import column_name

START = datetime(2025, 5, 7)
INF = float("inf")
EXACT, DEFAULT = load_recipe("infrascope"), load_recipe("default")
Values = Sequence[float | None]


def telemetry(run: str = "run", host: str = "h", times: list[float] | None = None, **metrics: Values) -> pl.DataFrame:
    return samples_of(metrics, run, host, times)


def samples_of(
    metrics: Mapping[str, Values], run: str = "run", host: str = "h", times: list[float] | None = None
) -> pl.DataFrame:
    """Samples of one host, 0.1 s apart unless `times` gives their seconds."""
    samples = len(next(iter(metrics.values())))
    times = [0.1 * i for i in range(samples)] if times is None else times
    return pl.DataFrame(
        {
            "run_key": [run] * samples,
            "host": [host] * samples,
            "sample": range(samples),
            "ts": pl.Series([START + timedelta(seconds=t) for t in times], dtype=pl.Datetime("us")),
            **{name: pl.Series(values, dtype=pl.Float64) for name, values in metrics.items()},
        }
    )


def facts(frame: pl.DataFrame, metric: str = "a", host: str = "h") -> dict:
    table = quality_metrics(frame)
    assert table.schema == QUALITY_METRICS.schema
    return table.row(by_predicate=(pl.col("metric") == metric) & (pl.col("host") == host), named=True)


def of_pandas(values: Values) -> dict:
    """The same facts by pandas; infinities count, and are left out of the rest."""
    series = pd.Series(values, dtype=float)
    finite = series.replace([np.inf, -np.inf], np.nan)
    mean, std = finite.mean(), finite.std(ddof=1)
    numbers = {
        "mean": mean,
        "std": std,
        "cv": 0.0 if mean == 0 else std / mean,
        "min": finite.min(),
        "max": finite.max(),
    }
    return {
        "samples": len(series),
        "missing": int(series.isna().sum()),
        "infinite": int(np.isinf(series).sum()),
        "zeros": int((series == 0).sum()),
        "distinct": series.nunique(),
        # against the last known value
        "rises": int((finite.dropna().diff() > 0).sum()),
        "falls": int((finite.dropna().diff() < 0).sum()),
        **{name: None if np.isnan(value) else float(value) for name, value in numbers.items()},
    }


def assert_same(found: dict, expected: dict, relative: float, absolute: float | None = None) -> None:
    for name, value in expected.items():
        assert found[name] == (None if value is None else pytest.approx(value, rel=relative, abs=absolute)), name


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1, 2, 4, 4], "usable"),
        ([1, None, 4, None], "usable"),
        ([None, None, None], "missing"),
        ([0, 0, 0], "zero"),
        ([0, None, 0], "zero"),
        ([-0.0, 0, None], "zero"),
        ([7, 7, None, 7], "constant"),
        ([5], "constant"),
        ([0], "zero"),
        ([None], "missing"),
        ([7, 7, INF], "usable"),
        ([INF, 3, -INF, None, 4], "usable"),
        ([-1, 1], "usable"),
        ([-3, -1, -2], "usable"),
        ([1e12, 1e12 + 1, 1e12 + 3], "usable"),
    ],
)
def test_facts_are_those_of_pandas(values, verdict):
    found = facts(telemetry(a=values))
    expected = of_pandas(values)
    assert_same(found, expected, 1e-9)
    assert found["verdict"] == verdict


@pytest.mark.parametrize("values", [[INF, INF], [INF, -INF, None], [None, -INF]])
def test_infinities_alone_have_no_statistics(values):
    found = facts(telemetry(a=values, b=[0.0] * len(values)))
    expected = of_pandas(values)
    assert {name: found[name] for name in expected} == expected
    assert (found["mean"], found["std"], found["min"], found["max"]) == (None, None, None, None)


@pytest.mark.parametrize("values", [[INF, INF], [INF, -INF, None]])
def test_a_metric_without_a_finite_value_is_missing(values):
    assert facts(telemetry(a=values))["verdict"] == "missing"


VALUE = st.one_of(
    st.none(), st.sampled_from([0.0, -0.0, 1.0, INF, -INF]), st.floats(-1e6, 1e6).map(lambda v: round(v, 2))
)


@settings(max_examples=60)
@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(VALUE, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_any_columns_side_by_side_have_their_own_facts(columns):
    table = quality_metrics(samples_of({f"m{i}": values for i, values in enumerate(columns)}))
    for row, values in zip(table.iter_rows(named=True), columns, strict=False):
        expected = of_pandas(values)
        # pandas and polars round a mean near zero differently, and the ratio to it with it
        expected["cv"] = row["cv"] if abs(expected["mean"] or 0) < 1e-3 else expected["cv"]
        assert_same(row, expected, 1e-6, 1e-6)


def test_unit_and_subsystem_come_from_the_name():
    table = quality_metrics(samples_of({"Turbostat:Busy%.-[%]": [1.0, 2], "Storage:x[count]": [1.0, 2], "y": [1.0, 2]}))
    assert table.select("metric", "unit", "subsystem").rows() == [
        ("Turbostat:Busy%.-[%]", "%", "CPU"),
        ("Storage:x[count]", "count", "Storage"),
        ("y", "", "Other"),
        ("interval[s]", "s", "Sampling"),
    ]


def test_two_hosts_stacked_are_judged_each_for_itself():
    stacked = pl.concat(
        [telemetry(host="h1", a=[1, 2, 3], b=[0, 0, 0]), telemetry(host="h2", a=[7, 7, 7], c=[1, None, 3])],
        how="diagonal",
    )
    table = quality_metrics(stacked).filter(pl.col("metric") != "interval[s]")
    assert table.select("host", "metric", "samples", "missing", "mean", "verdict").rows() == [
        ("h1", "a", 3, 0, 2.0, "usable"),
        ("h1", "b", 3, 0, 0.0, "zero"),
        ("h2", "a", 3, 0, 7.0, "constant"),
        ("h2", "c", 3, 1, 2.0, "usable"),
    ]
    assert quality_metrics(stacked).filter(pl.col("metric") == "interval[s]")["host"].to_list() == ["h1", "h2"]


def test_what_no_host_has_a_value_of_is_missing_on_each():
    nothing = [None, None]
    stacked = pl.concat([telemetry(host="h1", a=[1, 2], b=nothing), telemetry(host="h2", a=nothing, b=nothing)])
    table = quality_metrics(stacked).filter(pl.col("metric") != "interval[s]")
    assert table.select("host", "metric", "verdict").rows() == [
        ("h1", "a", "usable"),
        ("h1", "b", "missing"),
        ("h2", "b", "missing"),
    ]


def test_no_samples_and_no_metrics():
    assert quality_metrics(telemetry(a=[1.0]).clear()).equals(QUALITY_METRICS.empty())
    assert quality_metrics(telemetry(a=[1.0, 2]).drop("a"))["metric"].to_list() == ["interval[s]"]


@pytest.mark.parametrize(
    ("times", "repeated", "lost", "verdict", "mean"),
    [
        ([0, 0.1, 0.2, 0.3], 0, 0, "regular", 0.1),
        ([0, 0.1, 0.2, 0.34], 0, 0, "regular", 0.34 / 3),  # late, but nothing lost: less than 1.5 intervals
        ([0, 0.1, 0.2, 0.36], 0, 1, "gaps", 0.36 / 3),
        ([0, 0.1, 0.2, 0.3, 0.7, 0.8], 0, 3, "gaps", 0.8 / 5),
        ([0, 0.1, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], 0, 2, "gaps", 0.9 / 7),  # two holes of one sample
        ([0, 0.1, 0.2, 0.363, 0.4, 0.5], 0, 0, "regular", 0.5 / 5),  # late, and then in step again
        ([0, 0.1, 0.2, 0.52, 0.53, 0.54, 0.6, 0.7], 0, 0, "regular", 0.7 / 7),  # three late ones, written together
        ([0, 0.1, 0.2, 0.3, 0.56, 0.6, 0.7, 0.8], 0, 1, "gaps", 0.8 / 7),  # one late, one lost
        ([0, 0.1, 0.2, 0.3, 0.5, 0.5, 0.6], 1, 0, "regular", 0.6 / 6),
        ([0, 0.1, 0.1, 0.2, 0.3], 1, 0, "regular", 0.3 / 4),
        ([0, 0, 0], 2, 0, "regular", 0),  # no interval to measure gaps by
        ([0], 0, 0, "regular", None),
    ],
)
def test_the_sampling_has_a_row_of_its_own(times, repeated, lost, verdict, mean):
    row = facts(telemetry(times=times, a=[1.0] * len(times)), "interval[s]")
    assert (row["zeros"], row["missing"], row["verdict"]) == (repeated, lost, verdict)
    assert row["samples"] == len(times)
    assert row["mean"] == (None if mean is None else pytest.approx(mean, abs=1e-6))
    assert (row["unit"], row["subsystem"], row["infinite"]) == ("s", "Sampling", 0)


def test_the_interval_is_described_like_any_metric():
    times = [0.0, 0.1, 0.2, 0.5, 0.5, 0.6]
    row = facts(telemetry(times=times, a=[1.0] * 6), "interval[s]")
    gaps = pd.Series(times).diff().dropna().round(6)
    assert (row["std"], row["min"], row["max"]) == pytest.approx((gaps.std(ddof=1), 0, 0.3), abs=1e-9)
    assert row["distinct"] == gaps.nunique() == 3


# -- the catalogue


@pytest.fixture
def catalog(tmp_path):
    """Pool runs given as run name -> telemetry frames; `gpu` in the name makes the platform."""

    def pool(recipe: Recipe, *frames: pl.DataFrame) -> pl.DataFrame:
        runs, files = {}, []
        for run in dict.fromkeys(str(frame["run_key"][0]) for frame in frames):
            stacked = pl.concat([f for f in frames if f["run_key"][0] == run], how="diagonal")
            files.append(Path(tmp_path / f"{run}.parquet"))
            quality_metrics(stacked).write_parquet(files[-1])
            runs[run] = "gpu" if "gpu" in run else "cpu"
        return metric_status(files, pl.DataFrame({"run_key": list(runs), "platform": list(runs.values())}), recipe)

    return pool


def status(table: pl.DataFrame) -> dict[str, str]:
    return dict(table.select("metric", "status").iter_rows())


def test_the_table_of_a_tiny_fleet(catalog):
    table = catalog(
        DEFAULT,
        telemetry("r1", missing=[None, None], zero=[0, None], steady=[100.0, 100.01], good=[1, 2]),
        telemetry("r2", missing=[None, None], zero=[0, 0], steady=[100.01, 100.0], good=[1, 2], late=[5, 6]),
    )
    assert table.schema == METRIC_CATALOG.schema
    assert table.select("platform", "metric", "unit", "subsystem", "runs", "status", "reason").rows() == [
        ("cpu", "good", "", "Other", 2, "usable", None),
        ("cpu", "late", "", "Other", 1, "usable", None),
        ("cpu", "missing", "", "Other", 2, "always_missing", "no value in any of 2 runs"),
        ("cpu", "steady", "", "Other", 2, "near_constant", "pooled cv 5.8e-05 is below 0.001"),
        ("cpu", "zero", "", "Other", 2, "always_zero", "0 or missing in all of 2 runs"),
    ]


def test_nothing_to_pool():
    empty = pl.DataFrame(schema={"run_key": pl.String, "platform": pl.String})
    assert metric_status([], empty, DEFAULT).equals(METRIC_CATALOG.empty())


def test_once_is_enough_not_to_be_always(catalog):
    table = catalog(
        DEFAULT,
        telemetry("r1", missing=[None, None], zero=[0, 0]),
        telemetry("r2", missing=[None, 1], zero=[0, 1]),
    )
    assert status(table) == {"missing": "usable", "zero": "usable"}


def test_a_metric_without_a_finite_value_in_any_run_is_always_missing(catalog):
    frames = [telemetry("r1", a=[INF, None], b=[INF, 0]), telemetry("r2", a=[-INF, INF], b=[INF, INF])]
    for recipe, names in ((DEFAULT, ["a", "b"]), (EXACT, ["a.h", "b.h"])):
        table = catalog(recipe, *frames)
        assert table["metric"].to_list() == names
        assert table["status"][0] == "always_missing"
        assert table["status"][1] != "always_missing"


def test_platforms_are_judged_separately_and_runs_that_were_not_requested_not_at_all(catalog, tmp_path):
    table = catalog(DEFAULT, telemetry("r1", a=[0, 0]), telemetry("gpu1", a=[1, 2]))
    assert table.select("platform", "metric", "status", "runs").rows() == [
        ("cpu", "a", "always_zero", 1),
        ("gpu", "a", "usable", 1),
    ]
    files = sorted(tmp_path.glob("*.parquet"))
    only = metric_status(files, pl.DataFrame({"run_key": ["r1"], "platform": ["cpu"]}), DEFAULT)
    assert only["platform"].to_list() == ["cpu"]


def test_by_column_the_host_is_part_of_the_name_and_by_metric_it_is_not(catalog):
    frames = [
        samples_of({"Perf:IPC[-]": [0, 0], "plain": [1, 2]}, "r1", "h1"),
        samples_of({"Perf:IPC[-]": [1, 2], "plain": [0, 0]}, "r2", "h2"),
    ]
    assert status(catalog(EXACT, *frames)) == {
        "Perf:IPC.h1[-]": "always_zero",
        "Perf:IPC.h2[-]": "usable",
        "plain.h1": "usable",
        "plain.h2": "always_zero",
    }
    assert status(catalog(DEFAULT, *frames)) == {"Perf:IPC[-]": "usable", "plain": "usable"}


@pytest.mark.parametrize("name", ["a[%]", "a", "a[b][c]", "a[", "a]", "[x]", "a[]", "a.b\\1[%]", "a b[a/b]", "a[x] y"])
def test_the_host_goes_where_the_column_grammar_puts_it(catalog, name):
    table = catalog(EXACT, samples_of({name: [1, 2]}, "r1", "node-1.x"))
    assert table["metric"].to_list() == [column_name(name, "node-1.x")]


def test_two_hosts_of_one_run_are_one_run(catalog):
    frames = [telemetry("r1", "h1", a=[0, 0]), telemetry("r1", "h2", a=[0, 5])]
    assert catalog(DEFAULT, *frames).select("metric", "runs", "status").rows() == [("a", 1, "usable")]
    assert status(catalog(EXACT, *frames)) == {"a.h1": "always_zero", "a.h2": "usable"}


def test_constant_within_each_run_but_not_between_runs(catalog):
    """What the exact recipe calls near constant, and the default one must not."""
    frames = [telemetry("r1", a=[50, 50]), telemetry("r2", a=[80, 80])]
    assert status(catalog(EXACT, *frames)) == {"a.h": "near_constant"}
    assert status(catalog(DEFAULT, *frames)) == {"a": "usable"}


@pytest.mark.parametrize(
    ("values", "exact", "default"),
    [
        ([-1, 1], "near_constant", "usable"),  # mean 0: mean_cv calls the ratio 0, pooled_cv has none
        ([-10, -20], "near_constant", "usable"),  # negative ratios are counted as 0
        ([7, 7], "near_constant", "near_constant"),
        ([100, 100.5], "near_constant", "usable"),  # cv 0.0035, between the recipes' limits
        ([100, 110], "usable", "usable"),
    ],
)
def test_constancy_of_the_two_recipes(catalog, values, exact, default):
    frame = telemetry("r1", a=values)
    assert status(catalog(EXACT, frame)) == {"a.h": exact}
    assert status(catalog(DEFAULT, frame)) == {"a": default}


def test_pooled_cv_is_that_of_all_samples_together(catalog):
    """It is put together from the runs' means and deviations; here it lies on either side of a limit."""
    parts: list[Values] = [[1, 2, 4, None, 3], [10.5, INF, 11, 12], [-3, None, None, 8], [None, None, None, 7.0]]
    frames = [telemetry(f"r{i}", a=values) for i, values in enumerate(parts)]
    pooled = pd.Series([value for values in parts for value in values], dtype=float).replace([np.inf, -np.inf], np.nan)
    cv = pooled.std(ddof=1) / abs(pooled.mean())
    for limit, expected in ((cv * (1 + 1e-9), "near_constant"), (cv * (1 - 1e-9), "usable")):
        recipe = DEFAULT.model_copy(update={"near_constant": limit})
        assert status(catalog(recipe, *frames)) == {"a": expected}


def test_mean_cv_is_the_mean_over_files(catalog):
    parts: list[Values] = [[1, 2, 4], [10, 10, 10], [-3, -4, None]]
    frames = [telemetry(f"r{i}", a=values) for i, values in enumerate(parts)]
    cv = (np.std([1, 2, 4], ddof=1) / np.mean([1, 2, 4]) + 0 + 0) / 3
    for limit, expected in ((cv * (1 + 1e-9), "near_constant"), (cv * (1 - 1e-9), "usable")):
        recipe = EXACT.model_copy(update={"near_constant": limit})
        assert status(catalog(recipe, *frames)) == {"a.h": expected}


@pytest.mark.parametrize("without", [[None, None, None], [101.0, None, None]])
def test_a_file_without_a_ratio_does_not_count_towards_constancy(catalog, without):
    """As numpy's nanmean in the notebook: missing is missing, it never becomes 0."""
    frames = [telemetry("r1", a=[100, 101.5, 103]), telemetry("r2", a=without)]
    assert status(catalog(EXACT, frames[0])) == {"a.h": "usable"}
    assert status(catalog(EXACT, *frames)) == {"a.h": "usable"}


def test_a_single_sample_cannot_be_constant_across_runs(catalog):
    frames = [telemetry("r1", a=[5]), telemetry("r2", a=[6])]
    assert status(catalog(DEFAULT, *frames)) == {"a": "usable"}


def test_the_order_of_files_does_not_matter(catalog, tmp_path):
    rng = np.random.default_rng(0)
    runs = [f"r{i}" for i in range(6)]
    table = catalog(DEFAULT, *(telemetry(r, a=list(rng.normal(5, 1, 4)), b=list(rng.normal(0, 1, 4))) for r in runs))
    files = [tmp_path / f"{run}.parquet" for run in reversed(runs)]
    reordered = metric_status(files, pl.DataFrame({"run_key": runs, "platform": ["cpu"] * 6}), DEFAULT)
    assert reordered.equals(table)
