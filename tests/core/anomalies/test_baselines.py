"""Baselines: what they learn, what they leave out, their files, and the judging of windows."""

import datetime as dt
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.anomalies.baselines import (
    ANY,
    Baseline,
    Identity,
    baseline_matrix,
    fit_baseline,
    lasting,
    sample_windows,
    score,
)
from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.anomalies.standardisation import LARGEST_Z, NOVELTY
from infrascope_core.anomalies.tables import ANOMALY_SCORES, FEATURES, WINDOW_FEATURES
from infrascope_core.errors import InfraScopeError, NotFittedError

SETTINGS = DetectorSettings(trees=20)
START = dt.datetime(2025, 5, 7)
NAN = np.nan
ALL = ("zscore", "mahalanobis", "isolation_forest", "peaks")


def features(run: str = "run", windows: int = 100, seed: int = 0, host: str = "h", **metrics) -> pl.DataFrame:
    """Window features: metrics `a`, `b`, `c` at random, or windows x features arrays by name."""
    rng = np.random.default_rng(seed)
    metrics = metrics or {m: rng.normal(10, 2, size=(windows, len(FEATURES))) for m in "abc"}
    frames = [
        pl.DataFrame(
            {
                "run_key": run,
                "host": host,
                "window": np.arange(len(values)),
                "metric": metric,
                "start_ts": [START + dt.timedelta(seconds=i) for i in range(len(values))],
                **{f: pl.Series(values[:, i], nan_to_null=True) for i, f in enumerate(FEATURES)},
            },
            schema=WINDOW_FEATURES.schema,
        )
        for metric, values in metrics.items()
    ]
    return pl.concat(frames).sort("run_key", "host", "window", "metric")


def noise(windows: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(10, 2, size=(windows, len(FEATURES)))


def runs(number: int, windows: int = 100) -> pl.DataFrame:
    return pl.concat([features(f"r{i}", windows, seed=i) for i in range(number)])


def fitted(table: pl.DataFrame, settings: DetectorSettings = SETTINGS, **how) -> Baseline:
    baseline = fit_baseline(table, "gpu", "train", "W__T__D", settings, **how)
    assert baseline is not None
    return baseline


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    """Of four runs of 100 windows with three metrics."""
    return fitted(runs(4))


def scored(baseline: Baseline, table: pl.DataFrame) -> pl.DataFrame:
    return score(baseline, baseline.judge(table))


def changed(table: pl.DataFrame, where: pl.Expr, to: object, of: tuple[str, ...] = FEATURES) -> pl.DataFrame:
    return table.with_columns(pl.when(where).then(to).otherwise(f).alias(f) for f in of)


class TestIdentity:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, "4 runs of train W"),
            ({"runs": 1}, "1 run of train W"),
            ({"compared_with": "reference"}, "4 runs known to be healthy of train W"),
            ({"compared_with": "reference", "runs": 1}, "1 run known to be healthy of train W"),
            ({"phase": ANY, "workload": ANY}, "4 runs of all workloads on cpu"),
            ({"phase": ANY}, "4 runs of any W"),
            ({"compared_with": "past", "runs": 1}, "the run's own past"),
        ],
    )
    def test_it_says_in_words_what_a_window_was_compared_with(self, changes, words):
        assert str(replace(Identity("cpu", "train", "W", "workload", 90, 4, "v"), **changes)) == words


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

    def test_surprisals_say_how_often_a_fresh_window_is_as_surprising(self):
        baseline = fitted(runs(6))
        fresh = pl.concat([features(f"new{i}", seed=100 + i) for i in range(10)])
        surprisal = baseline.surprisal(baseline.scores(baseline.judge(fresh)))
        assert np.median(surprisal, axis=0) == pytest.approx([0.3, 0.3], abs=0.15)
        assert (surprisal > 1).mean(axis=0) == pytest.approx([0.1, 0.1], abs=0.07)
        assert (surprisal > 3).mean() < 0.02
        assert not scored(baseline, fresh)["anomalous"].any()

    def test_neither_row_order_nor_the_split_into_files_changes_anything(self, baseline, tmp_path):
        again = fitted(runs(4).sample(fraction=1, shuffle=True, seed=5))
        assert again.identity == baseline.identity
        again.save(tmp_path / "a.npz")
        baseline.save(tmp_path / "b.npz")
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()

    def test_other_windows_or_settings_make_another_version(self, baseline):
        assert fitted(runs(3)).identity.version != baseline.identity.version
        assert fitted(runs(4), DetectorSettings(trees=21)).identity.version != baseline.identity.version

    def test_too_few_windows_give_no_baseline(self):
        assert fit_baseline(features(windows=29), "gpu", "train", "w", SETTINGS) is None
        assert fit_baseline(features(windows=30), "gpu", "train", "w", SETTINGS) is not None
        assert fit_baseline(WINDOW_FEATURES.empty(), "gpu", "train", "w", SETTINGS) is None

    @pytest.mark.parametrize("windows", [[3], [7], [19], [1, 2], [29, 1]])
    def test_few_windows_or_a_run_of_one_window_are_no_mishap(self, windows):
        table = pl.concat([features(f"r{i}", n, seed=i) for i, n in enumerate(windows)])
        few = fitted(table, DetectorSettings(trees=5, min_windows=2))
        judged = scored(few, features("new", 5, seed=9))
        assert judged.select(*ALL).null_count().row(0) == (0, 0, 0, 0)

    def test_places_count_where_runs_are_of_one_program_only(self, baseline):
        assert baseline.references.band == (SETTINGS.place_windows, SETTINGS.place_share)
        for phase, workload, how in ((ANY, "w", "workload"), (ANY, ANY, "workload"), ("train", "w", "past")):
            other = fit_baseline(features(), "gpu", phase, workload, SETTINGS, compared_with=how)
            assert other.references.band is None

    def test_how_windows_were_cut_says_which_share_samples(self):
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

    def test_missing_and_still_are_read_off_the_ends(self):
        ends = {"minimum": [1.0, 2.0, NAN, 4.0], "maximum": [1.0, 3.0, NAN, NAN], "mean": [1.0, 2.5, 7.0, 4.0]}
        values = np.full((4, len(FEATURES)), NAN)
        for name, column in ends.items():
            values[:, FEATURES.index(name)] = column
        names = [("a", "mean"), ("a", "missing"), ("a", "still"), ("b", "missing"), ("b", "still")]
        windows, matrix = baseline_matrix(features(a=values), names)
        assert windows["window"].to_list() == [0, 1, 2, 3]
        np.testing.assert_array_equal(
            matrix,
            [[1, 0, 1, 1, NAN], [2.5, 0, 0, 1, NAN], [7, 1, NAN, 1, NAN], [4, 1, NAN, 1, NAN]],
        )

    def test_their_mean_is_usual_because_quantiles_of_noughts_and_ones_say_nothing(self):
        now_and_then = noise()
        now_and_then[::5] = NAN
        moments, names = (b := fitted(features(a=now_and_then, b=noise()))).moments, b.names
        place = names.index(("a", "missing"))
        assert (moments.location[place], moments.scale[place]) == pytest.approx((0.2, 0.4))

    def test_a_matrix_without_them_is_the_features_own(self):
        _, matrix = baseline_matrix(features(a=noise(3)), [("a", "maximum"), ("a", "mean")])
        np.testing.assert_array_equal(matrix, noise(3)[:, [FEATURES.index("maximum"), FEATURES.index("mean")]])


