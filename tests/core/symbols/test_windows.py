"""Symbolic windows: reducers, what is dropped, what counts as missing; pandas is the oracle."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.recipes import MetricGroup, Recipe
from infrascope_core.symbols.tables import CURATED_METRICS, GROUP_WINDOWS
from infrascope_core.symbols.windows import group_windows

START = datetime(2025, 5, 7)
REDUCERS = ("median", "mean", "sum", "max")
INF = float("inf")


def recipe(*reducers: tuple[str, str]) -> Recipe:
    """One group per pair of reducers, named `over-samples_over-metrics`."""
    groups = [
        MetricGroup(
            name=f"{first}_{second}",
            unit="-",
            subsystem="CPU",
            patterns=("x",),
            over_samples=first,
            over_metrics=second,
        )
        for first, second in reducers or [("median", "median")]
    ]
    return Recipe(
        name="test",
        names="metric",
        constancy="pooled_cv",
        near_constant=0,
        method="terciles",
        population="windows",
        quantiles=(0.33, 0.67),
        groups=groups,
    )


def at(sample: int) -> datetime:
    return START + timedelta(milliseconds=100 * sample)


def curated(metrics: dict[str, list[float | None]], group: str = "median_median", host: str = "h") -> pl.DataFrame:
    """Samples of the columns of a group."""
    rows = [
        ("run", host, group, metric, sample, at(sample), value)
        for metric, values in metrics.items()
        for sample, value in enumerate(values)
    ]
    return pl.DataFrame(rows, schema=CURATED_METRICS.schema, orient="row")


def windows(frame: pl.DataFrame, samples: int = 2, of: Recipe | None = None) -> pl.DataFrame:
    return group_windows(frame, of or recipe(), samples)


def test_the_table_of_a_tiny_run():
    table = windows(curated({"a": [1, 3, 5, 7, 9], "b": [10, 20, None, None, 30]}))
    assert table.schema == GROUP_WINDOWS.schema
    assert table.rows() == [
        # run, host, window, group, start, median of the columns' medians, values behind it, columns behind it
        ("run", "h", 0, "median_median", at(0), (2 + 15) / 2, 4, 2),
        ("run", "h", 1, "median_median", at(2), 6.0, 2, 1),
        # the fifth sample is an incomplete window
    ]


@pytest.mark.parametrize(("samples", "values"), [(1, [1, 2, 4, 8, 16]), (2, [1.5, 6]), (3, [2]), (5, [4]), (6, [])])
def test_only_whole_windows_count(samples, values):
    table = windows(curated({"a": [1, 2, 4, 8, 16]}), samples)
    assert table["value"].to_list() == values
    assert table["window"].to_list() == list(range(len(values)))
    assert table["start_ts"].to_list() == [at(samples * i) for i in range(len(values))]


def test_no_samples_give_no_windows():
    assert windows(CURATED_METRICS.empty()).equals(GROUP_WINDOWS.empty())


def test_a_last_window_whose_samples_are_missing_is_still_a_whole_one():
    """Rows count, not values: the length of the run decides which window is the last."""
    table = windows(curated({"a": [1, 2, 3, None]}))
    assert table.select("window", "value", "samples").rows() == [(0, 1.5, 2), (1, 3.0, 1)]


def test_a_window_without_data_has_no_row():
    table = windows(curated({"a": [None, None, 3, 4, None, None], "b": [None, None, None, None, 5, None]}))
    assert table.select("window", "value", "metrics").rows() == [(1, 3.5, 1), (2, 5.0, 1)]


@pytest.mark.parametrize("endless", [INF, -INF, float("nan")])
@pytest.mark.parametrize("reducer", REDUCERS)
def test_infinite_values_count_as_missing(reducer, endless):
    of = recipe((reducer, reducer))
    frame = curated({"a": [4, endless, endless, endless]}, f"{reducer}_{reducer}")
    table = windows(frame, of=of)
    assert table.select("window", "value", "samples", "metrics").rows() == [(0, 4.0, 1, 1)]


@pytest.mark.parametrize("first", REDUCERS)
@pytest.mark.parametrize("second", REDUCERS)
def test_every_pair_of_reducers_is_pandas(first, second):
    metrics: dict[str, list[float | None]]
    metrics = {"a": [1, None, 4, 2, 2, 9], "b": [0.5, 0.25, -3, None, None, None], "c": [7, 7, 8, 1e9, 3, 3]}
    table = windows(curated(metrics, f"{first}_{second}"), 3, recipe((first, second)))
    frame = pd.DataFrame(metrics, dtype=float)
    expected = [getattr(getattr(frame.iloc[s : s + 3], first)(**_one(first)), second)(**_one(second)) for s in (0, 3)]
    assert table["value"].to_list() == pytest.approx(expected, rel=1e-12)


def _one(reducer: str) -> dict[str, int]:
    """Of nothing, pandas makes the sum 0; missing is missing."""
    return {"min_count": 1} if reducer == "sum" else {}


def test_the_start_is_the_first_sample_of_the_window_also_where_its_value_is_missing():
    table = windows(curated({"a": [None, 1, None, 2]}))
    assert table["start_ts"].to_list() == [at(0), at(2)]


def test_repeated_times_and_gaps_do_not_move_windows():
    frame = curated({"a": [1, 2, 3, 4]}).with_columns(ts=pl.Series([at(0), at(0), at(900), at(901)]))
    assert windows(frame).select("start_ts", "value").rows() == [(at(0), 1.5), (at(900), 3.5)]


def test_groups_and_hosts_do_not_mix():
    of = recipe(("median", "median"), ("max", "sum"))
    frame = pl.concat(
        [
            curated({"a": [1, 3]}, host="h2"),
            curated({"a": [5, 7]}, host="h1"),
            curated({"a": [1, 2], "b": [3, 4]}, "max_sum", "h1"),
        ]
    )
    assert windows(frame, of=of).select("host", "metric_group", "value").rows() == [
        ("h1", "max_sum", 6.0),
        ("h1", "median_median", 6.0),
        ("h2", "median_median", 2.0),
    ]


def test_a_column_of_two_groups_counts_in_both():
    of = recipe(("median", "median"), ("sum", "sum"))
    frame = pl.concat([curated({"a": [1, 3]}), curated({"a": [1, 3]}, "sum_sum")])
    assert windows(frame, of=of).select("metric_group", "value").rows() == [("median_median", 2.0), ("sum_sum", 4.0)]


def test_files_and_frames_give_the_same(tmp_path):
    frame = curated({"a": [1, 3, None, 7], "b": [10, 20, 30, None]})
    frame.write_parquet(tmp_path / "run.parquet")
    assert group_windows([tmp_path / "run.parquet"], recipe(), 2).equals(windows(frame))


def test_the_order_of_rows_does_not_matter():
    frame = curated({m: [0.1 * i * (1 + j) for i in range(20)] for j, m in enumerate("abcde")}, "mean_sum")
    of = recipe(("mean", "sum"))
    expected = windows(frame, 5, of)
    for seed in range(3):
        shuffled = windows(frame.sample(fraction=1, shuffle=True, seed=seed), 5, of)
        assert shuffled.drop("value").equals(expected.drop("value"))
        assert shuffled["value"].to_list() == pytest.approx(expected["value"].to_list(), rel=1e-12)


VALUE = st.one_of(
    st.none(),
    st.sampled_from([0.0, 100.0, INF, -INF]),
    st.floats(-1e6, 1e6).map(lambda v: round(v, 3)),
)


@st.composite
def runs(draw):
    samples = draw(st.integers(1, 14))
    columns = draw(st.integers(1, 4))
    return {f"m{i}": draw(st.lists(VALUE, min_size=samples, max_size=samples)) for i in range(columns)}


@settings(max_examples=80)
@given(runs(), st.integers(1, 5), st.sampled_from(REDUCERS), st.sampled_from(REDUCERS))
def test_any_small_run_is_what_pandas_makes_of_it(metrics, samples, first, second):
    frame = pd.DataFrame(metrics, dtype=float).replace([np.inf, -np.inf], np.nan)
    expected = []
    for window in range(len(frame) // samples):
        rows = frame.iloc[window * samples : (window + 1) * samples]
        value = getattr(getattr(rows, first)(**_one(first)), second)(**_one(second))
        if not np.isnan(value):
            known = rows.notna()
            expected.append((window, value, int(known.sum().sum()), int(known.any().sum())))
    table = windows(curated(metrics, f"{first}_{second}"), samples, recipe((first, second)))
    found = table.select("window", "value", "samples", "metrics").rows()
    assert [(w, s, m) for w, _, s, m in found] == [(w, s, m) for w, _, s, m in expected]
    # sums in another order differ in the last digits of their largest term
    assert [v for _, v, _, _ in found] == pytest.approx([v for _, v, _, _ in expected], rel=1e-9, abs=1e-6)
