"""Agreement between sets of anomaly intervals: how far two ways of cutting windows find the same moments.

What belongs here: exact interval arithmetic and the measures of Reveal, section 5.5. Where the windows come from is
the business of `window_agreement`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.numeric import Ints

Intervals = Ints
"""Intervals x 2: start (inclusive) and end (exclusive), whole microseconds, so that lengths are exact."""


@dataclass(frozen=True)
class Agreement:
    """How far the intervals of A and B agree; what has no answer is None.

    Attributes
    ----------
    intervals_a, intervals_b : int
        Merged intervals of each.
    iou : float or None
        Length of the intersection over length of the union; None where neither has any.
    hit_by_count, hit_by_length : float or None
        Share of A's intervals that meet one of B, and of A's length that B covers; None where A has none.
    """

    intervals_a: int
    intervals_b: int
    iou: float | None
    hit_by_count: float | None
    hit_by_length: float | None


def merged_intervals(intervals: Intervals) -> Intervals:
    """Merge intervals that overlap or touch.

    Parameters
    ----------
    intervals : ndarray, intervals x 2
        In any order; an interval that ends where it starts covers nothing and is left out.

    Returns
    -------
    ndarray, merged x 2
        Sorted, disjoint, with gaps between them.
    """
    kept = intervals[intervals[:, 1] > intervals[:, 0]]
    if not len(kept):
        return kept
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    reach = np.maximum.accumulate(kept[:, 1])
    opens = np.concatenate([[True], kept[1:, 0] > reach[:-1]])
    first = np.flatnonzero(opens)
    last = np.concatenate([first[1:] - 1, [len(kept) - 1]])
    return np.stack([kept[first, 0], reach[last]], axis=1)


def covered_lengths(a: Intervals, b: Intervals) -> Ints:
    """Length of each of the merged intervals `a` that the merged intervals `b` cover."""
    return _covered_before(b, a[:, 1]) - _covered_before(b, a[:, 0])


def _covered_before(b: Intervals, moments: Ints) -> Ints:
    """Length that merged intervals cover before each moment."""
    lengths = np.concatenate([[0], np.cumsum(b[:, 1] - b[:, 0])])
    begun = np.searchsorted(b[:, 0], moments, side="right")
    # the last interval that has begun may not have ended
    ends = np.concatenate([[np.iinfo(np.int64).min], b[:, 1]])[begun]
    covered: Ints = lengths[begun] - np.where(begun > 0, np.maximum(ends - moments, 0), 0)
    return covered


def agreement(a: Intervals, b: Intervals) -> Agreement:
    """Compare two sets of intervals (Reveal, section 5.5: IoU, byCount, byLength).

    Parameters
    ----------
    a, b : ndarray, intervals x 2
        In any order; merged here. Intervals that only touch do not meet.
    """
    a, b = merged_intervals(a), merged_intervals(b)
    covered = covered_lengths(a, b)
    length_a, length_b = int((a[:, 1] - a[:, 0]).sum()), int((b[:, 1] - b[:, 0]).sum())
    shared = int(covered.sum())
    union = length_a + length_b - shared
    return Agreement(
        intervals_a=len(a),
        intervals_b=len(b),
        iou=shared / union if union else None,
        hit_by_count=float((covered > 0).mean()) if len(a) else None,
        hit_by_length=shared / length_a if length_a else None,
    )


def flagged_intervals(scores: pl.DataFrame, length_us: int) -> Intervals:
    """Merged intervals of the flagged windows of one host.

    Parameters
    ----------
    scores : polars.DataFrame
        Table `anomaly_scores` of one run and host.
    length_us : int
        Length of a window, microseconds.

    Returns
    -------
    ndarray, intervals x 2
        Of the windows that at least one detector flags: the paper's table 2 compares the top 1 %, so the calibrated
        alarm (`anomalous`) does not count here.
    """
    starts = scores.filter(pl.col("agreement") > 0)["start_ts"].dt.epoch("us").to_numpy().astype(np.int64)
    return merged_intervals(np.stack([starts, starts + length_us], axis=1))
