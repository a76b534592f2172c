"""Features of sliding windows: from telemetry to `window_features`, and from there to a matrix.

What belongs here: per-window statistics of single metrics, under tsfresh's names and with tsfresh's values
(Reveal, section 4.2: 3 s windows every 1 s). What is normal for a feature is the business of `baselines.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.settings import FeatureSettings
from infrascope_core.tables import FEATURES, WINDOW_FEATURES

WINDOW = ("run_key", "host", "window")
_INDEX = ("run_key", "host", "sample", "ts")
_CHUNK_VALUES = 2**19
"""Window values worked on at once: 4 MiB per temporary array, about what a core's cache holds."""
_VARIANCE_IS_ZERO = 1e-8
"""`numpy.isclose(variance, 0)`, which tsfresh asks before it divides, is true up to this absolute bound."""

Array = NDArray[np.float64]
_T = TypeVar("_T", bound=np.generic)


def window_features(
    telemetry: pl.DataFrame, settings: FeatureSettings, metrics: Sequence[str] | None = None
) -> pl.DataFrame:
    """Compute the features of every metric in sliding windows.

    Parameters
    ----------
    telemetry : polars.DataFrame
        `run_key`, `host`, `sample`, `ts`, and one numeric column per metric.
    settings : FeatureSettings
        Window length and stride in samples; an incomplete last window is dropped.
    metrics : sequence of str, optional
        Metrics to use; all by default. Names that the telemetry lacks are passed over.

    Returns
    -------
    polars.DataFrame
        Table `window_features`, by run, host, window and metric. A window in which a metric has a missing or
        infinite sample has no row for that metric; a feature that is not defined is null.

    Notes
    -----
    Definitions are tsfresh's (0.21): population variance; pandas' adjusted skewness G1 and kurtosis G2; the
    lag-1 autocorrelation `sum((x[t] - m)(x[t+1] - m)) / ((n - 1) variance)`; the least-squares slope over
    0..n-1. Skewness, kurtosis and autocorrelation of a constant window are null (pandas 3.1; earlier pandas
    gave 0). tsfresh also refuses an autocorrelation where `numpy.isclose(variance, 0)`, that is a variance
    of at most 1e-8 in the metric's own unit, however small the metric; so does this.
    Moments are taken about the window's own mean, so 1e12 with a noise of 1 keeps its digits.
    """
    usable = sorted(c for c in (telemetry.columns if metrics is None else metrics) if c not in _INDEX)
    usable = [c for c in dict.fromkeys(usable) if c in telemetry.columns]
    if not usable or telemetry.is_empty():
        return WINDOW_FEATURES.empty()
    parts = [
        _host_features(part if part["sample"].is_sorted() else part.sort("sample"), settings, usable)
        for _, part in sorted(telemetry.partition_by("run_key", "host", as_dict=True).items(), key=lambda p: p[0])
    ]
    return pl.concat(parts)


