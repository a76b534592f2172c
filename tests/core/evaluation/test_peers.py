"""The peers score what scikit-learn's own calls score, on the reference's scale."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.evaluation.peers import PEERS, Peers, raw_windows
from infrascope_core.evaluation.settings import EvaluationSettings

SETTINGS = EvaluationSettings(peer_trees=20)


def noise(windows: int, columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(windows, 3)) @ rng.normal(size=(3, columns)) + 0.3 * rng.normal(size=(windows, columns))


def test_pca_reconstruction_equals_scikit_learns():
    reference, judged = noise(80, 8, 0), noise(20, 8, 1)
    scaler = StandardScaler().fit(reference)
    pca = PCA(0.95, svd_solver="full").fit(scaler.transform(reference))
    z = scaler.transform(judged)
    expected = np.square(z - pca.inverse_transform(pca.transform(z))).mean(axis=1)
    scores = Peers(reference, SETTINGS).score(judged)
    assert scores["pca_reconstruction"] == pytest.approx(expected, rel=1e-9)
    assert scores["max_abs_z"] == pytest.approx(np.abs(z).max(axis=1))


def test_damped_pca_reconstruction_equals_scikit_learns_on_logarithms():
    reference, judged = noise(80, 8, 0), noise(20, 8, 1)
    judged[3] *= 1e6
    scaler = StandardScaler().fit(reference)
    learnt, z = (np.sign(x) * np.log1p(np.abs(x)) for x in map(scaler.transform, (reference, judged)))
    pca = PCA(0.95, svd_solver="full").fit(learnt)
    expected = np.square(z - pca.inverse_transform(pca.transform(z))).mean(axis=1)
    assert Peers(reference, SETTINGS).score(judged)["pca_reconstruction_damped"] == pytest.approx(expected, rel=1e-9)


def test_a_planted_deviation_ranks_first_with_every_peer():
    judged = noise(50, 8, 1)
    judged[17] += np.linspace(-40, 40, 8)
    for name, score in Peers(noise(80, 8, 0), SETTINGS).score(judged).items():
        assert score.argmax() == 17, name


def test_what_does_not_move_or_is_mostly_missing_is_left_out():
    reference, judged = noise(80, 8, 0), noise(5, 8, 1)
    plain = Peers(reference, SETTINGS).score(judged)
    constant = np.column_stack([reference, np.full(80, 1e9)])
    absent = np.column_stack([constant, np.where(np.arange(80) < 50, np.nan, 1.0)])
    scores = Peers(absent, SETTINGS).score(np.column_stack([judged, np.full(5, 7.0), np.full(5, 9.0)]))
    for name in PEERS:
        assert scores[name] == pytest.approx(plain[name])


def test_a_missing_value_is_not_a_deviation_and_a_missing_window_has_no_score():
    judged = np.full((2, 8), np.nan)
    judged[0, 0] = 0.0
    scores = Peers(noise(80, 8, 0), SETTINGS).score(judged)
    for name in PEERS:
        assert np.isnan(scores[name]).tolist() == [False, True], name


def test_an_uninformative_reference_gives_no_scores():
    for reference in (np.ones((30, 4)), np.full((30, 4), np.nan), np.zeros((0, 4))):
        assert np.isnan(Peers(reference, SETTINGS).score(noise(3, 4, 0))["max_abs_z"]).all()


def telemetry(values: dict[str, list[float | None]], host: str = "h1") -> pl.DataFrame:
    n = len(next(iter(values.values())))
    start = datetime(2026, 11, 1)
    keys = {"run_key": ["run"] * n, "host": [host] * n, "sample": list(range(n))}
    return pl.DataFrame({**keys, "ts": [start + timedelta(seconds=i) for i in range(n)], **values})


def test_raw_windows_are_averages():
    raw = raw_windows(
        telemetry({"a": [1, 2, 3, 4, 5, 6], "b": [0.0, None, 0.0, 1e12, 1e12 + 1, 1e12 + 2], "c": [None] * 6}),
        FeatureSettings(samples=3, stride=2),
    )
    assert raw["window"].to_list() == [0, 1]
    assert raw["a"].to_list() == [2.0, 4.0]
    assert np.isnan(raw["b"][0])
    assert raw["b"][1] == pytest.approx((0 + 1e12 + 1e12 + 1) / 3)
    assert raw["c"].is_nan().all()


def test_large_counters_keep_their_digits():
    raw = raw_windows(telemetry({"a": [1e12 + i for i in range(300)]}), FeatureSettings(samples=3, stride=3))
    assert raw["a"].diff().drop_nulls().to_list() == pytest.approx([3.0] * 99, abs=1e-3)


def test_a_run_shorter_than_a_window_has_none():
    assert raw_windows(telemetry({"a": [1.0, 2.0]}), FeatureSettings(samples=3, stride=1)).is_empty()