class TestSample:
    @staticmethod
    def keys(*heights: int) -> pl.DataFrame:
        return pl.concat(
            pl.DataFrame({"run_key": f"r{i:03}", "host": "h", "window": np.arange(n)}) for i, n in enumerate(heights)
        )

    def test_whole_runs_if_they_fit(self):
        keys = self.keys(70, 50)
        chosen = sample_windows(pl.concat([keys, keys]), DetectorSettings(max_windows=120))
        assert chosen.equals(keys)

    def test_else_stretches_of_sixty_from_all_runs_which_begin_at_other_places(self):
        chosen = sample_windows(self.keys(*[1000] * 5), DetectorSettings(max_windows=700))
        begins = []
        for _, run in chosen.group_by("run_key", maintain_order=True):
            windows = run["window"].to_numpy()
            assert len(windows) == 120
            for stretch in windows.reshape(2, 60):
                assert np.diff(stretch).tolist() == [1] * 59
            assert windows[60] >= windows[59] + 1
            begins.append(int(windows[0]))
        assert len(set(begins)) == 5

    def test_of_more_runs_than_there_is_room_for_a_seeded_choice(self):
        keys = self.keys(*[100] * 30)
        chosen = sample_windows(keys, DetectorSettings(max_windows=300))
        assert chosen["run_key"].n_unique() == 5
        assert chosen.height == 300
        assert chosen.equals(sample_windows(keys, DetectorSettings(max_windows=300)))
        other = sample_windows(keys, DetectorSettings(max_windows=300, random_state=1))
        assert set(other["run_key"]) != set(chosen["run_key"])

    @given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(60, 900))
    def test_never_more_than_there_is_room_for_nor_a_window_twice(self, heights, most):
        settings = DetectorSettings(max_windows=most)
        keys = self.keys(*heights)
        chosen = sample_windows(keys.sample(fraction=1, shuffle=True, seed=0), settings)
        assert 0 < chosen.height <= most
        assert chosen.unique().height == chosen.height
        assert chosen.join(keys, on=["run_key", "host", "window"], how="anti").is_empty()
        assert chosen.equals(sample_windows(keys, settings))
        assert chosen.equals(sample_windows(chosen, settings))  # who samples ahead fits on the same

    def test_who_reads_the_chosen_windows_only_has_the_same_baseline(self):
        settings = DetectorSettings(trees=5, max_windows=60)
        table = runs(2, windows=90)
        keys = sample_windows(table, settings)
        ahead = table.join(keys, on=["run_key", "host", "window"], how="semi")
        assert fitted(ahead, settings).identity == fitted(table, settings).identity
        assert fitted(table, settings).identity.windows == 60


