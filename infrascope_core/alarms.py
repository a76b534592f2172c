"""Alarms: which windows are anomalous.

What belongs here: from the surprisals of a host's windows, in order, to a verdict on each. A window is anomalous by
itself if it is improbable enough; and a stretch of windows is, if together they are: a baseline of a hundred windows
cannot say of one window that it happens once in ten thousand, but twenty in a row that each happen once in a hundred
are beyond doubt. The stretches are found by cumulative sums (Page, Biometrika 1954).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def anomalous(surprisal: Array, alarm: float, allowance: float, overlap: int) -> Mask:
    """Which windows of a host are anomalous.

    Parameters
    ----------
    surprisal : ndarray, windows
        -log10 of the probability of each window, in the order of time; NaN is unknown.
    alarm : float
        Surprisal above which a window is anomalous by itself.
    allowance : float
        What a window may have without adding to the sum: 1 is what happens in one normal window of ten.
    overlap : int
        How many windows share a sample, and so tell of the same moment: their sum counts that many times less.

    Returns
    -------
    ndarray of bool, windows
        Of a stretch those windows that add to the sum. It begins where the sum leaves 0 and ends where it is largest,
        and counts if that is above `alarm` times `overlap`.
    """
    alone = surprisal > alarm
    if not len(surprisal):
        return np.asarray(alone)
    steps = np.nan_to_num(surprisal, nan=0.0) - allowance
    walk = np.cumsum(steps)
    level = walk - np.minimum(np.minimum.accumulate(walk), 0.0)
    # an excursion is what lies between two windows at 0
    at_zero = level <= 0
    excursion = np.cumsum(at_zero)
    highest = np.zeros(excursion[-1] + 1)
    np.maximum.at(highest, excursion, level)
    place = np.arange(len(level))
    peak = np.full(len(highest), -1)
    at_peak = ~at_zero & (level == highest[excursion])
    peak[excursion[at_peak]] = place[at_peak]
    together = (steps > 0) & (highest[excursion] > alarm * overlap) & (place <= peak[excursion])
    return np.asarray(alone | together)
