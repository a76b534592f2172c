"""The figures of the evaluation, as functions of plain arrays.

What belongs here: arrays in, numbers out. Which windows, episodes and runs they are computed over is decided in
`judgement`; how they are pooled in `report`. A figure that is not defined (one class only, nothing to count) is NaN.

Windows that a method gives no score count as its least abnormal ones: where it says nothing, it raises no alarm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn import metrics

from infrascope_core.numeric import Array, Ints, Mask


def roc_auc(score: ArrayLike, label: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a faulty window scores above a healthy one, ties counting half.

    Parameters
    ----------
    score : array, windows
        Higher is more abnormal; NaN is no score.
    label : array of bool, windows
        Whether the window is faulty.

    Returns
    -------
    float
        0..1; NaN where a class is empty or no window has a score (scikit-learn's `roc_auc_score`).
    """
    s, y = _ranked(score, label)
    return float(metrics.roc_auc_score(y, s)) if _is_defined(s, y) else np.nan


def average_precision(score: ArrayLike, label: ArrayLike) -> float:
    """Area under the precision-recall curve as a sum of steps (scikit-learn's `average_precision_score`).

    Parameters and result as `roc_auc`; what a random score reaches is the share of faulty windows.
    """
    s, y = _ranked(score, label)
    return float(metrics.average_precision_score(y, s)) if _is_defined(s, y) else np.nan


def vus_pr(score: ArrayLike, label: ArrayLike, max_buffer: int, series: ArrayLike | None = None) -> float:
    """Volume under the precision-recall surface: the mean of `range_auc_pr` over the buffers 0 to `max_buffer`.

    Paparrizos et al., "Volume Under the Surface", VLDB 2022, section 4. It forgives a flag that is a little early
    or late, and asks that every fault be found, not only the long ones.

    Parameters
    ----------
    score, label : array, windows
        In order of time; see `roc_auc`.
    max_buffer : int
        Longest buffer, in windows.
    series : array of int, windows, optional
        Windows of different series (runs, or parts of a run) are no neighbours: no buffer reaches across.
    """
    return float(np.mean([range_auc_pr(score, label, buffer, series) for buffer in range(max_buffer + 1)]))


def range_auc_pr(score: ArrayLike, label: ArrayLike, buffer: int, series: ArrayLike | None = None) -> float:
    """Area under the range-based precision-recall curve for one buffer length.

    Paparrizos et al., VLDB 2022, section 3. Half the buffer is put before and half after each fault; a window at
    distance d from the fault counts sqrt(1 - d / buffer) as faulty (1 where two buffers meet). With w these weights
    and P = (number of faulty windows + sum of w) / 2, the windows above a threshold have the precision (sum of
    their w) / (their number), and the recall min(sum of their w / P, 1) times the share of faults, buffers
    included, that hold any of them. The area is the sum of recall steps times precision, over every threshold that
    occurs. The authors' code samples 250 thresholds; it sums steps too, where the paper (equation 11) has trapezoids:
    precision must not be interpolated linearly (Davis and Goadrich, ICML 2006).

    Parameters
    ----------
    score, label, series : array, windows
        See `vus_pr`.
    buffer : int
        In windows, at least 0.
    """
    s, y = _ranked(score, label)
    if not _is_defined(s, y):
        return np.nan
    part = np.zeros(len(s), dtype=np.int64) if series is None else np.asarray(series)
    weight = _buffered(y, buffer, part)
    order = np.argsort(-s, kind="stable")
    last = np.append(s[order][1:] != s[order][:-1], True)  # of each group of equal scores
    above = np.flatnonzero(last) + 1
    true = np.cumsum(weight[order])[last]
    peaks = np.sort(_highest(s, weight > 0, part))
    found = 1 - np.searchsorted(peaks, s[order][last], side="left") / len(peaks)
    recall = np.minimum(true / ((y.sum() + weight.sum()) / 2), 1.0) * found
    return float(np.sum(np.diff(recall, prepend=0.0) * true / above))


