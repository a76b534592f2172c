"""A run that is judged by itself: what comes and goes is an alarm, and nothing else is called normal."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.alone import comparable, fit_alone
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from tests.core.anomalies.generated import changed, features, scored

SETTINGS = DetectorSettings(trees=20)
WINDOWS = 180


def judged(table: pl.DataFrame) -> pl.DataFrame:
    baseline = fit_alone(table, "gpu", "train", "W", SETTINGS, windows=FeatureSettings())
    assert baseline is not None and str(baseline.identity) == "the run itself"
    return scored(baseline, table)


@pytest.mark.parametrize("seed", range(3))
def test_a_fault_of_30_s_is_an_alarm_and_the_rest_is_not_called_normal(seed):
    lasts = pl.col("window").is_between(90, 119) & (pl.col("metric") == "b")
    found = judged(changed(features("r", WINDOWS, seed=seed), lasts, pl.lit(40.0)))
    alarms = found.filter("anomalous")["window"].to_list()
    assert len(set(alarms) & set(range(90, 120))) >= 25 and set(alarms) <= set(range(88, 123))
    assert found["anomalous"].null_count() == WINDOWS - len(alarms)
    inside = found["window"].is_between(90, 119)
    assert found.filter(inside)["surprisal"].min() > found.filter(~inside)["surprisal"].quantile(0.9)


@pytest.mark.parametrize("seed", range(10, 16))
def test_nothing_is_raised_in_a_run_without_one(seed):
    assert judged(features("r", WINDOWS, seed=seed))["anomalous"].null_count() == WINDOWS


def test_phases_that_come_back_are_no_alarm():
    phase = (pl.col("window") // 15 % 4 == 1) & (pl.col("metric") == "b")
    assert judged(changed(features("r", WINDOWS, seed=1), phase, pl.lit(40.0)))["anomalous"].null_count() == WINDOWS


def test_the_start_and_the_end_of_a_run_are_not_judged():
    start, end = pl.col("window") < 12, pl.col("window") >= WINDOWS - 6
    table = changed(features("r", WINDOWS, seed=2), start & (pl.col("metric") != "a"), pl.col("maximum") * 4)
    found = judged(changed(table, end & (pl.col("metric") != "a"), -pl.col("maximum")))
    assert found["anomalous"].null_count() == WINDOWS
    assert found["surprisal"][:12].null_count() == 12 and found["surprisal"][-6:].null_count() == 6
    assert found["surprisal"][27 : WINDOWS - 27].null_count() == 0


def test_what_lasts_longer_than_a_start_may_is_judged():
    height = np.random.default_rng(0).random(100)
    height[:40] += 9
    assert comparable(height).tolist() == [False] * 15 + [True] * (100 - 15)
    height[:] = np.nan
    assert comparable(height).all()


def test_too_few_windows_have_nothing_to_be_compared_with():
    assert fit_alone(features("r", 29), "gpu", "train", "W", SETTINGS, windows=FeatureSettings()) is None
