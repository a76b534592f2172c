"""Baselines: what they learn, what they leave out, their files, and the judging of windows."""

import datetime as dt
import io
import json
import zipfile

import numpy as np
import polars as pl
import pytest

from infrascope_core.baselines import Baseline, fit_baseline, sample_windows, score
from infrascope_core.errors import InfraScopeError, NotFittedError
from infrascope_core.settings import DetectorSettings
from infrascope_core.standardisation import LARGEST_Z
from infrascope_core.tables import ANOMALY_SCORES, FEATURES, WINDOW_FEATURES

SETTINGS = DetectorSettings(trees=20)


def features(run: str = "run", windows: int = 200, seed: int = 0, **metrics) -> pl.DataFrame:
    """Window features: metrics `a`, `b`, `c` at random, or windows x features arrays by name."""
    rng = np.random.default_rng(seed)
    metrics = metrics or {m: rng.normal(10, 2, size=(windows, len(FEATURES))) for m in "abc"}
    frames = [
        pl.DataFrame(
            {
                "run_key": run,
                "host": "h",
                "window": np.arange(len(values)),
                "metric": metric,
                "start_ts": [dt.datetime(2025, 5, 7) + dt.timedelta(seconds=i) for i in range(len(values))],
                **{f: pl.Series(values[:, i], nan_to_null=True) for i, f in enumerate(FEATURES)},
            },
            schema=WINDOW_FEATURES.schema,
        )
        for metric, values in metrics.items()
    ]
    return pl.concat(frames).sort("run_key", "host", "window", "metric")


def fitted(table: pl.DataFrame | None = None, settings: DetectorSettings = SETTINGS) -> Baseline:
    baseline = fit_baseline(features() if table is None else table, "gpu", "train", "W__T__D", settings)
    assert baseline is not None
    return baseline


def test_it_learns_mean_and_standard_deviation_of_each_feature():
    table = pl.concat([features("r1"), features("r2", seed=1)])
    baseline = fitted(table)
    assert baseline.identity.platform == "gpu"
    assert (baseline.identity.phase, baseline.identity.workload) == ("train", "W__T__D")
    assert (baseline.identity.windows, baseline.identity.runs, baseline.metrics) == (400, 2, 3)
    place = baseline.names.index(("b", "kurtosis"))
    body = pl.col("window") >= SETTINGS.opening_windows
    column = table.filter(body, metric="b")["kurtosis"]
    assert baseline.moments.location[place] == pytest.approx(column.mean())
    assert baseline.moments.scale[place] == pytest.approx(column.std(ddof=0))


def test_about_one_percent_of_its_own_windows_is_flagged_by_each_detector():
    judged = score(fitted(), features())
    votes = judged["flagged_by"].explode(empty_as_null=False, keep_nulls=False).value_counts()
    assert dict(votes.iter_rows()) == {"zscore": 2, "mahalanobis": 2, "isolation_forest": 2}


def test_neither_row_order_nor_the_split_into_files_changes_the_version():
    table = pl.concat([features("r1"), features("r2", seed=1)])
    first = fitted(table)
    again = fitted(table.sample(fraction=1, shuffle=True, seed=5))
    assert first.identity == again.identity
    assert fitted(features("r1")).identity.version != first.identity.version
    assert fitted(table, DetectorSettings(trees=21)).identity.version != first.identity.version


def test_too_few_windows_give_no_baseline():
    assert fit_baseline(features(windows=29), "gpu", "train", "w", SETTINGS) is None
    assert fit_baseline(features(windows=30), "gpu", "train", "w", SETTINGS) is not None
    assert fit_baseline(WINDOW_FEATURES.empty(), "gpu", "train", "w", SETTINGS) is None


def test_the_sample_is_bounded_and_the_same_for_any_order_and_for_a_caller_who_samples_first():
    settings = DetectorSettings(trees=20, max_windows=50)
    table = features()
    keys = sample_windows(table, settings)
    assert keys.height == 50
    assert keys.equals(sample_windows(table.sample(fraction=1, shuffle=True, seed=1), settings))
    assert fitted(table, settings).identity.windows == 50
    ahead = table.join(keys, on=["run_key", "host", "window"], how="semi")
    assert fitted(ahead, settings).identity == fitted(table, settings).identity


def test_constant_and_mostly_missing_features_leave():
    moving = np.random.default_rng(0).normal(size=(100, len(FEATURES)))
    constant = np.full_like(moving, 0.1)
    rounding = 1e6 + 1e-9 * moving
    holes = moving.copy()
    holes[:51] = np.nan
    few_holes = moving.copy()
    few_holes[:50] = np.nan
    table = features(moving=moving, constant=constant, rounding=rounding, holes=holes, few=few_holes)
    assert {m for m, _ in fitted(table).names} == {"moving", "few"}
    assert fit_baseline(features(constant=constant), "gpu", "train", "w", SETTINGS) is None


