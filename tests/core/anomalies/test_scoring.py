"""Scores of windows: flags, alarms, and what is missing, still, new or unknown."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.standardisation import LARGEST_Z, NOVELTY
from infrascope_core.anomalies.tables import ANOMALY_SCORES, FEATURES, WINDOW_FEATURES
from tests.core.anomalies.generated import DETECTOR_NAMES, START, changed, features, fitted, noise, runs, scored


class TestScores:
    def test_a_planted_window_is_flagged_by_all_and_a_planted_stretch_is_an_alarm(self, baseline):
        new = features("new", 100, seed=9)
        lasts = pl.col("window").is_between(40, 59) & (pl.col("metric") == "b")
        new = pl.concat([new, features("calm", 50, seed=10)])
        new = changed(new, lasts & (pl.col("run_key") == "new"), pl.lit(50.0))
        judged = scored(baseline, new.sample(fraction=1, shuffle=True, seed=0))
        assert judged.schema == ANOMALY_SCORES.schema
        assert judged.select("run_key", "window").rows() == [
            *(("calm", i) for i in range(50)),
            *(("new", i) for i in range(100)),
        ]
        row = judged.row(50 + 50, named=True)
        assert row["flagged_by"] == list(DETECTOR_NAMES)
        assert row["agreement"] == 4
        assert row["baseline_version"] == baseline.identity.version
        assert row["start_ts"] == START + dt.timedelta(seconds=50)
        assert row["severity"] == pytest.approx(max(row[d] / t for d, t in baseline.thresholds.items()))
        assert (judged["agreement"] > 0).equals(judged["severity"] > 1)
        assert (judged["flagged_by"].list.len() == judged["agreement"]).all()
        alarms = judged.filter("anomalous")
        # averages remember for ten windows, and what is above the allowance by chance then joins the stretch
        assert set(range(40, 60)) <= set(alarms["window"]) <= set(range(38, 80))
        assert alarms["run_key"].unique().to_list() == ["new"]

    def test_a_metric_that_is_missing_is_abnormal(self, baseline):
        new = features("new", 60, seed=9).filter((pl.col("metric") != "c") | ~pl.col("window").is_between(20, 39))
        judged = scored(baseline, new)
        assert judged.select(*DETECTOR_NAMES).null_count().row(0) == (0, 0, 0, 0)
        assert judged.filter(pl.col("window").is_between(20, 39))["anomalous"].sum() >= 15
        assert not judged.filter(pl.col("window") < 20)["anomalous"].any()

    def test_so_is_one_that_does_not_move(self, baseline):
        new = features("new", 60, seed=9)
        stands = pl.col("window").is_between(20, 39) & (pl.col("metric") == "c")
        judged = scored(baseline, changed(new, stands, pl.lit(10.0), ("minimum", "maximum")))
        assert judged.filter(pl.col("window").is_between(25, 39))["anomalous"].all()

    def test_metrics_that_the_baseline_lacks_are_ignored(self, baseline):
        new = features("new", 30, seed=9)
        more = pl.concat([new, features("new", unknown=noise(30))])
        assert scored(baseline, more).equals(scored(baseline, new))

    def test_a_window_with_no_known_metric_is_one_from_which_all_are_missing(self, baseline):
        strange = scored(baseline, features("new", unknown=noise(3)))
        assert strange["zscore"].to_list() == [NOVELTY] * 3
        assert strange["anomalous"].all()

    def test_no_windows_give_an_empty_table(self, baseline):
        assert scored(baseline, WINDOW_FEATURES.empty()).equals(ANOMALY_SCORES.empty())

    def test_one_window_alone_is_judged(self, baseline):
        among = scored(baseline, features("new", 100, seed=9).filter(pl.col("window") < 40))
        first = scored(baseline, features("new", 100, seed=9).filter(pl.col("window") == 0))
        columns = (*DETECTOR_NAMES, "severity", "surprisal")
        assert first.select(columns).row(0) == pytest.approx(among.select(columns).row(0))

    def test_hosts_of_a_run_are_judged_each_for_itself(self, baseline):
        one, two = features("new", 60, seed=9, host="h1"), features("new", 60, seed=10, host="h2")
        one = changed(one, (pl.col("window") >= 40) & (pl.col("metric") == "b"), pl.lit(50.0))
        both = scored(baseline, pl.concat([two, one]))
        assert both["host"].to_list() == ["h1"] * 60 + ["h2"] * 60
        columns = pl.col(*DETECTOR_NAMES, "surprisal", "severity").round(9)
        for host, alone in (("h1", one), ("h2", two)):
            found = both.filter(host=host)
            assert found.with_columns(columns).equals(scored(baseline, alone).with_columns(columns))
        assert both.filter("anomalous")["host"].unique().to_list() == ["h1"]

    def test_a_baseline_of_one_run_has_no_ranges_and_its_sustained_deviation_stays_silent(self):
        one, past = fitted(runs(1)), fitted(runs(1), compared_with="past")
        assert not one.has_ranges
        assert past.has_ranges
        assert fitted(runs(2)).has_ranges
        new = features("new", 40, seed=9)
        silent, aloud = (b.surprisal(b.scores(b.judge(new))) for b in (one, past))
        assert np.isnan(silent[:, 1]).all()
        assert np.isfinite(silent[:, 0]).all()
        assert np.isfinite(aloud).all()
        assert scored(one, new)["surprisal"].to_list() == pytest.approx(silent[:, 0].tolist())
        assert scored(one, new)["peaks"].is_not_null().all()

    def test_one_feature_that_hardly_moved_cannot_drown_the_others(self):
        still = 1000 + 1e-5 * noise(100)
        narrow = fitted(features(a=noise(100), still=still))
        judged = scored(narrow, features("new", a=noise(5, seed=1), still=still[:5] + 500))
        assert 40 < judged["zscore"].min() <= judged["zscore"].max() <= LARGEST_Z

    def test_what_never_moved_is_a_novelty_elsewhere_and_never_endless(self):
        level = np.full((60, len(FEATURES)), 7.0)
        steady = fitted(pl.concat([features(f"r{i}", a=level) for i in range(2)]))
        new = features("new", a=np.vstack([level[:30], level[:30] + 5]))
        judged = steady.judge(new)
        place = steady.names.index(("a", "maximum"))
        assert judged.instant[:, place].tolist() == [0] * 30 + [NOVELTY] * 30
        assert judged.expected[:, place].tolist() == [7] * 60
        scores = scored(steady, new)
        assert scores.select(pl.col(*DETECTOR_NAMES, "severity", "surprisal").is_finite().all()).row(0) == (True,) * 6
        assert scores["anomalous"][30:].all()