def _ranked(score: ArrayLike, label: ArrayLike) -> tuple[Array, Mask]:
    s, y = np.asarray(score, dtype=np.float64), np.asarray(label, dtype=np.bool_)
    known = np.isfinite(s)
    if known.all() or not known.any():
        return s, y
    return np.where(np.isnan(s), s[known].min() - 1.0, np.nan_to_num(s)), y


def _is_defined(score: Array, label: Mask) -> bool:
    return bool(label.any() and not label.all() and np.isfinite(score).all())


def _edges(flag: Mask, series: NDArray[Any]) -> tuple[Ints, Ints]:
    """First and last index of each stretch of flagged windows, series by series."""
    border = series[1:] != series[:-1]
    starts = flag & np.append(True, ~flag[:-1] | border)
    ends = flag & np.append(~flag[1:] | border, True)
    return np.flatnonzero(starts), np.flatnonzero(ends)


def _buffered(label: Mask, buffer: int, series: NDArray[Any]) -> Array:
    n, reach = len(label), buffer // 2
    weight = label.astype(np.float64)
    if not reach:
        return weight
    first, last = _edges(label, series)
    border = np.flatnonzero(np.append(series[1:] != series[:-1], True)) + 1  # where the next series begins
    opens = np.append(0, border[:-1])
    home = np.searchsorted(border, first, side="right")
    before = np.maximum(first - reach, opens[home])
    after = np.minimum(last + 1 + reach, border[home])
    # how many buffers a window lies in; two weigh sqrt(1/2) or more each, and so 1 together
    change = np.zeros(n + 1)
    for start, end in ((before, first), (last + 1, after)):
        np.add.at(change, start, 1.0)
        np.add.at(change, end, -1.0)
    buffers = np.cumsum(change)[:n]
    where = np.arange(n)
    following = np.append(first, 2 * n + reach)[np.searchsorted(first, where)]
    previous = np.append(-n - reach, last)[np.searchsorted(last, where)]
    near = np.where((buffers == 1) & ~label)[0]
    # the one buffer it lies in is the nearer fault's, unless a border cuts that one off
    left = np.where(_same(series, near, previous), near - previous[near], np.inf)
    right = np.where(_same(series, near, following), following[near] - near, np.inf)
    weight[near] = np.sqrt(1 - np.minimum(left, right) / buffer)
    weight[buffers > 1] = 1.0
    return weight


def _same(series: NDArray[Any], near: Ints, other: Ints) -> Mask:
    target = other[near]
    inside = (target >= 0) & (target < len(series))
    same: Mask = inside & (series[np.where(inside, target, 0)] == series[near])
    return same


def _highest(score: Array, flag: Mask, series: NDArray[Any]) -> Array:
    """Highest score of each stretch of flagged windows."""
    first, last = _edges(flag, series)
    bounds = np.ravel(np.column_stack([first, last + 1]))
    highest: Array = np.maximum.reduceat(np.append(score, -np.inf), bounds)[::2]
    return highest


def meets(start: ArrayLike, end: ArrayLike, other_start: ArrayLike, other_end: ArrayLike) -> Mask:
    """Which intervals share a moment.

    Parameters
    ----------
    start, end : array, n
        Numbers or times of one kind, ends included.
    other_start, other_end : array, m
        The same, of other intervals.

    Returns
    -------
    ndarray of bool, n x m
    """
    a, b, c, d = map(np.asarray, (start, end, other_start, other_end))
    met: Mask = (a[:, None] <= d[None, :]) & (c[None, :] <= b[:, None])
    return met


def overlap(start: ArrayLike, end: ArrayLike, other_start: ArrayLike, other_end: ArrayLike) -> Array:
    """How long intervals overlap, n x m, in seconds (or whatever the unit is); see `meets` for the parameters."""
    a, b, c, d = (np.asarray(bound, dtype=np.float64) for bound in (start, end, other_start, other_end))
    shared: Array = np.maximum(np.minimum(b[:, None], d[None, :]) - np.maximum(a[:, None], c[None, :]), 0.0)
    return shared


