"""Residuals: how windows differ from what is expected of them, at each instant and smoothed over time.

What belongs here: what detectors and reasons are given; what is expected is the business of `references`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from scipy.ndimage import uniform_filter1d

from infrascope_core.anomalies.levels import Levels
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Array, Ints

Kind = Literal["instant", "brief", "smoothed"]
"""Residuals of single windows, or their moving averages over a few of them, or over many."""

_LEAST_LASTING = 3
"""Windows that a lasting deviation is averaged over, however far they are apart."""
_LARGEST = 10.0
"""Residuals are held within this bound, in scales, before they are averaged."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Windows beside what a baseline expects of them.

    Attributes
    ----------
    windows : polars.DataFrame
        `run_key`, `host`, `window`, `start_ts`, sorted.
    values, expected : ndarray, windows x names
        In the features' own units.
    instant : ndarray, windows x names
        Value less expected value, in scales; NaN where a feature is missing.
    brief, smoothed : ndarray, windows x names
        Their moving averages, see `moving_average`.
    levels : Levels
        How far each run and host departs from its references as a whole; that is part of what is expected.
    """

    windows: pl.DataFrame
    values: Array
    expected: Array
    instant: Array
    brief: Array
    smoothed: Array
    levels: Levels

    @classmethod
    def of(
        cls,
        windows: pl.DataFrame,
        values: Array,
        expected: Array,
        instant: Array,
        *,
        levels: Levels,
        settings: DetectorSettings,
    ) -> Residuals:
        """Residuals with their moving averages."""
        brief, smoothed = (moving_average(instant, windows, span) for span in spans(windows, settings))
        return cls(windows, values, expected, instant, brief, smoothed, levels)

    def of_kind(self, kind: Kind) -> Array:
        """The residuals that a detector of this kind is given."""
        return {"instant": self.instant, "brief": self.brief, "smoothed": self.smoothed}[kind]

    def rows(self, chosen: Ints) -> Residuals:
        """Some of the windows."""
        values, expected, instant, brief, smoothed = (
            part[chosen] for part in (self.values, self.expected, self.instant, self.brief, self.smoothed)
        )
        return Residuals(self.windows[chosen], values, expected, instant, brief, smoothed, self.levels)


def spans(windows: pl.DataFrame, settings: DetectorSettings) -> tuple[int, int]:
    """Over how many windows brief and lasting deviations are averaged, by how far they are apart."""
    apart = seconds_apart(windows) if windows.height > 1 else None
    if apart is None:
        return settings.brief_windows, settings.lasting_windows
    brief = min(settings.brief_windows, max(1, int(settings.brief_s / apart)))
    return brief, min(settings.lasting_windows, max(_LEAST_LASTING, int(settings.lasting_s / apart)))


def seconds_apart(windows: pl.DataFrame) -> float | None:
    """Seconds from one window to the next, the median; None where no run has two."""
    steps = windows.select(
        pl.col("start_ts").diff().over(HOST_KEY).dt.total_microseconds() / 1e6 / pl.col("window").diff().over(HOST_KEY)
    )["start_ts"].drop_nulls()
    apart = steps.filter(steps > 0).median()
    return apart if isinstance(apart, float) else None


def moving_average(residuals: Array, windows: pl.DataFrame, span: int) -> Array:
    """Moving averages of residuals, over successive windows of a run and host.

    Parameters
    ----------
    residuals : ndarray, windows x names
        NaN is missing, and counts as 0; what is beyond 10 counts as 10, so that a single window far out does not
        linger.
    windows : polars.DataFrame
        `run_key`, `host`, `window` of each row, sorted; averages begin anew after a window that is left out.
    span : int
        How many windows are averaged, this one and those before it; at the start of a run, what was before counts as
        0.
    """
    follows = np.diff(windows["window"].to_numpy()) == 1
    for name in HOST_KEY:
        follows &= (windows[name][1:] == windows[name][:-1]).to_numpy()
    begins = [0, *(np.flatnonzero(~follows) + 1), len(residuals)]
    averages = np.clip(residuals, -_LARGEST, _LARGEST)
    averages[np.isnan(averages)] = 0.0
    for begin, end in pairwise(begins):
        uniform_filter1d(
            averages[begin:end], span, axis=0, output=averages[begin:end], mode="constant", origin=(span - 1) // 2
        )
    return averages
