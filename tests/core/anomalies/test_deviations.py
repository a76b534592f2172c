"""How far metrics are from what is expected of them, over time: nothing of it is averaged away."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.deviations import STRETCHES, metric_deviations
from infrascope_core.anomalies.standardisation import NOVELTY
from infrascope_core.anomalies.tables import METRIC_DEVIATIONS
from tests.core.anomalies.generated import START, changed, features

LENGTH = dt.timedelta(seconds=3)


def deviations(baseline: Baseline, table: pl.DataFrame) -> pl.DataFrame:
    return metric_deviations(baseline.names, baseline.judge(table), LENGTH)


def test_every_metric_has_a_row_for_each_window_of_a_short_run(baseline):
    found = deviations(baseline, features("new", 40, seed=9))
    assert found.schema == METRIC_DEVIATIONS.schema
    assert found.select("metric", "stretch").rows() == [(metric, i) for metric in "abc" for i in range(40)]
    first = found.row(0, named=True)
    assert (first["start_ts"], first["end_ts"]) == (START, START + LENGTH)


def test_the_farthest_feature_and_the_range_of_what_was_expected_are_what_counts(baseline):
    table = features("new", 40, seed=9)
    residuals = baseline.judge(table)
    found = deviations(baseline, table).filter(metric="b")
    of_b = [i for i, (metric, _) in enumerate(baseline.names) if metric == "b"]
    np.testing.assert_allclose(found["deviation"], np.nanmax(np.abs(residuals.instant[:, of_b]), axis=1), atol=0.005)
    ends = [baseline.names.index(("b", name)) for name in ("minimum", "maximum")]
    low, high = np.sort(residuals.expected[:, ends], axis=1).T  # the features of these windows are random
    np.testing.assert_allclose(found["expected_low"], low, rtol=1e-6)
    np.testing.assert_allclose(found["expected_high"], high, rtol=1e-6)


def test_one_window_of_a_long_run_is_not_lost(baseline):
    at = 1234
    table = changed(features("new", 2000, seed=9), (pl.col("window") == at) & (pl.col("metric") == "c"), 500.0)
    found = deviations(baseline, table).filter(metric="c")
    assert found.height == STRETCHES
    highest = found.sort("deviation", descending=True).row(0, named=True)
    assert highest["start_ts"] <= START + dt.timedelta(seconds=at) < highest["end_ts"]
    assert highest["deviation"] > 3 * found["deviation"].sort()[-2]
    assert (found["end_ts"][:-1] - found["start_ts"][1:]).unique().to_list() == [LENGTH - dt.timedelta(seconds=1)]


def test_that_a_metric_is_missing_is_a_deviation_and_what_is_not_known_stays_so(baseline):
    table = features("new", 20, seed=9).filter((pl.col("metric") != "a") | (pl.col("window") < 10))
    missing = [name for name in baseline.names if name == ("a", "missing")]
    assert missing  # a pseudo-feature that all metrics have
    found = deviations(baseline, table).filter(metric="a")["deviation"].to_list()
    assert found[10:] == [NOVELTY] * 10
    residuals = baseline.judge(table)
    residuals.instant[10:] = np.nan
    unknown = metric_deviations(baseline.names, residuals, LENGTH)["deviation"].is_null()
    assert unknown.to_list() == ([False] * 10 + [True] * 10) * 3


def test_hosts_have_stretches_of_their_own(baseline):
    table = pl.concat([features("new", 400, seed=1, host="h1"), features("new", 5, seed=2, host="h2")])
    found = deviations(baseline, table)
    assert found.group_by("host", maintain_order=True).agg(pl.col("stretch").n_unique()).rows() == [
        ("h1", STRETCHES), ("h2", 5),
    ]  # fmt: skip


def test_what_overflows_single_precision_is_bounded(baseline):
    residuals = baseline.judge(features("new", 5, seed=9))
    residuals.expected[:] = 1e300
    found = metric_deviations(baseline.names, residuals, LENGTH)
    assert found["expected_high"].max() == pytest.approx(np.finfo(np.float32).max)