class TestLasting:
    @staticmethod
    def windows(run: list[str], host: list[str], window: list[int]) -> pl.DataFrame:
        return pl.DataFrame({"run_key": run, "host": host, "window": window})

    def test_averages_of_a_window_and_those_before_it(self):
        index = self.windows(["r"] * 5, ["h"] * 5, [0, 1, 2, 3, 4])
        z = np.array([[3.0, -3.0], [0.0, NAN], [6.0, 40.0], [0.0, -40.0], [0.0, 0.0]])
        np.testing.assert_allclose(
            lasting(z, index, 3),
            # what was before the run and what is missing count as no deviation, what is beyond 10 as 10
            [[1, -1], [1, -1], [3, 7 / 3], [2, 0], [2, 0]],
            atol=1e-15,
        )

    def test_what_was_before_a_gap_or_in_another_run_or_host_is_forgotten(self):
        index = self.windows(["r", "r", "r", "r", "s", "s"], ["h", "h", "h", "i", "i", "i"], [0, 1, 3, 4, 5, 6])
        found = lasting(np.full((6, 1), 4.0), index, 2)
        np.testing.assert_allclose(found.ravel(), [2, 4, 2, 2, 2, 4])

    @pytest.mark.parametrize("span", [1, 2, 5, 10])
    def test_longer_series_against_a_sum_written_out(self, span):
        rng = np.random.default_rng(span)
        z = rng.normal(0, 6, size=(40, 2))
        kept = np.flatnonzero(rng.random(60) < 0.9)[:40]
        index = self.windows(["r"] * 40, ["h"] * 40, kept.tolist())
        at = {window: row for row, window in enumerate(kept)}
        expected = np.zeros_like(z)
        for window, row in at.items():
            for before in range(span):
                if window - before not in at:
                    break
                expected[row] += np.clip(z[at[window - before]], -10, 10) / span
        np.testing.assert_allclose(lasting(z, index, span), expected, atol=1e-12)

    def test_no_windows(self):
        assert lasting(np.zeros((0, 3)), self.windows([], [], []), 10).shape == (0, 3)


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
        assert row["flagged_by"] == list(ALL)
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
        assert judged.select(*ALL).null_count().row(0) == (0, 0, 0, 0)
        assert judged.filter(pl.col("window").is_between(20, 39))["anomalous"].sum() >= 15
        assert not judged.filter(pl.col("window") < 20)["anomalous"].any()

    def test_so_is_one_that_stands_still(self, baseline):
        new = features("new", 60, seed=9)
        stands = pl.col("window").is_between(20, 39) & (pl.col("metric") == "c")
        judged = scored(baseline, changed(new, stands, pl.lit(10.0), ("minimum", "maximum")))
        assert judged.filter(pl.col("window").is_between(25, 39))["anomalous"].all()

    def test_what_the_baseline_does_not_know_is_passed_over(self, baseline):
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
        columns = (*ALL, "severity", "surprisal")
        assert first.select(columns).row(0) == pytest.approx(among.select(columns).row(0))

    def test_hosts_of_a_run_are_judged_each_for_itself(self, baseline):
        one, two = features("new", 60, seed=9, host="h1"), features("new", 60, seed=10, host="h2")
        one = changed(one, (pl.col("window") >= 40) & (pl.col("metric") == "b"), pl.lit(50.0))
        both = scored(baseline, pl.concat([two, one]))
        assert both["host"].to_list() == ["h1"] * 60 + ["h2"] * 60
        columns = pl.col(*ALL, "surprisal", "severity").round(9)
        for host, alone in (("h1", one), ("h2", two)):
            found = both.filter(host=host)
            assert found.with_columns(columns).equals(scored(baseline, alone).with_columns(columns))
        assert both.filter("anomalous")["host"].unique().to_list() == ["h1"]

    def test_a_baseline_of_one_run_does_not_know_ranges_and_its_peaks_stay_silent(self):
        one, past = fitted(runs(1)), fitted(runs(1), compared_with="past")
        assert not one.knows_ranges
        assert past.knows_ranges
        assert fitted(runs(2)).knows_ranges
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
        assert judged.now[:, place].tolist() == [0] * 30 + [NOVELTY] * 30
        assert judged.expected[:, place].tolist() == [7] * 60
        scores = scored(steady, new)
        assert scores.select(pl.col(*ALL, "severity", "surprisal").is_finite().all()).row(0) == (True,) * 6
        assert scores["anomalous"][30:].all()