def _host_features(host: pl.DataFrame, settings: FeatureSettings, metrics: list[str]) -> pl.DataFrame:
    """Features of one host's samples, which are in order."""
    windows = (host.height - settings.samples) // settings.stride + 1
    if host.height < settings.samples:
        return WINDOW_FEATURES.empty()
    out = np.full((len(FEATURES), windows, len(metrics)), np.nan)
    complete = np.zeros((windows, len(metrics)), dtype=bool)
    width = max(1, _CHUNK_VALUES // (windows * settings.samples))
    for start in range(0, len(metrics), width):
        names = metrics[start : start + width]
        values = np.ascontiguousarray(host.select(pl.col(names).cast(pl.Float64)).to_numpy().T)
        finite = np.isfinite(values)
        whole = _windows(finite, settings).all(axis=2)
        # A stand-in for missing samples keeps the arithmetic quiet; their windows are left out below.
        features = _features(_windows(np.where(finite, values, 0.0), settings))
        complete[:, start : start + width] = whole.T
        out[:, :, start : start + width] = features.transpose(0, 2, 1)
    out[~np.isfinite(out)] = np.nan
    kept = np.flatnonzero(complete.ravel())
    window, metric = np.divmod(kept, len(metrics))
    starts = host["ts"].gather(np.arange(windows) * settings.stride)
    return (
        pl.DataFrame(
            {
                "run_key": pl.repeat(host["run_key"][0], len(kept), eager=True),
                "host": pl.repeat(host["host"][0], len(kept), eager=True),
                "window": window,
                "metric": pl.Series(metrics).gather(metric),
                "start_ts": starts.gather(window),
                **{
                    name: pl.Series(values.ravel()[kept], nan_to_null=True)
                    for name, values in zip(FEATURES, out, strict=True)
                },
            }
        )
        .select(WINDOW_FEATURES.schema.names())
        .cast(WINDOW_FEATURES.schema)
    )


def _windows(values: NDArray[_T], settings: FeatureSettings) -> NDArray[_T]:
    """View (metrics x samples) as (metrics x windows x samples of the window)."""
    view = np.lib.stride_tricks.sliding_window_view(values, settings.samples, axis=1)
    return view[:, :: settings.stride]


def _features(x: Array) -> Array:
    """Features of windows of finite values.

    Parameters
    ----------
    x : ndarray, metrics x windows x samples
        Finite.

    Returns
    -------
    ndarray, features x metrics x windows
        In the order of `FEATURES`; what is not defined is NaN.
    """
    n = x.shape[-1]
    low, high = x.min(axis=-1), x.max(axis=-1)
    constant = low == high
    with np.errstate(all="ignore"):
        mean = x.mean(axis=-1)
        d = x - mean[..., None]
        # The mean itself is rounded; what is left of it is taken out again.
        rest = d.mean(axis=-1)
        d -= rest[..., None]
        mean = np.where(constant, low, mean + rest)
        d[constant] = 0.0
        square = d * d
        m2 = square.sum(axis=-1)
        m3 = np.einsum("...i,...i", square, d)
        m4 = np.einsum("...i,...i", square, square)
        variance = m2 / n
        skewness = n * np.sqrt(n - 1) / (n - 2) * m3 / m2**1.5
        kurtosis = np.full_like(m2, np.nan)
        if n > 3:
            kurtosis = (n * (n + 1) * (n - 1) * m4 / m2**2 - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3))
        lagged = np.einsum("...i,...i", d[..., :-1], d[..., 1:])
        autocorrelation = np.where(variance <= _VARIANCE_IS_ZERO, np.nan, lagged / ((n - 1) * variance))
        time = np.arange(n) - (n - 1) / 2
        slope = np.einsum("...i,i", d, time) / (time @ time)
        steps = np.diff(d, axis=-1)
        features = np.stack(
            [
                mean,
                variance,
                np.sqrt(variance),
                np.where(constant, np.nan, skewness),
                np.where(constant, np.nan, kurtosis),
                low,
                high,
                np.median(x, axis=-1),
                autocorrelation,
                slope,
                mean * n,
                np.abs(steps).mean(axis=-1),
                np.where(constant, np.nan, _dickey_fuller(d[..., :-1], steps)),
            ]
        )
    # what overflowed is not known
    return np.where(np.isfinite(features), features, np.nan)


def _dickey_fuller(before: Array, steps: Array) -> Array:
    """t statistic of the regression of each step on a constant and the value before it (Dickey and Fuller, 1979)."""
    n = before.shape[-1]
    if n < 3:
        return np.full(before.shape[:-1], np.nan)
    before = before - before.mean(axis=-1, keepdims=True)
    steps = steps - steps.mean(axis=-1, keepdims=True)
    xx = np.einsum("...i,...i", before, before)
    xy = np.einsum("...i,...i", before, steps)
    yy = np.einsum("...i,...i", steps, steps)
    residual = yy - xy * xy / xx
    # what is left of a perfect fit is rounding
    residual = np.where(residual > yy * 1e-12, residual, np.nan)
    return np.asarray(xy / np.sqrt(residual * xx / (n - 2)))


def feature_matrix(features: pl.DataFrame, names: Sequence[tuple[str, str]]) -> tuple[pl.DataFrame, Array]:
    """Pivot window features into a matrix.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features`, in any order.
    names : sequence of (metric, feature)
        The matrix's columns, in order; pairs that the features lack give columns of NaN.

    Returns
    -------
    windows : polars.DataFrame
        `run_key`, `host`, `window`, `start_ts` of every window of the features, in that order.
    matrix : ndarray, windows x names
        NaN where a feature is missing.
    """
    keys = features.select(*WINDOW, "start_ts").unique(WINDOW).sort(WINDOW).with_row_index("row")
    matrix = np.full((keys.height, len(names)), np.nan)
    metrics = sorted({metric for metric, _ in names})
    known = pl.DataFrame({"metric": metrics, "code": np.arange(len(metrics))}, schema_overrides={"metric": pl.String})
    cells = features.join(known, on="metric").join(keys.select("row", *WINDOW), on=WINDOW)
    row, code = cells["row"].to_numpy(), cells["code"].to_numpy()
    for feature in dict.fromkeys(feature for _, feature in names):
        position = {metric: i for i, (metric, name) in enumerate(names) if name == feature}
        column = np.array([position.get(metric, -1) for metric in metrics])[code]
        wanted = column >= 0
        matrix[row[wanted], column[wanted]] = cells[feature].to_numpy()[wanted]
    return keys.drop("row"), matrix
