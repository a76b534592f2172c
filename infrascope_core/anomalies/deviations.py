"""How far every metric is from what is expected of it, over time: the table `metric_deviations`.

What belongs here: from windows x features beside their references to metrics in stretches of a run. Pages draw from it;
judging a run a second time for them would take as long as the first.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl

from infrascope_core.anomalies.levels import by_host
from infrascope_core.anomalies.matrix import Names
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.tables import METRIC_DEVIATIONS
from infrascope_core.numeric import Array, Ints, buckets, least_and_largest

STRETCHES = 300
"""Most stretches of a run: columns of a picture, and 1 % of the size of the features that they sum up."""
_LOWEST = ("minimum", "median", "mean", "maximum")
_HIGHEST = ("maximum", "median", "mean", "minimum")
"""Features in a metric's own unit that say between what it lies; events in a window have a maximum only."""
_LARGEST = float(np.finfo(np.float32).max)


def metric_deviations(names: Names, residuals: Residuals, length: timedelta) -> pl.DataFrame:
    """Sum up the residuals of each metric, stretch by stretch.

    Parameters
    ----------
    names : sequence of (metric, feature)
        Those of the baseline that judged the windows, by metric.
    residuals : Residuals
        All windows of some runs.
    length : timedelta
        Of a window.

    Returns
    -------
    polars.DataFrame
        Table `metric_deviations`, by run, host, metric and stretch: a row for each, also where nothing is known.
        Expected values are null for metrics of which no feature is in their own unit.

    Notes
    -----
    Of the windows of a stretch the largest deviation counts and the whole range that was expected: a mean would hide
    the single window that a person looks for.
    """
    metrics = [metric for i, (metric, _) in enumerate(names) if i == 0 or metric != names[i - 1][0]]
    starts = np.flatnonzero([i == 0 or names[i - 1][0] != metric for i, (metric, _) in enumerate(names)])
    low, high = _places(names, metrics, _LOWEST), _places(names, metrics, _HIGHEST)
    parts = [METRIC_DEVIATIONS.empty()]
    for (run_key, host), rows in by_host(residuals.windows):
        own = slice(int(rows[0]), int(rows[-1]) + 1)  # those of a host lie together
        bounds = buckets(len(rows), STRETCHES)
        deviation = np.fmax.reduceat(np.abs(residuals.instant[own]), starts, axis=1)
        _, farthest = least_and_largest(deviation, bounds)
        least, _ = least_and_largest(_columns(residuals.expected[own], low), bounds)
        _, largest = least_and_largest(_columns(residuals.expected[own], high), bounds)
        at = residuals.windows["start_ts"].gather(rows)
        stretch = np.tile(np.arange(len(bounds) - 1), len(metrics))
        parts.append(
            pl.DataFrame(
                {
                    "run_key": run_key,
                    "host": host,
                    "metric": pl.Series(metrics).gather(np.repeat(np.arange(len(metrics)), len(bounds) - 1)),
                    "stretch": stretch,
                    "start_ts": at.gather(bounds[:-1]).gather(stretch),
                    "end_ts": at.gather(bounds[1:] - 1).gather(stretch) + length,
                    "deviation": np.round(farthest, 2).T.ravel(),
                    "expected_low": _single(np.fmin(least, largest)),
                    "expected_high": _single(np.fmax(least, largest)),
                },
                schema=METRIC_DEVIATIONS.schema,
                nan_to_null=True,
            )
        )
    return pl.concat(parts)


def _places(names: Names, metrics: list[str], features: tuple[str, ...]) -> Ints:
    """Column of the first of these features that each metric has; -1 where it has none."""
    place = {name: i for i, name in enumerate(names)}
    found = [next((place[metric, f] for f in features if (metric, f) in place), -1) for metric in metrics]
    return np.array(found, dtype=np.int64)


def _columns(values: Array, places: Ints) -> Array:
    return np.where(places >= 0, values[:, places], np.nan)


def _single(values: Array) -> Array:
    """In single precision, which a third of the bytes can hold: what is expected is known to 3 digits."""
    kept: Array = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32).astype(np.float64).T.ravel()
    return kept
