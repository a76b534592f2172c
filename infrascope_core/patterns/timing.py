"""Times of its own, or the course of the job: does a rule tie two things together, or does a schedule tie both?

What belongs here: the comparison of a run with others of its workload. Every run of a job loads, trains and saves in
the same order, so two things that have nothing to do with each other rise together in all of them. What one run's left
side shares with another run's right side is that schedule; what it shares only with its own is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.co_occurrence import Overlap, normal_chance
from infrascope_core.patterns.held import Held, jobs
from infrascope_core.patterns.settings import MiningSettings

OWN, COURSE, COMMON, UNDECIDED, UNKNOWN = "own", "course", "common", "undecided", "unknown"
_SIGNIFICANT = 0.05
_AGREEING = 2 / 3
"""Least share of the runs in which the sides must overlap more than with those of other runs."""
_ROUNDING = 1e-6
"""Sums that differ by less, in windows, are equal."""
_MOST_RUNS = 32
"""Most runs that right sides of any workload are taken from: their number grows with its square, and so many tell."""

Sides = Sequence[tuple[Mask, Mask]]
"""Two sides in every run: what is held, and what is exchanged between runs."""


def timings(rules: Iterable[Sequence[Sides]], runs: Sequence[Held], settings: MiningSettings) -> list[str]:
    """Label rules.

    Parameters
    ----------
    rules : iterable of sequence of Sides
        Rules that hold up, each in all ways to part it: its left side and its right one; of several items on the left,
        also what holds but for one of them, and that one. None of the items may be as good if it comes from another
        run: that two things go together while a third one holds at the begin of every run says nothing of the third.
    runs : sequence of Held
        The runs, in the order of the sides.
    settings : MiningSettings
        `exchanges`, `random_state`, `min_gain`.

    Returns
    -------
    list of str
        `own`: the sides overlap more within runs than between runs of one workload, beyond what exchanging right sides
        gives, and in two thirds of the runs: a few that do something twice make no rule of all of them. `course`: they
        do not, but they overlap between runs more than shifts of one of them would have it, and more than right sides
        of any workload would, by `min_gain` of confidence. `common`: the latter is not shown, and runs of all workloads
        may have that course. `undecided`: no overlap between runs is shown either. `unknown`: no workload has two runs,
        one after another. Probabilities are corrected for the number of rules: those of `own` by Benjamini and Hochberg
        (1995), as rules are, those of what keeps a rule from being `common` by Holm (1979).
    """
    groups = _workloads(runs)
    rng = np.random.default_rng(settings.random_state)
    # the same for all rules
    orders = [_orders(rng, len(group), settings) for group in groups]
    some = _some_of_each(groups)
    any_order = _orders(rng, len(some), settings)
    chances, agreeing, parts = [], [], []
    for ways in rules:
        whole, *parted = ways
        tested = _of_rule(whole, groups, orders)
        own, agrees = tested.own, tested.agreeing
        for sides in parted:
            if own >= _SIGNIFICANT:  # it cannot become less
                break
            part = _of_rule(sides, groups, orders, spread=False)
            own, agrees = max(own, part.own), min(agrees, part.agreeing)
        chances.append((own, tested.between))
        agreeing.append(agrees >= _AGREEING)
        if len(groups) > 1:  # else none is held against other workloads
            chosen = [[sides[run] for run in some] for sides in ways]
            parts.append([(_beyond(sides), sum(int(left.sum()) for left, _ in sides)) for sides in chosen])
    if not groups or not chances:
        return [UNKNOWN] * len(chances)
    own, between = np.array(chances).T
    labels = np.where(between < _SIGNIFICANT, COURSE, UNDECIDED).astype(object)
    labels[(false_discovery_control(own) < _SIGNIFICANT) & agreeing] = OWN
    course = np.flatnonzero(labels == COURSE)
    if len(groups) > 1 and len(course):
        kind = [runs[run].workload for run in some]
        alike = np.array([max(_chance(np.trace(b), _exchanged(b, any_order)) for b, _ in parts[i]) for i in course])
        gain = np.array([min(_gain_over_others(*part, kind) for part in parts[i]) for i in course])
        labels[course[(_holm(alike) >= _SIGNIFICANT) | (gain < settings.min_gain)]] = COMMON
    return list(labels)


def _orders(rng: np.random.Generator, runs: int, settings: MiningSettings) -> Ints:
    """Permutations of runs, runs x exchanges: each as places in a matrix runs x runs that is laid out flat."""
    orders = rng.permuted(np.tile(np.arange(runs)[:, None], settings.exchanges), axis=0)
    return orders + runs * np.arange(runs)[:, None]


def _some_of_each(groups: Sequence[Ints]) -> Ints:
    """As many runs of each workload, so far as there are, and not too many."""
    in_turn = [run for each in zip_longest(*groups, fillvalue=-1) for run in each if run >= 0]
    return np.array(sorted(in_turn[:_MOST_RUNS]), dtype=np.int64)


def _workloads(runs: Sequence[Held]) -> list[Ints]:
    """Runs of each workload that has several jobs, one of each: hosts of one job have their times in common."""
    groups: dict[str, list[int]] = {}
    for first, *_ in jobs(runs):
        if len(runs[first].start):
            groups.setdefault(runs[first].workload, []).append(first)
    return [np.array(members) for members in groups.values() if len(members) > 1]


class _Tested(NamedTuple):
    """What is known of two sides.

    Attributes
    ----------
    own : float
        Probability of the overlap within runs if right sides are exchanged.
    between : float
        Probability of the overlap between runs, by shifts; 1 without the spread of it, which takes most of the time.
    agreeing : float
        Share of the runs, of those in which both sides vary, in which they overlap more than with those of another,
        the median: a few that are unlike all others do not count.
    """

    own: float
    between: float
    agreeing: float


def _of_rule(sides: Sides, groups: Sequence[Ints], orders: Sequence[Ints], *, spread: bool = True) -> _Tested:
    own, exchanged = 0.0, np.zeros(orders[0].shape[1] if orders else 0)
    excess = variance = 0.0
    more = informative = 0
    for group, order in zip(groups, orders, strict=True):
        of_group = [sides[run] for run in group]
        beyond, shifted = _between(of_group, spread=spread)
        own += np.trace(beyond)
        exchanged += _exchanged(beyond, order)
        off = ~np.eye(len(group), dtype=bool)
        both_ways = np.where(off, beyond, np.nan), np.where(off, beyond, np.nan).T
        of_others = np.nanmedian(np.concatenate(both_ways, axis=1), axis=1)
        varies = np.array([left.min() < left.max() and right.min() < right.max() for left, right in of_group])
        informative += int(np.count_nonzero(varies))
        more += int(np.count_nonzero(varies & (np.diag(beyond) > of_others + _ROUNDING)))
        excess += beyond[off].sum()
        # a run's left side meets the right sides of all others: those overlaps are not independent of each other
        variance += (np.sqrt(np.where(off, shifted, 0.0)).sum(axis=1) ** 2).sum()
    between = normal_chance(np.array([excess / np.sqrt(variance)])) if variance > 0 else np.ones(1)
    return _Tested(_chance(own, exchanged), float(between[0]), more / max(informative, 1))


def _exchanged(beyond: Array, orders: Ints) -> Array:
    """What right sides sum up to in each order of them; `beyond` is runs x runs."""
    summed: Array = beyond.ravel()[orders].sum(axis=0)
    return summed


def _chance(own: float, exchanged: Array) -> float:
    """Probability of as much as the runs have by themselves.

    Exchanges tell none below one in their number, and among hundreds of rules smaller ones are asked for: beyond all
    exchanges, their sum is taken for normal (Hoeffding, 1951).
    """
    as_much = np.count_nonzero(exchanged >= own - _ROUNDING)
    counted = (1 + as_much) / (1 + len(exchanged))
    if as_much or not len(exchanged):
        return float(counted)
    return float(min(counted, normal_chance(np.array([(own - exchanged.mean()) / exchanged.std()]))[0]))


def _holm(p: Array) -> Array:
    """Probabilities corrected for their number."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return corrected


