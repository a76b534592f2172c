"""Alarms: which windows are anomalous.

What belongs here: from the surprisals of a host's windows, in order, to a verdict on each. What happens shows in all
windows that hold it, and neighbours share samples; so windows are judged in stretches: a baseline of a hundred windows
cannot show of one window that it happens once in ten thousand, but twenty in a row that each happen once in a hundred
are beyond doubt. (A cumulative sum, Page, Biometrika 1954, would do the same, but what a gross fault adds to it takes
as long again to run off.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from infrascope_core.numeric import Array, Ints, Mask

Ratios = Callable[[slice, Ints | None], Array]
"""For some windows and some metrics, or all of them: deviations, windows x metrics."""

_GAP = 2
"""Most windows that add nothing between two that do, in one stretch."""
_LEADING = 8
"""Metrics by which a stretch is told from what was before and after it."""
_LEAST_RATIO = 0.05
_LEVEL = 0.8
"""Quantile of a stretch that counts as its level: at its ends it rises and falls."""
_SHARE = 0.25
"""What parts of a stretch have in common with its largest, at least: less is an echo of it."""


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
    for stretch in stretches(surprisal > allowance):
        raised[stretch] = (surprisal[stretch] - allowance).sum() > alarm * overlap
    return raised


def stretches(raised: Mask, gap: int = _GAP) -> list[Ints]:
    """The raised windows, stretch by stretch: those that have at most so many others between them are of one."""
    windows = np.flatnonzero(raised)
    return np.split(windows, np.flatnonzero(np.diff(windows) > gap + 1) + 1) if len(windows) else []


def held(raised: Mask, now: Ratios, lately: Ratios, reach: int) -> Mask:
    """What is left of raised windows if averages do not count: they rise late, and remember what is over.

    Parameters
    ----------
    raised : ndarray of bool, windows
        The anomalous windows of a host, by scores that look back.
    now : callable
        How far metrics deviate in windows, each window by itself.
    lately : callable
        The same, averaged as the scores were.
    reach : int
        How many windows ahead of a stretch it may have begun.

    Returns
    -------
    ndarray of bool, windows
        Of each stretch, and of the windows ahead of it, those in which its leading metrics are nearer to their level
        within it than to that outside of all stretches: a change of level is where half of it is reached. Parts that
        fall off, and hold far less than the largest, are left out.
    """
    kept = np.zeros_like(raised)
    for stretch in stretches(raised):
        first, last = int(stretch[0]), int(stretch[-1])
        leading = np.argsort(-lately(slice(first, last + 1), None).sum(axis=0), kind="stable")[:_LEADING]
        height = np.log(np.maximum(now(slice(None), leading), _LEAST_RATIO)).mean(axis=1)
        outside = np.median(height[~raised]) if (~raised).any() else height.min()
        half = (outside + np.quantile(height[first : last + 1], _LEVEL)) / 2
        begin = max(0, first - reach)
        above = np.zeros_like(raised)
        above[begin : last + 1] = height[begin : last + 1] >= half
        parts = stretches(above)
        sizes = [float((height[part] - half).sum()) for part in parts]
        for part, size in zip(parts, sizes, strict=True):
            kept[part] |= size >= _SHARE * max(sizes)
    return kept