def test_the_file_gives_the_same_baseline_and_the_same_bytes(tmp_path):
    baseline = fitted()
    baseline.save(tmp_path / "new" / "a.npz")
    fitted().save(tmp_path / "b.npz")
    assert (tmp_path / "new" / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = Baseline.load(tmp_path / "b.npz")
    assert again.identity == baseline.identity
    assert again.thresholds == baseline.thresholds
    new = features(seed=9)
    assert score(again, new).equals(score(baseline, new))
    assert sorted(p.name for p in tmp_path.rglob("*.npz*")) == ["a.npz", "b.npz"]


def test_the_file_times_do_not_enter_the_bytes(tmp_path):
    fitted().save(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def repacked(path, **changed) -> None:
    """Write the file anew with some arrays changed."""
    with np.load(path) as file:
        arrays = {k: file[k] for k in file.files} | changed
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


def test_files_that_are_no_baseline_are_refused_in_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    fitted().save(path)
    whole = path.read_bytes()
    with np.load(path) as file:
        meta = json.loads(file["meta"].tobytes())

    def about(**changed) -> np.ndarray:
        return np.frombuffer(json.dumps(meta | changed).encode(), dtype=np.uint8)

    pickled = io.BytesIO()
    np.save(pickled, np.array([{"x": 1}], dtype=object), allow_pickle=True)
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    broken = {
        "empty": lambda: path.write_bytes(b""),
        "text": lambda: path.write_text("a,b\n1,2\n"),
        "truncated": lambda: path.write_bytes(whole[: len(whole) // 2]),
        "flipped": lambda: path.write_bytes(whole[:3000] + bytes(64) + whole[3064:]),
        "pickle": lambda: path.write_bytes(b"\x80\x04K\x01."),
        "object array": lambda: path.write_bytes(pickled.getvalue()),
        "object member": lambda: repacked(path, location=np.array([None])),
        "plain array": lambda: path.write_bytes(plain.getvalue()),
        "no location": lambda: repacked(path, location=None),
        "short scale": lambda: repacked(path, scale=np.ones(2)),
        "zero scale": lambda: repacked(path, scale=np.zeros(30)),
        "later format": lambda: repacked(path, meta=about(format=3)),
        "unknown detector": lambda: repacked(path, meta=about(detectors=["oracle"])),
        "no identity": lambda: repacked(path, meta=about(identity={})),
        "odd meta": lambda: repacked(path, meta=np.frombuffer(b"[]", dtype=np.uint8)),
        "wide forest": lambda: repacked(path, **{"isolation_forest.feature": np.full(5, 999)}),
        "endless forest": lambda: repacked(path, **{"isolation_forest.left": np.zeros(5, dtype=np.int64)}),
        "other projection": lambda: repacked(path, **{"mahalanobis.projection": np.zeros((4, 2))}),
    }
    for name, damage in broken.items():
        path.write_bytes(whole)
        damage()
        with pytest.raises(NotFittedError, match=r"a\.npz: this is not a whole baseline file"):
            Baseline.load(path)
            pytest.fail(name)


def test_a_missing_file_says_that_nothing_is_fitted(tmp_path):
    with pytest.raises(InfraScopeError, match="no such baseline; fit the baselines first"):
        Baseline.load(tmp_path / "none.npz")


def test_scores_flags_agreement_and_severity():
    baseline = fitted()
    new = features(seed=9)
    shift = (pl.col("window") == 7) & (pl.col("metric") == "b")
    new = new.with_columns(pl.when(shift).then(pl.col(f) + 40).otherwise(f).alias(f) for f in FEATURES)
    judged = score(baseline, new.sample(fraction=1, shuffle=True, seed=0))
    assert judged.schema == ANOMALY_SCORES.schema
    assert judged["window"].to_list() == list(range(200))
    row = judged.row(7, named=True)
    assert row["flagged_by"] == ["zscore", "mahalanobis", "isolation_forest"]
    assert row["agreement"] == 3
    assert row["baseline_version"] == baseline.identity.version
    assert row["start_ts"] == dt.datetime(2025, 5, 7, 0, 0, 7)
    assert row["severity"] == pytest.approx(max(row[d] / t for d, t in baseline.thresholds.items()))
    assert judged["severity"].arg_max() == 7
    flagged = judged["severity"] > 1
    assert (judged["agreement"] > 0).equals(flagged)
    assert (judged["flagged_by"].list.len() == judged["agreement"]).all()


def test_runs_with_fewer_or_other_metrics_are_judged_by_what_they_share():
    baseline = fitted()
    new = features(seed=9)
    fewer = score(baseline, new.filter(pl.col("metric") != "c"))
    assert fewer["zscore"].is_not_null().all()
    renamed = new.with_columns(pl.col("metric").replace("c", "unknown"))
    assert score(baseline, renamed).equals(fewer)


def test_windows_without_any_known_feature_have_no_score_and_no_flag():
    strange = features(seed=9, windows=3).with_columns(pl.col("metric") + "_unknown")
    judged = score(fitted(), strange)
    assert judged.select("zscore", "mahalanobis", "isolation_forest", "severity").null_count().row(0) == (
        3,
        3,
        3,
        3,
    )
    assert judged["flagged_by"].to_list() == [[], [], []]
    assert judged["agreement"].to_list() == [0, 0, 0]
    assert score(fitted(), WINDOW_FEATURES.empty()).schema == ANOMALY_SCORES.schema


def test_one_feature_that_hardly_moved_cannot_drown_the_others():
    rng = np.random.default_rng(0)
    still = 1000 + 1e-5 * rng.normal(size=(200, len(FEATURES)))
    baseline = fitted(features(a=rng.normal(size=(200, len(FEATURES))), still=still))
    judged = score(baseline, features(a=rng.normal(size=(5, len(FEATURES))), still=still[:5] + 500))
    assert judged["zscore"].max() <= LARGEST_Z
    assert judged["zscore"].min() > 40