def _beyond(sides: Sides) -> Array:
    """Overlap beyond the expected of each run's left side with each run's right side, from the runs' starts.

    Two runs are compared over as many windows as the shorter one has.
    """
    length = np.array([len(left) for left, _ in sides], dtype=np.int64)
    left, right = (np.zeros((len(sides), length.max(initial=0)), dtype=np.float32) for _ in range(2))
    for row, (a, c) in enumerate(sides):
        left[row, : len(a)], right[row, : len(c)] = a, c
    shared, rows = np.minimum.outer(length, length), np.arange(len(sides))
    held_left, held_right = (np.pad(side.cumsum(axis=1), ((0, 0), (1, 0))) for side in (left, right))
    expected = held_left[rows[:, None], shared] * held_right[rows[None, :], shared] / np.maximum(shared, 1)
    return np.asarray(left @ right.T - expected, dtype=np.float64)


def _gain_over_others(beyond: Array, held: int, workloads: Sequence[str]) -> float:
    """By how much the left side tells the right one of its run better than those of other workloads, as confidence."""
    other = np.array(workloads)[:, None] != np.array(workloads)
    elsewhere = np.where(other, beyond, 0.0).sum(axis=1) / np.maximum(other.sum(axis=1), 1)
    return float((np.trace(beyond) - elsewhere.sum()) / max(held, 1))


def _between(sides: Sides, *, spread: bool) -> tuple[Array, Array]:
    """Overlap beyond the expected of each run's left side with each run's right side, and its variance over shifts.

    Both from the runs' starts, over as many windows as the shortest of them has; 0 without the spread.
    """
    windows = min(len(left) for left, _ in sides)
    left, right = (np.stack([side[which][:windows] for side in sides], axis=1) for which in (0, 1))
    if not spread:
        a, c = left.astype(np.float64), right.astype(np.float64)
        beyond: Array = a.T @ c - np.outer(a.sum(axis=0), c.sum(axis=0)) / max(windows, 1)
        return beyond, np.zeros_like(beyond)
    overlap = Overlap.of_run(left, right)
    return overlap.both - overlap.expected, overlap.variance
