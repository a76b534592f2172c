"""Features of sliding windows: from telemetry to `window_features`, and from there to a matrix.

What belongs here: per-window statistics of single metrics, under tsfresh's names and with tsfresh's values
(Reveal, section 4.2: 3 s windows every 1 s). What is normal for a feature is the business of `baseline`.

The 13 features are computed here, and not by tsfresh, because it takes 743 times as long per window (`make bench`);
tests hold its values as the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import STORED_FEATURES, WINDOW_FEATURES
from infrascope_core.contract import HOST_KEY, WINDOW_KEY
from infrascope_core.frames import numbered, split
from infrascope_core.numeric import Array, Ints, Mask

_INDEX = ("run_key", "host", "sample", "ts")
_CHUNK_VALUES = 2**19
"""Window values worked on at once: 4 MiB per temporary array, about what a core's cache holds."""
_VARIANCE_IS_ZERO = 1e-8
"""`numpy.isclose(variance, 0)`, which tsfresh asks before it divides, is true up to this absolute bound."""
_SQUARES_MAX = 1e145
"""A sum of squared deviations beyond it, or below its inverse, has fourth powers that leave the range of floats."""
_ROUNDING = 1e-20
"""Share of a sum of squares that cannot be distinguished from rounding: deviations of less than ten digits."""
EVENT_COUNTER_FEATURES = ("sum_values", "maximum")
"""How often the events came, and their burst: 8 of them in one sample do not show in the sum of 3 s at 1 a sample."""

STATIC_FEATURES = ("maximum",)
"""A level that has no course within a window, and is watched for leaving its value: a link that trains down."""

DYNAMIC_FEATURES = tuple(feature for feature in STORED_FEATURES if feature != "sum_values")
"""All that cannot be told from the others."""

_KINDS = ("event_counter", "static")

_T = TypeVar("_T", bound=np.generic)


