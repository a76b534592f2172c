"""A run judged by itself, where there is no other: its own windows are the references, but for those near by.

What belongs here: how such a baseline is fitted, and which windows it cannot judge. A window is compared with the most
similar one of the same run that is at least a fifth of the run away: phases come back, a fault that lasts less does
not. What a run does once, when it starts and when it ends, has nothing to be compared with. A fault that lasts from the
first to the last window looks normal, so that a run alone can be anomalous, and never normal.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.ndimage import uniform_filter1d

from infrascope_core.anomalies.baseline import ITSELF, Baseline
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.numeric import Array, Mask, median_deviation

_OWN_RANGE = 0.7
"""Quantile that stands for the largest deviation of a healthy run: up to three windows in ten may be faulty."""
_LONGEST_END = 0.15
"""Share of a run that its start, or its end, may last."""
_BRIEF = 3
_SETTLED = 0.5
"""A run has started where its surprisal, over three windows, is within half a median deviation of its median."""


def fit_alone(
    features: pl.DataFrame,
    platform: str,
    phase: str,
    workload: str,
    settings: DetectorSettings,
    *,
    windows: FeatureSettings,
) -> Baseline | None:
    """Fit a baseline of one run that judges that run.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features` of the run.
    platform, phase, workload : str
        What it is a run of.
    settings : DetectorSettings
        As for other baselines (`fitting.fit_baseline`).
    windows : FeatureSettings
        How the windows were cut.

    Returns
    -------
    Baseline or None
        None below `min_windows` windows, or where no feature is known.
    """
    own = settings.model_copy(update={"own_range": _OWN_RANGE})
    return fit_baseline(features, platform, phase, workload, own, windows=windows, compared_with=ITSELF)


def comparable(surprisal: Array) -> Mask:
    """Which windows of one host are neither the run's start nor its end.

    Parameters
    ----------
    surprisal : ndarray, windows
        Of the run's windows, judged by itself; NaN is unknown.

    Returns
    -------
    ndarray of bool, windows
        False from the first window to the one before which it is near its median for the first time, and likewise at
        the end; at most 15 % of the windows at each.
    """
    height = uniform_filter1d(np.nan_to_num(surprisal), _BRIEF)
    middle = float(np.median(height))
    settled = height <= middle + _SETTLED * float(median_deviation(height[:, None], 0)[0])
    longest = int(_LONGEST_END * len(height))
    kept = np.ones(len(height), dtype=bool)
    kept[: _until(settled, longest)] = False
    kept[len(height) - _until(settled[::-1], longest) :] = False
    return kept


def _until(settled: Mask, longest: int) -> int:
    first = np.flatnonzero(settled[:longest])
    return int(first[0]) if len(first) else longest
