"""Methods to compare with, fitted on the same reference windows as ours and scoring the same windows.

What belongs here: PCA reconstruction error (of deviations as they are, and damped), Isolation Forest and the largest
|z|, each as a practitioner would take it from a library; and the averages of metrics that they get beside features.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from sklearn import decomposition, ensemble
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from infrascope_core.anomalies.detectors.base import damped
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.evaluation.settings import EvaluationSettings
from infrascope_core.numeric import Array, Mask
from infrascope_core.run_files.telemetry import metric_names, split_hosts

PEERS = ("pca_reconstruction", "pca_reconstruction_damped", "isolation_forest", "max_abs_z")
"""Names of the peers, in the order of `Peers.score`. Damping changes no order within a column: the forest and the
largest |z| would rank the same with it."""


class Peers:
    """The peers, fitted on windows of reference runs.

    A column that is missing from more than half of the reference windows, or does not move in them, is left out. A
    missing value is no deviation. PCA and forest get bounded deviations, as our own detectors do, so that a nearly
    still column does not drown all others: the peers are to be as strong as they can be made without knowing more.

    Parameters
    ----------
    reference : ndarray, windows x columns
        NaN is missing.
    settings : EvaluationSettings
        `peer_variance`, `peer_trees`, `peer_bound`, `random_state`.
    """

    def __init__(self, reference: Array, settings: EvaluationSettings) -> None:
        self._bound = settings.peer_bound
        known = np.isfinite(reference)
        count = known.sum(axis=0)
        with np.errstate(all="ignore"):
            self._mean = np.where(known, reference, 0.0).sum(axis=0) / count
            gap = np.where(known, reference - self._mean, 0.0)
            self._scale = np.sqrt((gap**2).sum(axis=0) / count)
            moves = self._scale > 1e-12 * np.maximum(np.abs(self._mean), np.finfo(float).tiny)
        self._used = (count * 2 >= len(reference)) & moves & np.isfinite(self._scale)
        self._fitted = bool(self._used.any()) and len(reference) > 1
        if not self._fitted:
            return
        deviation = self._deviation(reference)
        z = self._bounded(deviation)
        # one thread, as with `numeric.one_thread`; that looks once for the libraries of linear algebra that are loaded,
        # and scikit-learn brings its own
        with threadpool_limits(limits=1):
            plain, of_damped = (
                decomposition.PCA(n_components=settings.peer_variance, svd_solver="full").fit(data)
                for data in (z, damped(deviation))
            )
        self._pca, self._damped_pca = plain, of_damped
        self._forest = ensemble.IsolationForest(
            n_estimators=settings.peer_trees, random_state=settings.random_state
        ).fit(z.astype(np.float32))

    def score(self, windows: Array) -> dict[str, Array]:
        """Scores by peer, one a window, higher is more abnormal; NaN for a window without any value.

        Parameters
        ----------
        windows : ndarray, windows x columns
            The same columns as those of the reference.
        """
        nothing = np.full(len(windows), np.nan)
        if not self._fitted or not len(windows):
            return dict.fromkeys(PEERS, nothing)
        deviation = self._deviation(windows)
        z = self._bounded(deviation)
        with threadpool_limits(limits=1):
            error, error_damped = _outside(self._pca, z), _outside(self._damped_pca, damped(deviation))
            isolation = -self._forest.score_samples(z.astype(np.float32))
        known = np.isfinite(windows[:, self._used]).any(axis=1)
        scores = (error, error_damped, isolation, np.abs(deviation).max(axis=1))
        return {name: np.where(known, score, np.nan) for name, score in zip(PEERS, scores, strict=True)}

    def _deviation(self, windows: Array) -> Array:
        used = self._used
        z = (windows[:, used] - self._mean[used]) / self._scale[used]
        return np.where(np.isfinite(z), z, 0.0)

    def _bounded(self, deviation: Array) -> Array:
        bounded: Array = np.clip(deviation, -self._bound, self._bound)
        return bounded


def _outside(pca: decomposition.PCA, z: Array) -> Array:
    """Mean squared part of each row outside the subspace; the components are orthonormal."""
    y = z - pca.mean_
    error: Array = np.square(y - (y @ pca.components_.T) @ pca.components_).mean(axis=1)
    return error


def raw_windows(telemetry: pl.DataFrame, settings: FeatureSettings) -> pl.DataFrame:
    """Average all metrics over the feature windows.

    Parameters
    ----------
    telemetry : polars.DataFrame
        A telemetry frame, samples in order; cumulative counters as differences.
    settings : FeatureSettings
        Length and stride of the windows, in samples.

    Returns
    -------
    polars.DataFrame
        `host`, `window`, and one column per metric; NaN where a sample of the window is missing or infinite.
    """
    parts = [_host_windows(part, settings) for part in split_hosts(telemetry)]
    return pl.concat(parts, how="diagonal") if parts else pl.DataFrame(schema={"host": pl.String, "window": pl.Int64})


def _host_windows(host: pl.DataFrame, settings: FeatureSettings) -> pl.DataFrame:
    names = metric_names(host)
    windows = max((host.height - settings.samples) // settings.stride + 1, 0)
    start = np.arange(windows) * settings.stride
    values = host.select(pl.col(names).cast(pl.Float64)).to_numpy()
    finite = np.isfinite(values)
    # sums of what is left after a typical value: counters of 1e12 keep their digits
    offset = np.where(finite.any(axis=0), _first_finite(values, finite), 0.0)
    total = np.cumsum(np.where(finite, values - offset, 0.0), axis=0, out=np.zeros_like(values))
    total = np.vstack([np.zeros((1, len(names))), total])
    lost = np.vstack([np.zeros((1, len(names)), dtype=np.int64), np.cumsum(~finite, axis=0)])
    end = start + settings.samples
    mean = (total[end] - total[start]) / settings.samples + offset
    mean = np.where(lost[end] == lost[start], mean, np.nan)
    keys = {"host": pl.repeat(host["host"][0], windows, eager=True), "window": np.arange(windows)}
    return pl.DataFrame({**keys, **{name: mean[:, i] for i, name in enumerate(names)}})


def _first_finite(values: Array, finite: Mask) -> Array:
    first: Array = values[finite.argmax(axis=0), np.arange(values.shape[1])]
    return first