def window_features(
    telemetry: pl.DataFrame,
    settings: FeatureSettings,
    metrics: Sequence[str] | None = None,
    classes: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Compute the features of every metric in sliding windows.

    Parameters
    ----------
    telemetry : polars.DataFrame
        `run_key`, `host`, `sample`, `ts`, and one numeric column per metric.
    settings : FeatureSettings
        Window length and stride in samples; an incomplete last window is dropped.
    metrics : sequence of str, optional
        Metrics to use; all by default. Names that the telemetry lacks are ignored.
    classes : mapping of str to str, optional
        Class of a metric (`metric_catalog.metric_class`; Reveal, section 4.2): an `event_counter` has
        `EVENT_COUNTER_FEATURES` and no others, a `static` metric `STATIC_FEATURES`. All others, and metrics without
        a class, are `dynamic` and have every feature.

    Returns
    -------
    polars.DataFrame
        Table `window_features`, by run, host, metric and window. A window in which a metric has a missing or
        infinite sample is in no row of that metric; a feature that is not defined is null.

    Notes
    -----
    Definitions are tsfresh's (0.21): population variance; pandas' adjusted skewness G1 and kurtosis G2; the
    lag-1 autocorrelation `sum((x[t] - m)(x[t+1] - m)) / ((n - 1) variance)`; the least-squares slope over
    0..n-1. tsfresh's Dickey-Fuller test is augmented by 9 lags at 30 samples, which leaves 20 steps for 11
    coefficients; here it has none: `statsmodels.tsa.stattools.adfuller(x, maxlag=0, autolag=None)`, t of b in
    `x[t+1] - x[t] = a + b x[t]` (Dickey and Fuller, 1979).

    Null are: skewness, kurtosis, autocorrelation and Dickey-Fuller t of a constant window, the kurtosis of
    three samples, the Dickey-Fuller t of three samples (two steps, two coefficients), of a window constant but
    for its last sample (no b), and of one that a and b fit but for rounding (a ramp, a first sample before a
    constant), where statsmodels divides rounding by rounding. tsfresh also refuses an autocorrelation where
    `numpy.isclose(variance, 0)`, that is a variance of at most 1e-8 in the metric's own unit, however small the
    metric; so does this. What overflows is null, and so are those four where deviations are beyond about 1e71
    or below 1e-72, whose fourth powers are no floats.

    Moments are taken about the window's own mean, so 1e12 with a noise of 1 keeps its digits.
    """
    usable = sorted(c for c in (telemetry.columns if metrics is None else metrics) if c not in _INDEX)
    known = set(telemetry.columns)
    classes = classes or {}
    usable = [c for c in dict.fromkeys(usable) if c in known]
    kinds = np.array([k if (k := classes.get(c)) in _KINDS else "dynamic" for c in usable])
    if not usable or telemetry.is_empty():
        return WINDOW_FEATURES.empty()
    parts = [
        _host_features(part if part["sample"].is_sorted() else part.sort("sample"), settings, usable, kinds)
        for part in split(telemetry, HOST_KEY)
    ]
    return pl.concat(parts)


def _host_features(
    host: pl.DataFrame, settings: FeatureSettings, metrics: list[str], kinds: NDArray[np.str_]
) -> pl.DataFrame:
    """Features of one host's samples, which are in order."""
    windows = (host.height - settings.samples) // settings.stride + 1
    if host.height < settings.samples:
        return WINDOW_FEATURES.empty()
    out = np.full((len(STORED_FEATURES), len(metrics), windows), np.nan, dtype=np.float32)
    complete = np.ones((len(metrics), windows), dtype=bool)
    repeats = np.zeros((len(metrics), windows), dtype=bool)
    width = max(1, _CHUNK_VALUES // (windows * settings.samples))
    for kind, features_of, of_kind in (
        ("dynamic", _features, DYNAMIC_FEATURES),
        ("event_counter", _event_counter_features, EVENT_COUNTER_FEATURES),
        ("static", _static_features, STATIC_FEATURES),
    ):
        names, rows = np.flatnonzero(kinds == kind), [STORED_FEATURES.index(name) for name in of_kind]
        for start in range(0, len(names), width):
            chunk = names[start : start + width]
            columns = [pl.col(metrics[i]).cast(pl.Float64) for i in chunk]
            samples = np.ascontiguousarray(host.select(columns).to_numpy().T)
            finite = np.isfinite(samples)
            if not finite.all():
                # A stand-in for missing samples keeps the arithmetic quiet; their windows are left out below.
                samples = np.where(finite, samples, 0.0)
                complete[chunk] = _windows(finite, settings).all(axis=2)
            with np.errstate(all="ignore"):
                features = features_of(_windows(samples, settings)).astype(np.float32)
            # what overflowed is not known
            features[~np.isfinite(features)] = np.nan
            repeats[chunk, 1:] = (features.view(np.int32)[..., 1:] == features.view(np.int32)[..., :-1]).all(axis=0)
            for row, values in zip(rows, features, strict=True):
                out[row, chunk] = values
    kept, lasting = _stretches(complete, repeats)
    metric, window = np.divmod(kept, windows)
    starts = host["ts"].gather(np.arange(windows) * settings.stride)
    return (
        pl.DataFrame(
            {
                "run_key": pl.repeat(host["run_key"][0], len(kept), eager=True),
                "host": pl.repeat(host["host"][0], len(kept), eager=True),
                "metric": pl.Series(metrics).gather(metric),
                "window": window,
                "windows": lasting,
                "start_ts": starts.gather(window),
                "samples": pl.repeat(settings.samples, len(kept), eager=True),
                **{
                    name: pl.Series(values.ravel()[kept], nan_to_null=True)
                    for name, values in zip(STORED_FEATURES, out, strict=True)
                },
            }
        )
        .select(WINDOW_FEATURES.schema.names())
        .cast(WINDOW_FEATURES.schema)
    )


def _stretches(complete: Mask, repeats: Mask) -> tuple[Ints, Ints]:
    """First windows of stretches in which a metric has the same features, and how many windows each has.

    Parameters
    ----------
    complete, repeats : ndarray of bool, metrics x windows
        The metric has features there; they are those of the window before.

    Returns
    -------
    first, lasting : ndarray of int
        Places in the flat metrics x windows, and numbers of windows. Every window of which a metric has features is the
        first of some stretch, so that its time is known.
    """
    begins = complete.copy()
    begins[:, 1:] &= ~(repeats[:, 1:] & complete[:, :-1])
    for window in np.flatnonzero(complete.any(axis=0) & ~begins.any(axis=0)):
        begins[complete[:, window].argmax(), window] = True
    ends = begins | ~complete
    ends[:, 0] = True
    edges = np.flatnonzero(ends)
    lasting = np.diff(edges, append=ends.size)
    first = begins.ravel()[edges]
    return edges[first], lasting[first]


def _windows(values: NDArray[_T], settings: FeatureSettings) -> NDArray[_T]:
    """View (metrics x samples) as (metrics x windows x samples of the window)."""
    view = np.lib.stride_tricks.sliding_window_view(values, settings.samples, axis=1)
    return view[:, :: settings.stride]


def _sum(x: Array) -> Array:
    """Sum over the last axis; on rows as short as these several times faster than `x.sum(axis=-1)`."""
    return np.asarray(np.einsum("...i->...", x))


def _event_counter_features(x: Array) -> Array:
    """`EVENT_COUNTER_FEATURES` of windows of finite values; (2, metrics, windows)."""
    return np.stack([_sum(x), x.max(axis=-1)])


def _static_features(x: Array) -> Array:
    """`STATIC_FEATURES` of windows of finite values; (1, metrics, windows)."""
    return np.asarray(x.max(axis=-1)[None])


def _features(x: Array) -> Array:
    """Features of windows of finite values.

    Parameters
    ----------
    x : ndarray, metrics x windows x samples
        Finite.

    Returns
    -------
    ndarray, features x metrics x windows
        In the order of `DYNAMIC_FEATURES`; what is not defined is NaN, what overflowed is NaN or infinite.
    """
    n = x.shape[-1]
    # a vectorised sort of short rows is several times faster than `numpy.median`, and gives both ends as well
    ordered = np.sort(x, axis=-1)
    low, high = ordered[..., 0], ordered[..., -1]
    constant = low == high
    total = _sum(x)
    mean = total / n
    d = x - mean[..., None]
    # The mean itself is rounded; what is left of it is taken out again.
    rest = _sum(d) / n
    d -= rest[..., None]
    mean = np.where(constant, low, mean + rest)
    d[constant] = 0.0
    square = d * d
    m2 = np.einsum("...i,...i", d, d)
    m3 = np.einsum("...i,...i", square, d)
    m4 = np.einsum("...i,...i", square, square)
    variance = m2 / n
    shapely = (m2 > 1 / _SQUARES_MAX) & (m2 < _SQUARES_MAX)
    skewness = n * np.sqrt(n - 1) / (n - 2) * m3 / m2**1.5
    kurtosis = np.full_like(m2, np.nan)
    if n > 3:
        kurtosis = (n * (n + 1) * (n - 1) * m4 / m2**2 - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3))
    lagged = np.einsum("...i,...i", d[..., :-1], d[..., 1:])
    autocorrelation = lagged / ((n - 1) * variance)
    time = np.arange(n) - (n - 1) / 2
    slope = np.einsum("...i,i", d, time) / (time @ time)
    steps = np.diff(x, axis=-1)
    return np.stack(
        [
            mean,
            np.sqrt(variance),
            np.where(shapely, skewness, np.nan),
            np.where(shapely, kurtosis, np.nan),
            low,
            high,
            ordered[..., (n - 1) // 2 : n // 2 + 1].mean(axis=-1),
            np.where(shapely & (variance > _VARIANCE_IS_ZERO), autocorrelation, np.nan),
            slope,
            _sum(np.abs(steps)) / (n - 1),
            np.where(shapely, _dickey_fuller(d[..., :-1], steps), np.nan),
        ]
    )


def _dickey_fuller(before: Array, steps: Array) -> Array:
    """Dickey-Fuller t, that of b in steps = a + b before, over the last axis; NaN where it rests on rounding."""
    n = before.shape[-1]
    if n < 3:
        return np.full(before.shape[:-1], np.nan)
    before_rounding = _ROUNDING * np.einsum("...i,...i", before, before)
    steps_rounding = _ROUNDING * np.einsum("...i,...i", steps, steps)
    before = before - _sum(before)[..., None] / n
    steps = steps - _sum(steps)[..., None] / n
    xx = np.einsum("...i,...i", before, before)
    b = np.einsum("...i,...i", before, steps) / xx
    before *= b[..., None]
    steps -= before
    residual = np.einsum("...i,...i", steps, steps)
    defined = (xx > before_rounding) & (residual > steps_rounding)
    return np.where(defined, b / np.sqrt(residual / ((n - 2) * xx)), np.nan)


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
    keys, place = _numbered_windows(features)
    matrix = np.full((keys.height, len(names)), np.nan)
    cells = matrix.reshape(-1)
    codes = {metric: code for code, metric in enumerate(dict.fromkeys(metric for metric, _ in names))}
    code = features["metric"].replace_strict(codes, default=len(codes), return_dtype=pl.Int64).to_numpy()
    columns = {feature: np.full(len(codes) + 1, -1) for feature in dict.fromkeys(feature for _, feature in names)}
    for column, (metric, feature) in enumerate(names):
        columns[feature][codes[metric]] = column
    lasting = features["windows"].to_numpy()
    known = {*features.columns, "variance"}
    for feature, column_of_code in columns.items():
        if feature not in known:
            continue
        column = column_of_code[code]
        rows = np.flatnonzero(column >= 0)
        values = _values(features, feature)[rows]
        # the windows of a host are numbered one after the other, and a metric's stretch has no hole
        many = np.flatnonzero(lasting[rows] > 1)
        times = lasting[rows[many]]
        later = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        spread = np.repeat(many, times)
        cells[place[rows] * len(names) + column[rows]] = values
        cells[(place[rows[spread]] + later) * len(names) + column[rows[spread]]] = values[spread]
    return keys, matrix


def _values(features: pl.DataFrame, feature: str) -> Array:
    """A feature of each row, also where it is not kept because others tell it."""
    if feature == "variance":
        return np.asarray(_values(features, "standard_deviation") ** 2)
    values = features[feature].to_numpy().astype(np.float64)
    if feature == "sum_values":
        told = _values(features, "mean") * features["samples"].to_numpy()
        values = np.where(np.isnan(values), told, values)
    return values


def _numbered_windows(features: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The distinct windows of features, sorted, with their times; and the place of each row's first among them."""
    hosts, host = numbered(features, HOST_KEY)
    window, lasting = features["window"].to_numpy(), features["windows"].to_numpy()
    # hosts lie one after the other on a line, each with as much room as its windows need
    room = np.zeros(hosts.height + 1, dtype=np.int64)
    np.maximum.at(room[1:], host, window + lasting)
    begins = np.cumsum(room)
    on_line = begins[host] + window
    rows = np.full(begins[-1] + 1, -1)
    rows[on_line] = np.arange(len(window))
    covered = np.zeros(begins[-1] + 1, dtype=np.int64)
    np.add.at(covered, on_line, 1)
    np.add.at(covered, on_line + lasting, -1)
    there = np.cumsum(covered) > 0
    at = np.flatnonzero(there)
    place = np.cumsum(there) - 1
    of = np.searchsorted(begins, at, side="right") - 1
    # a window's time is that of a row that begins with it, if the features are whole
    known = pl.Series(rows[at]).replace(-1, None)
    windows = hosts[of].with_columns(window=pl.Series(at - begins[of]), start_ts=features["start_ts"].gather(known))
    return windows, place[on_line]


def of_windows(features: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The features of some windows.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features`, in any order.
    chosen : polars.DataFrame
        `run_key`, `host`, `window`.

    Returns
    -------
    polars.DataFrame
        The table again, with a row for each window.
    """
    times = features.select(*WINDOW_KEY, "start_ts").unique(WINDOW_KEY).join(chosen, on=WINDOW_KEY, how="semi")
    each = features.drop("start_ts").with_columns(window=pl.int_ranges("window", pl.col("window") + pl.col("windows")))
    return (
        each.explode("window")
        .join(times, on=WINDOW_KEY, how="inner", maintain_order="left")
        .with_columns(windows=pl.lit(1, pl.Int64))
        .select(WINDOW_FEATURES.schema.names())
    )
