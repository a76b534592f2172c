"""A run's own level: what is taken off, from which windows, and what is said of it."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.levels import Levels, between_runs, is_long, periods, quiet_share
from infrascope_core.anomalies.offsets import level_offsets
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import LEVEL_OFFSETS
from tests.core.anomalies.generated import SETTINGS, START, changed, features, fitted, runs

DAY = 86_400


def every(seconds: int, number: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "run_key": "r",
            "host": "h",
            "window": np.arange(number),
            "start_ts": [START + dt.timedelta(seconds=seconds * i) for i in range(number)],
        }
    )


def share_of(windows: pl.DataFrame, settings: DetectorSettings) -> float:
    return quiet_share(is_long(windows["start_ts"], settings), settings)


def test_a_run_has_one_level_and_what_was_watched_for_weeks_one_every_two_days():
    ((key, rows, share),) = periods(every(1, 300), SETTINGS)
    assert (key, rows.tolist(), share) == (("r", "h"), list(range(300)), 0.1)
    parts = [(rows, share) for _, rows, share in periods(every(3600, 24 * 16), SETTINGS)]
    assert len(parts) == 7  # of 15 days and 23 hours
    assert np.concatenate([rows for rows, _ in parts]).tolist() == list(range(24 * 16))
    assert {share for _, share in parts} == {0.5}
    assert share_of(every(3600, 24 * 16), SETTINGS) == 0.5
    assert share_of(every(1, 1), SETTINGS) == 0.1


@pytest.fixture(scope="module")
def other() -> pl.DataFrame:
    """A run whose metric `b` is 60 higher throughout, and 90 higher for a while."""
    shifted = pl.when(pl.col("metric") == "b").then(60.0).otherwise(0.0)
    lasts = pl.col("window").is_between(40, 59) & (pl.col("metric") == "b")
    higher = features("new", 100, seed=9).with_columns(pl.col("mean", "median", "minimum", "maximum") + shifted)
    return changed(higher, lasts, 160.0, ("mean", "median", "minimum", "maximum"))


def test_the_level_is_part_of_what_is_expected(baseline, other):
    residuals = baseline.judge(other)
    column = baseline.names.index(("b", "mean"))
    assert residuals.expected[:40, column].mean() == pytest.approx(70, abs=2)
    assert np.abs(residuals.instant[:40, column]).mean() < 2
    assert residuals.instant[45:55, column].min() > 20


def test_what_a_run_differs_in_is_said_by_metric(baseline, other):
    offsets = level_offsets(baseline, baseline.judge(other), SETTINGS)
    assert offsets.schema == LEVEL_OFFSETS.schema
    first = offsets.row(0, named=True)
    assert (first["metric"], first["rank"], first["differs"]) == ("b", 1, True)
    assert first["value"] == pytest.approx(70, abs=3)
    assert first["expected"] == pytest.approx(10, abs=3)
    assert offsets["times"].is_sorted(descending=True)
    assert offsets.filter("differs")["metric"].to_list() == ["b"]
    none = level_offsets(baseline, baseline.judge(features("like", 100, seed=8)), SETTINGS)
    assert not none["differs"].any()


def test_references_that_lie_apart_make_room_for_others():
    apart = pl.concat(
        [
            features(f"r{i}", seed=i).with_columns(pl.col("mean", "median", "minimum", "maximum") + 30.0 * i)
            for i in range(4)
        ]
    )
    strange = features("new", seed=9).with_columns(pl.col("mean", "median", "minimum", "maximum") + 60.0)
    wide, narrow = fitted(apart), fitted(runs(4))
    assert not level_offsets(wide, wide.judge(strange), SETTINGS)["differs"].any()
    assert level_offsets(narrow, narrow.judge(strange), SETTINGS)["differs"].any()


def test_one_reference_has_the_width_of_the_prior():
    one = Levels(pl.DataFrame({"run_key": ["a"], "host": ["h"]}), np.array([[5.0, 0.0]]), [np.arange(3)])
    assert between_runs(one).tolist() == [1.0, 1.0]
    two = Levels(pl.DataFrame({"run_key": ["a", "b"], "host": ["h", "h"]}), np.array([[5.0, 0.0], [-5.0, 0.0]]), [])
    # three runs' worth of 1, and 25 twice
    assert between_runs(two) == pytest.approx([np.sqrt(53 / 5), np.sqrt(3 / 5)])


def test_at_least_a_third_of_a_short_run_can_stand_out(baseline):
    lasts = (pl.col("window") >= 6) & (pl.col("metric") == "b")
    short = changed(features("new", 12, seed=9), lasts, 90.0)
    residuals = baseline.judge(short)
    assert len(residuals.levels.quiet[0]) == 4
    assert residuals.levels.quiet[0].max() < 6


def test_settings_say_how_long_an_incident_lasts():
    brief = DetectorSettings(longest_incident_s=3600)
    assert share_of(every(60, 600), brief) == 0.5
    assert share_of(every(60, 600), SETTINGS) == 0.1
    # however many windows of a run of minutes are taken to be quiet, it does not become a long one
    assert not is_long(every(60, 600)["start_ts"], DetectorSettings(quiet_share=0.5))


@pytest.mark.parametrize(
    ("metric", "differs"),
    [
        ("Memory:SReclaimable[kB]", False),
        ("Meminfo:Cached[kB]", False),
        ("Memory:Active(file)[kB]", False),
        ("Memory:Active(anon)[kB]", True),
        ("Memory:MemAvailable[kB]", True),
    ],
)
def test_what_other_runs_left_in_the_caches_is_shown_and_no_difference(metric, differs):
    def of(run: str, seed: int) -> pl.DataFrame:
        return features(run, 100, seed).with_columns(pl.col("metric").replace({"b": metric})).sort("window", "metric")

    baseline = fitted(pl.concat([of(f"r{i}", i) for i in range(3)]))
    warmer = changed(of("new", 9), pl.col("metric") == metric, pl.col("maximum") + 60, ("mean", "median"))
    offsets = level_offsets(baseline, baseline.judge(warmer), SETTINGS)
    assert offsets["metric"][0] == metric and offsets["times"][0] > SETTINGS.differs_at
    assert offsets["differs"].any() == differs