class TestFile:
    def test_it_gives_the_same_baseline_the_same_bytes_and_the_same_scores(self, baseline, tmp_path):
        baseline.save(tmp_path / "new" / "a.npz")
        again = Baseline.load(tmp_path / "new" / "a.npz")
        again.save(tmp_path / "b.npz")
        assert (tmp_path / "new" / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
        assert again.identity == baseline.identity
        assert (again.names, again.thresholds) == (baseline.names, baseline.thresholds)
        assert (again.alarm, again.allowance, again.span) == (4.0, 1.0, 10)
        new = features("new", seed=9)
        assert scored(again, new).equals(scored(baseline, new))
        assert sorted(p.name for p in tmp_path.rglob("*npz*")) == ["a.npz", "b.npz"]

    def test_the_time_does_not_enter_the_bytes(self, baseline, tmp_path):
        baseline.save(tmp_path / "a.npz")
        with zipfile.ZipFile(tmp_path / "a.npz") as file:
            assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}

    def test_files_that_are_no_baseline_are_refused_in_one_sentence(self, baseline, tmp_path):
        path = tmp_path / "a.npz"
        baseline.save(path)
        whole = path.read_bytes()
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays["meta"].tobytes())

        def forged(**of) -> bytes:
            buffer = io.BytesIO()
            kept = {name: value for name, value in (arrays | of).items() if value is not None}
            np.savez(buffer, **kept)
            return buffer.getvalue()

        def about(**of) -> bytes:
            return forged(meta=np.frombuffer(json.dumps(meta | of).encode(), dtype=np.uint8))

        def saved(array: np.ndarray) -> bytes:
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=True)
            return buffer.getvalue()

        broken = {
            "empty": b"",
            "text": b"a,b\n1,2\n",
            "truncated": whole[: len(whole) // 2],
            "flipped": whole[:3000] + bytes(64) + whole[3064:],
            "pickle": b"\x80\x04K\x01.",
            "object array": saved(np.array([{"x": 1}], dtype=object)),
            "object member": forged(**{"moments.location": np.array([None])}),
            "plain array": saved(np.zeros(3)),
            "no location": forged(**{"moments.location": None}),
            "short scale": forged(**{"moments.scale": np.ones(2)}),
            "zero scale": forged(**{"moments.scale": np.zeros(len(baseline.names))}),
            "other format": about(format=2),
            "unknown detector": about(detectors=["oracle"]),
            "one detector": about(detectors=["zscore"]),
            "other order": about(detectors=list(DETECTORS)[::-1]),
            "no identity": about(identity={}),
            "unknown feature": about(names=[[metric, "mood"] for metric, _ in meta["names"]]),
            "fewer names": about(names=meta["names"][:-1]),
            "text as threshold": about(thresholds=dict.fromkeys(DETECTORS, "x")),
            "nothing to average": about(span=0),
            "odd meta": forged(meta=np.frombuffer(b"[]", dtype=np.uint8)),
            "deep meta": forged(meta=np.frombuffer(b"[" * 100_000, dtype=np.uint8)),
            "wide forest": forged(
                **{"isolation_forest.feature": np.full_like(arrays["isolation_forest.feature"], 999)}
            ),
            "endless forest": forged(**{"isolation_forest.left": np.zeros_like(arrays["isolation_forest.left"])}),
            "other projection": forged(**{"mahalanobis.projection": np.zeros((4, 2))}),
            "other peaks": forged(**{"peaks.starts": np.array([0, 2, 999]), "peaks.range": np.ones(3)}),
            "no ranges": forged(**{"peaks.range": None}),
            "other references": forged(**{"references.z": np.zeros((5, 5), dtype=np.float16)}),
            "unknown run": forged(**{"references.run": arrays["references.run"] + 9}),
            "one calibration": forged(**{"calibration1.grid": None}),
            "other calibration": forged(**{"calibration0.middle": np.zeros(1)}),
        }
        for name, content in broken.items():
            path.write_bytes(content)
            with pytest.raises(NotFittedError, match=r"a\.npz: this is not a whole baseline file"):
                Baseline.load(path)
                pytest.fail(name)

    def test_a_missing_file_says_that_nothing_is_fitted(self, tmp_path):
        with pytest.raises(InfraScopeError, match="no such baseline; fit the baselines first"):
            Baseline.load(tmp_path / "none.npz")
