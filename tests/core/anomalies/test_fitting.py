"""Fitting: what a baseline learns, and what it leaves out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.baseline import ANY
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.model_file import save_baseline
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.anomalies.tables import FEATURES, WINDOW_FEATURES
from tests.core.anomalies.generated import DETECTOR_NAMES, SETTINGS, features, fitted, noise, runs, scored

NAN = np.nan


class TestWhatItLearns:
    def test_it_learns_median_and_deciles_of_each_feature(self, baseline):
        assert baseline.identity.platform == "gpu"
        assert (baseline.identity.phase, baseline.identity.workload) == ("train", "W__T__D")
        assert baseline.identity.compared_with == "workload"
        assert (baseline.identity.windows, baseline.identity.runs, baseline.metrics) == (400, 4, 3)
        place = baseline.names.index(("b", "kurtosis"))
        column = runs(4).filter(metric="b")["kurtosis"]
        assert baseline.moments.location[place] == pytest.approx(column.median())
        deciles = column.quantile(0.9, "linear") - column.quantile(0.1, "linear")
        assert baseline.moments.scale[place] == pytest.approx(deciles / 2.5631031310892007)

    def test_or_mean_and_standard_deviation(self):
        plain = fitted(runs(2), DetectorSettings(trees=5, scale="plain"))
        column = runs(2).filter(metric="b")["kurtosis"]
        place = plain.names.index(("b", "kurtosis"))
        assert plain.moments.location[place] == pytest.approx(column.mean())
        assert plain.moments.scale[place] == pytest.approx(column.std(ddof=0))

    def test_thresholds_are_of_windows_that_were_compared_with_other_runs(self, baseline):
        own = scored(baseline, runs(4))
        # the Z-score learns nothing, so that its scores are the same in and out of the folds
        assert baseline.thresholds["zscore"] == pytest.approx(own["zscore"].quantile(0.99, "linear"))

    def test_and_judged_by_detectors_that_had_not_seen_them(self, baseline):
        own = scored(baseline, runs(4))
        assert baseline.thresholds["mahalanobis"] > own["mahalanobis"].quantile(0.99, "linear")
        assert own["peaks"].max() <= 1  # within the range that they made themselves

    def test_surprisals_are_calibrated_on_fresh_windows(self):
        baseline = fitted(runs(6))
        fresh = pl.concat([features(f"new{i}", seed=100 + i) for i in range(10)])
        residuals = baseline.judge(fresh)
        surprisal = baseline.surprisal(baseline.scores(residuals), residuals.windows)
        assert np.median(surprisal, axis=0) == pytest.approx([0.45, 0.45], abs=0.15)
        # a prior of runs that are less even than these counts beside them
        assert ((surprisal > 1).mean(axis=0) < 0.15).all()
        assert (surprisal > 3).mean() < 0.02
        assert not scored(baseline, fresh)["anomalous"].any()

    def test_neither_row_order_nor_the_split_into_files_changes_anything(self, baseline, tmp_path):
        again = fitted(runs(4).sample(fraction=1, shuffle=True, seed=5))
        assert again.identity == baseline.identity
        save_baseline(again, tmp_path / "a")
        save_baseline(baseline, tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_other_windows_or_settings_make_another_version(self, baseline):
        assert fitted(runs(3)).identity.version != baseline.identity.version
        assert fitted(runs(4), DetectorSettings(trees=21)).identity.version != baseline.identity.version

    def test_too_few_windows_give_no_baseline(self):
        assert fit_baseline(features(windows=29), "gpu", "train", "w", SETTINGS) is None
        assert fit_baseline(features(windows=30), "gpu", "train", "w", SETTINGS) is not None
        assert fit_baseline(WINDOW_FEATURES.empty(), "gpu", "train", "w", SETTINGS) is None

    @pytest.mark.parametrize("windows", [[3], [7], [19], [1, 2], [29, 1]])
    def test_few_windows_or_a_run_of_one_window_raise_nothing(self, windows):
        table = pl.concat([features(f"r{i}", n, seed=i) for i, n in enumerate(windows)])
        few = fitted(table, DetectorSettings(trees=5, min_windows=2))
        judged = scored(few, features("new", 5, seed=9))
        assert judged.select(*DETECTOR_NAMES).null_count().row(0) == (0,) * 5

    def test_places_count_where_runs_are_of_one_program_only(self, baseline):
        assert baseline.references.band == (SETTINGS.place_windows, SETTINGS.place_share)
        for phase, workload, how in ((ANY, "w", "workload"), (ANY, ANY, "workload"), ("train", "w", "past")):
            other = fit_baseline(features(), "gpu", phase, workload, SETTINGS, compared_with=how)
            assert other.references.band is None

    def test_window_length_and_stride_decide_which_windows_share_samples(self):
        table = features()
        assert fitted(table).references.overlap == 3  # 3 s windows every 1 s
        assert fitted(table, windows=FeatureSettings(samples=25, stride=10)).references.overlap == 3
        assert fitted(table, windows=FeatureSettings(samples=10, stride=10)).references.overlap == 1


class TestWhatItWatches:
    def test_of_a_moving_metric_all_but_the_sum_which_repeats_the_mean(self, baseline):
        own = [feature for metric, feature in baseline.names if metric == "a"]
        assert own == [*(f for f in FEATURES if f != "sum_values"), "missing", "still"]

    def test_of_an_event_counter_its_sum_and_burst(self):
        events = np.full((60, len(FEATURES)), NAN)
        places = [FEATURES.index("sum_values"), FEATURES.index("maximum")]
        events[:, places] = np.random.default_rng(0).poisson(3, size=(60, 2))
        names = fitted(features(events=events)).names
        assert names == (("events", "maximum"), ("events", "sum_values"), ("events", "missing"))

    def test_of_what_never_moved_one_feature(self):
        constant, rounding = np.full((60, len(FEATURES)), 0.1), 1e6 + 1e-9 * noise()
        names = fitted(features(constant=constant, rounding=rounding)).names
        watched = ("maximum", "missing", "still")
        assert names == tuple((metric, feature) for metric in ("constant", "rounding") for feature in watched)

    def test_nothing_of_what_is_mostly_missing(self):
        holes, few = noise(), noise()
        holes[:31], few[:30] = NAN, NAN
        assert {metric for metric, _ in fitted(features(moving=noise(), holes=holes, few=few)).names} == {
            "moving",
            "few",
        }
        assert fit_baseline(features(holes=holes), "gpu", "train", "w", SETTINGS) is None

    def test_their_mean_is_usual_because_quantiles_of_zeros_and_ones_are_uninformative(self):
        now_and_then = noise()
        now_and_then[::5] = NAN
        moments, names = (b := fitted(features(a=now_and_then, b=noise()))).moments, b.names
        place = names.index(("a", "missing"))
        assert (moments.location[place], moments.scale[place]) == pytest.approx((0.2, 0.4))
