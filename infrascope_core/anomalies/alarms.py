"""Alarms: which windows are anomalous.

What belongs here: from the surprisals of a host's windows, in order, to a verdict on each. What happens shows in all
windows that hold it, and neighbours share samples; so windows are judged in stretches: a baseline of a hundred windows
cannot show of one window that it happens once in ten thousand, but twenty in a row that each happen once in a hundred
are beyond doubt. (A cumulative sum, Page, Biometrika 1954, would do the same, but what a gross fault adds to it takes
as long again to run off.)
"""

from __future__ import annotations

import numpy as np

from infrascope_core.numeric import Array, Mask

_GAP = 2
"""Most windows that add nothing between two that do, in one stretch."""


def anomalous(surprisal: Array, alarm: float, allowance: float, overlap: int) -> Mask:
    """Which windows of a host are anomalous.

    Parameters
    ----------
    surprisal : ndarray, windows
        -log10 of the probability of each window, in the order of time; NaN is unknown.
    alarm : float
        Surprisal that a stretch needs beyond the allowance, if no two windows shared samples.
    allowance : float
        What a window may have without adding to its stretch: 1 is what happens in one normal window of ten.
    overlap : int
        How many windows share samples, so that their sum counts that many times less.

    Returns
    -------
    ndarray of bool, windows
        Windows above the allowance in a stretch (such windows, with at most two others between them) whose surprisals
        beyond the allowance sum up to more than `alarm` times `overlap`.
    """
    raised = np.zeros(len(surprisal), dtype=bool)
    adding = np.flatnonzero(surprisal > allowance)
    if len(adding):
        stretch = np.cumsum(np.diff(adding, prepend=adding[0]) > _GAP + 1)
        total = np.bincount(stretch, weights=surprisal[adding] - allowance)
        raised[adding[total[stretch] > alarm * overlap]] = True
    return raised