def union_length(start: ArrayLike, end: ArrayLike) -> float:
    """Length of the union of intervals, so that what overlaps counts once."""
    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    if not len(a):
        return 0.0
    order = np.argsort(a, kind="stable")
    a, b = a[order], np.maximum.accumulate(b[order])
    covered_until = np.append(-np.inf, b[:-1])
    return float(np.maximum(b - np.maximum(a, covered_until), 0.0).sum())


def first_delay(fault_start: ArrayLike, fault_end: ArrayLike, flag_start: ArrayLike, flag_end: ArrayLike) -> Array:
    """From the start of each fault to the end of the first flagged window that meets it.

    A window can be judged when it ends, so that is when the flag is raised. NaN for a fault without a flag.
    """
    starts = np.asarray(fault_start, dtype=np.float64)
    ends = np.asarray(flag_end, dtype=np.float64)
    met = meets(fault_start, fault_end, flag_start, flag_end)
    first = np.min(np.where(met, ends[None, :], np.inf), axis=1, initial=np.inf)
    delay: Array = np.where(np.isfinite(first), first - starts, np.nan)
    return delay


def hit_at(ranked: Sequence[str], culprits: Collection[str], k: int) -> bool:
    """Whether any of the first `k` ranked metrics is a culprit."""
    return any(metric in culprits for metric in ranked[:k])


def chance_of_hit(metrics_ranked: int, culprits: int, k: int) -> float:
    """What `hit_at` is on average for a random ranking: 1 - hypergeometric chance of drawing no culprit.

    Parameters
    ----------
    metrics_ranked : int
        Metrics that could be ranked.
    culprits : int
        How many of them are culprits.
    k : int
        Length of the list that is looked at.
    """
    if metrics_ranked <= 0:
        return np.nan
    return float(stats.hypergeom.sf(0, metrics_ranked, culprits, min(k, metrics_ranked)))


def hit_rate(ranked: Sequence[str], culprits: Collection[str], percent: float = 100.0) -> float:
    """Share of the culprits among the first (percent % of their number) ranked metrics, rounded down, at least 1.

    HitRate@P% of Su et al., "OmniAnomaly", KDD 2019, section 4.4. NaN without culprits.
    """
    if not culprits:
        return np.nan
    length = max(int(len(culprits) * percent / 100), 1)
    return len(set(ranked[:length]) & set(culprits)) / len(culprits)


def bootstrap_ratio(
    numerator: ArrayLike, denominator: ArrayLike, resamples: int, random_state: int, level: float = 0.95
) -> tuple[float, float, float]:
    """A ratio of sums over runs, with a percentile bootstrap interval from resampling whole runs.

    Windows and events of one run are not independent; runs are (Efron and Tibshirani, 1993, chapter 13). A mean over
    runs is the ratio with denominators 1.

    Parameters
    ----------
    numerator, denominator : array, runs
        NaN in either leaves the run out.
    resamples : int
        Number of bootstrap samples.
    random_state : int
        Seed; the same runs in the same order give the same interval.
    level : float
        Coverage of the interval.

    Returns
    -------
    value, low, high : float
        NaN where the denominators sum to 0; no interval (NaN) from fewer than two runs.
    """
    a, b = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if not b.sum() > 0:
        return np.nan, np.nan, np.nan
    value = float(a.sum() / b.sum())
    if len(a) < 2:
        return value, np.nan, np.nan
    draws = _draws(len(a), resamples, random_state)
    above, below = (draws * a).sum(axis=1), (draws * b).sum(axis=1)
    ratios = above[below > 0] / below[below > 0]
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return value, float(low), float(high)


@lru_cache(maxsize=32)
def _draws(runs: int, resamples: int, random_state: int) -> Ints:
    """How often each run is drawn, resamples x runs."""
    drawn: Ints = np.random.default_rng(random_state).multinomial(runs, np.full(runs, 1 / runs), size=resamples)
    return drawn
