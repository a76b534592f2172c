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

from infrascope_core.numeric import Array, Ints

Kind = Literal["instant", "smoothed"]
"""Residuals of single windows, or their moving averages."""

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
    smoothed : ndarray, windows x names
        Their moving averages, see `moving_average`.
    """

    windows: pl.DataFrame
    values: Array
    expected: Array
    instant: Array
    smoothed: Array

    def of_kind(self, kind: Kind) -> Array:
        """The residuals that a detector of this kind is given."""
        return self.instant if kind == "instant" else self.smoothed

    def rows(self, chosen: Ints) -> Residuals:
        """Some of the windows."""
        parts = (part[chosen] for part in (self.values, self.expected, self.instant, self.smoothed))
        return Residuals(self.windows[chosen], *parts)


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
    follows = windows.select(
        (pl.col("window").diff() == 1)
        & (pl.col("run_key") == pl.col("run_key").shift())
        & (pl.col("host") == pl.col("host").shift())
    )["window"].fill_null(False)
    begins = [*np.flatnonzero(~follows.to_numpy()), len(residuals)]
    averages = np.clip(np.nan_to_num(residuals), -_LARGEST, _LARGEST)
    for begin, end in pairwise(begins):
        uniform_filter1d(
            averages[begin:end], span, axis=0, output=averages[begin:end], mode="constant", origin=(span - 1) // 2
        )
    return averages
