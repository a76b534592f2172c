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
        assert row["agreement"] == 5
        assert row["baseline_version"] == baseline.identity.version
        assert row["start_ts"] == START + dt.timedelta(seconds=50)
        assert row["severity"] == pytest.approx(max(row[d] / t for d, t in baseline.thresholds.items()))
        assert (judged["agreement"] > 0).equals(judged["severity"] > 1)
        assert (judged["flagged_by"].list.len() == judged["agreement"]).all()
        alarms = judged.filter("anomalous")
        # averages remember for ten windows; an alarm does not
        assert set(alarms["window"]) == set(range(40, 60))
        assert alarms["run_key"].unique().to_list() == ["new"]

    def test_a_metric_that_is_missing_is_abnormal(self, baseline):
        new = features("new", 60, seed=9).filter((pl.col("metric") != "c") | ~pl.col("window").is_between(20, 39))
        judged = scored(baseline, new)
        assert judged.select(*DETECTOR_NAMES).null_count().row(0) == (0,) * 5
        assert judged.filter(pl.col("window").is_between(20, 39))["anomalous"].sum() >= 15
        assert not judged.filter(pl.col("window") < 20)["anomalous"].any()

    def test_so_is_one_that_does_not_move(self, baseline):
        new = features("new", 60, seed=9)
        stands = pl.col("window").is_between(20, 39) & (pl.col("metric") == "c")
        still = changed(new, stands, pl.lit(0.0), ("standard_deviation",))
        judged = scored(baseline, changed(still, stands, pl.lit(10.0), ("minimum", "maximum")))
        assert judged.filter(pl.col("window").is_between(25, 39))["anomalous"].all()

    def test_metrics_that_the_baseline_lacks_are_ignored(self, baseline):
        new = features("new", 30, seed=9)
        more = pl.concat([new, features("new", unknown=noise(30))])
        assert scored(baseline, more).equals(scored(baseline, new))

    def test_windows_with_no_known_metric_are_ones_from_which_all_are_missing(self, baseline):
        known = features("new", 60, seed=9)
        strange = known.with_columns(
            metric=pl.when(pl.col("window").is_between(20, 39)).then("unknown_" + pl.col("metric")).otherwise("metric")
        )
        judged = scored(baseline, strange)
        assert judged["zscore"][20:40].to_list() == [NOVELTY] * 20
        assert judged["anomalous"].to_list() == [False] * 20 + [True] * 20 + [False] * 20

    def test_what_is_missing_throughout_is_no_alarm(self, baseline):
        strange = scored(baseline, features("new", unknown=noise(60)))
        assert strange["zscore"].to_list() == [0] * 60
        assert not strange["anomalous"].any()

    def test_no_windows_give_an_empty_table(self, baseline):
        assert scored(baseline, WINDOW_FEATURES.empty()).equals(ANOMALY_SCORES.empty())

    def test_one_window_alone_has_nothing_to_stand_out_from(self, baseline):
        first = scored(baseline, features("new", 100, seed=9).filter(pl.col("window") == 0))
        assert first["surprisal"].to_list() == [0]
        assert first["anomalous"].to_list() == [False]

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

    def test_one_reference_run_is_enough_for_an_alarm_and_for_silence(self):
        one = fitted(runs(1))
        new = features("new", 100, seed=9)
        assert not scored(one, new)["anomalous"].any()
        lasts = pl.col("window").is_between(40, 59) & (pl.col("metric") == "b")
        alarms = scored(one, changed(new, lasts, 50.0)).filter("anomalous")
        assert set(alarms["window"]) == set(range(40, 60))

    def test_a_run_that_is_another_throughout_raises_no_alarm_and_what_happens_in_it_does(self, baseline):
        other = features("new", 100, seed=9).with_columns(pl.col("mean", "median", "minimum", "maximum") + 30.0)
        assert not scored(baseline, other)["anomalous"].any()
        lasts = pl.col("window").is_between(40, 59) & (pl.col("metric") == "b")
        alarms = scored(baseline, changed(other, lasts, 90.0)).filter("anomalous")
        assert set(alarms["window"]) == set(range(40, 60))

    def test_a_run_does_not_judge_itself(self):
        lasts = pl.col("window").is_between(40, 59) & (pl.col("metric") == "b") & (pl.col("run_key") == "r0")
        mixed = changed(runs(3), lasts, 50.0)
        unlabelled = fitted(mixed)
        own = mixed.filter(run_key="r0")
        alone, others = scored(unlabelled, own), scored(unlabelled.without("r0"), own)
        assert alone["surprisal"][40:60].mean() < 0.8 * others["surprisal"][40:60].mean()
        assert set(others.filter("anomalous")["window"]) == set(range(40, 60))
        assert unlabelled.without("unknown") is unlabelled

    def test_one_feature_that_hardly_moved_cannot_drown_the_others(self):
        still = 1000 + 1e-3 * noise(100)
        narrow = fitted(features(a=noise(100), still=still))
        moved = still[:60].copy()
        moved[30:40] += 500
        judged = scored(narrow, features("new", a=noise(60, seed=1), still=moved))["zscore"]
        assert 40 < judged[30:40].min() <= judged.max() <= LARGEST_Z

    def test_what_never_moved_is_a_novelty_elsewhere_and_never_endless(self):
        level = np.full((60, len(FEATURES)), 7.0)
        steady = fitted(pl.concat([features(f"r{i}", a=level) for i in range(2)]))
        new = features("new", a=np.vstack([level[:30], level[:30] + 5]))
        judged = steady.judge(new)
        place = steady.names.index(("a", "maximum"))
        assert judged.instant[:, place].tolist() == [0] * 30 + [NOVELTY] * 30
        assert judged.expected[:, place].tolist() == [7] * 60
        scores = scored(steady, new)
        assert scores.select(pl.col(*DETECTOR_NAMES, "severity", "surprisal").is_finite().all()).row(0) == (True,) * 7
        assert scores["anomalous"][30:].all()


class TestPlaces:
    """No two starts are alike: what stands out there in the references as well is no alarm."""

    @staticmethod
    def unruly(key: str, seed: int, first: int, last: int) -> pl.DataFrame:
        """A run some windows of which are like no others."""
        rng = np.random.default_rng(100 + seed)
        wild = noise(100, seed)
        wild[first : last + 1] += rng.normal(0, 25, (last + 1 - first, 1))
        return features(key, 100, 0, "h", a=wild, b=noise(100, seed + 50), c=noise(100, seed + 90))

    def test_an_unruly_start_is_usual_where_references_have_one(self):
        calm = fitted(pl.concat([self.unruly(f"r{i}", i, 0, -1) for i in range(4)]))
        unruly = fitted(pl.concat([self.unruly(f"r{i}", i, 0, 7) for i in range(4)]))
        new = self.unruly("new", 9, 0, 7)
        assert scored(calm, new)["anomalous"][:8].any()
        assert not scored(unruly, new)["anomalous"].any()
        # elsewhere it is not
        elsewhere = scored(unruly, self.unruly("new", 9, 40, 47))["surprisal"][40:48]
        assert elsewhere.max() > 1 + scored(unruly, new)["surprisal"][:8].max()

    def test_a_reference_says_nothing_of_what_is_usual_for_itself(self):
        table = pl.concat([self.unruly("r0", 0, 0, 7), *(self.unruly(f"r{i}", i, 0, -1) for i in range(1, 4))])
        baseline = fitted(table)
        own = baseline.without("r0")
        assert np.isnan(own.heights[own.references.run == 0]).all()
        assert np.isfinite(own.heights[own.references.run != 0]).all()
        assert scored(own, table.filter(run_key="r0"))["anomalous"][:8].any()
