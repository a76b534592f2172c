"""Times of its own, or the course of the job: does a rule tie two things together, or does a schedule tie both?

What belongs here: the comparison of a run with others of its workload. Every run of a job loads, trains and saves in
the same order, so two things that have nothing to do with each other rise together in all of them. What one run's left
side shares with another run's right side is that schedule; what it shares only with its own is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask, median
from infrascope_core.patterns.candidates import left_side
from infrascope_core.patterns.co_occurrence import Beyond, Side, normal_chance
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

_AT_ONCE = 2**19
"""Windows x rules that are looked at together, to bound memory."""
_EXCHANGES_AT_ONCE = 1_000
"""After so many, rules that cannot become significant are left."""


def timings(left: Ints, right: Ints, runs: Sequence[Held], settings: MiningSettings) -> list[str]:
    """Label rules.

    Parameters
    ----------
    left : ndarray of int, rules x items
        Items on the left of rules that hold up, as `Candidates` has them.
    right : ndarray of int, rules
        The item on the right.
    runs : sequence of Held
        The runs.
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

    Notes
    -----
    A rule with several items on the left is parted in all ways: its left side and its right one, and what holds but for
    one of the items, and that one. None of them may be as good if it comes from another run: that two things go
    together while a third one holds at the begin of every run says nothing of the third.
    """
    groups = _workloads(runs)
    if not groups or not len(right):
        return [UNKNOWN] * len(right)
    rng = np.random.default_rng(settings.random_state)
    # the same for all rules
    orders = [_orders(rng, len(group), settings) for group in groups]
    some = _some_of_each(groups)
    any_order = _orders(rng, len(some), settings)
    tested = _tested((left, right), runs, groups, orders)
    own, agreeing = tested.own, tested.agreeing
    for several, rest, item in _parted(left, right):
        open_still = own[several] < _SIGNIFICANT  # it cannot become less
        rows = several[open_still]
        part = _tested((rest[open_still], item[open_still]), runs, groups, orders, spread=False)
        own[rows], agreeing[rows] = np.maximum(own[rows], part.own), np.minimum(agreeing[rows], part.agreeing)
    labels = np.where(tested.between < _SIGNIFICANT, COURSE, UNDECIDED).astype(object)
    labels[(false_discovery_control(own) < _SIGNIFICANT) & (agreeing >= _AGREEING)] = OWN
    course = np.flatnonzero(labels == COURSE)
    if len(groups) > 1 and len(course):  # else none is held against other workloads
        alike, gain = _beside_others((left[course], right[course]), [runs[run] for run in some], any_order)
        labels[course[(_holm(alike) >= _SIGNIFICANT) | (gain < settings.min_gain)]] = COMMON
    return list(labels)


_Rules = tuple[Ints, Ints]
"""Left and right sides."""


def _parted(left: Ints, right: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Rules with several items on the left, by number, and how they are parted: the rest, and each of the items."""
    several = (left >= 0).sum(axis=1) > 1
    for place in range(left.shape[1]):
        rows = np.flatnonzero(several & (left[:, place] >= 0))
        rest = left[rows].copy()
        rest[:, place] = right[rows]
        yield rows, rest, left[rows, place]


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
    """What is known of two sides: arrays of one entry a rule.

    Attributes
    ----------
    own : ndarray
        Probability of the overlap within runs if right sides are exchanged; of what cannot be significant, no less
        than the significance.
    between : ndarray
        Probability of the overlap between runs, by shifts; 1 without the spread of it, which takes most of the time.
    agreeing : ndarray
        Share of the runs, of those in which both sides vary, in which they overlap more than with those of another,
        the median: a few that are unlike all others do not count.
    """

    own: Array
    between: Array
    agreeing: Array


_NOTHING = _Tested(np.zeros(0), np.zeros(0), np.zeros(0))


def _tested(
    rules: _Rules, runs: Sequence[Held], groups: Sequence[Ints], orders: Sequence[Ints], *, spread: bool = True
) -> _Tested:
    parts = [
        _tested_at_once(part, runs, groups, orders, spread=spread)
        for part in _some_at_once(rules, [runs[run] for group in groups for run in group])
    ]
    return _Tested(*(np.concatenate(found) for found in zip(_NOTHING, *parts, strict=True)))


def _some_at_once(rules: _Rules, runs: Sequence[Held]) -> Iterator[_Rules]:
    left, right = rules
    step = max(1, _AT_ONCE // max(sum(len(run.holds) for run in runs), 1))
    for begin in range(0, len(right), step):
        yield left[begin : begin + step], right[begin : begin + step]


def _tested_at_once(
    rules: _Rules, runs: Sequence[Held], groups: Sequence[Ints], orders: Sequence[Ints], *, spread: bool
) -> _Tested:
    number = len(rules[1])
    excess, variance, more, informative = (np.zeros(number) for _ in range(4))
    of_groups = []
    for group in groups:
        sides = [_sides(rules, runs[run]) for run in group]
        beyond, shifted = _between(sides, spread=spread)
        of_groups.append(beyond)
        off = ~np.eye(len(group), dtype=bool)
        others = np.where(off, beyond, np.nan)
        of_others = median(np.concatenate([others, np.swapaxes(others, 1, 2)], axis=2), axis=2)
        varies = np.stack([_vary(a) & _vary(c) for a, c in sides], axis=1)
        informative += varies.sum(axis=1)
        more += (varies & (np.diagonal(beyond, axis1=1, axis2=2) > of_others + _ROUNDING)).sum(axis=1)
        excess += beyond[:, off].sum(axis=1)
        # a run's left side meets the right sides of all others: those overlaps are not independent of each other
        variance += (np.sqrt(np.where(off, shifted, 0.0)).sum(axis=2) ** 2).sum(axis=1)
    known = variance > 0
    between = np.where(known, normal_chance(excess / np.sqrt(np.where(known, variance, 1.0))), 1.0)
    return _Tested(_exchanged(of_groups, orders), between, more / np.maximum(informative, 1))


def _sides(rules: _Rules, run: Held) -> tuple[Mask, Mask]:
    """What a run holds of the sides of rules: rules x windows, each."""
    left, right = rules
    return left_side(run.holds, left).T, run.holds[:, right].T


def _vary(side: Mask) -> Mask:
    return np.asarray(side.any(axis=1) & ~side.all(axis=1))


def _between(sides: Sequence[tuple[Mask, Mask]], *, spread: bool) -> tuple[Array, Array]:
    """Overlap beyond the expected of each run's left side with each run's right side, and its variance over shifts.

    Both from the runs' starts, over as many windows as the shortest of them has; 0 without the spread.

    Returns
    -------
    tuple of ndarray
        Each is rules x runs x runs.
    """
    windows = min(left.shape[1] for left, _ in sides)
    left, right = (np.stack([side[which][:, :windows] for side in sides], axis=1) for which in (0, 1))
    if spread:
        overlap = Beyond.of_sides(Side.of_rows(left), Side.of_rows(right))
        return overlap.both - overlap.expected, overlap.variance
    # counts of windows: exact in single precision
    a, c = left.astype(np.float32), right.astype(np.float32)
    both = (a @ np.swapaxes(c, 1, 2)).astype(np.float64)
    held_left, held_right = (np.count_nonzero(side, axis=2).astype(np.float64) for side in (left, right))
    beyond: Array = both - held_left[:, :, None] * held_right[:, None, :] / max(windows, 1)
    return beyond, np.zeros_like(beyond)


def _exchanged(beyond: Sequence[Array], orders: Sequence[Ints]) -> Array:
    """Probability of as much as the runs have by themselves, if their right sides are exchanged.

    Exchanges tell none below one in their number, and among hundreds of rules smaller ones are asked for: beyond all
    exchanges, their sum is taken for normal (Hoeffding, 1951). No more are made of a rule than it takes to see that it
    is not significant.

    Parameters
    ----------
    beyond : sequence of ndarray, rules x runs x runs
        Of each group of runs.
    orders : sequence of ndarray
        See `_orders`, of each group.

    Returns
    -------
    ndarray, rules
    """
    own = sum(np.trace(of_group, axis1=1, axis2=2) for of_group in beyond)
    # rules side by side, so that what is picked out by one index lies together
    flat = [np.ascontiguousarray(of_group.reshape(len(own), len(of_group[0]) ** 2).T) for of_group in beyond]
    exchanges, as_much = orders[0].shape[1], np.zeros(len(own), dtype=np.int64)
    open_rules, sums = np.arange(len(own)), np.zeros((0, len(own)))
    for begin in range(0, exchanges, _EXCHANGES_AT_ONCE):
        made = np.zeros((min(_EXCHANGES_AT_ONCE, exchanges - begin), len(open_rules)))
        for of_group, order in zip(flat, orders, strict=True):
            for places in order[:, begin : begin + _EXCHANGES_AT_ONCE]:
                made += of_group.take(places, axis=0)
        as_much[open_rules] += np.count_nonzero(made >= own[open_rules] - _ROUNDING, axis=0)
        undecided = 1 + as_much[open_rules] < _SIGNIFICANT * (1 + exchanges)
        sums = np.vstack([sums, made])
        if not undecided.all():
            open_rules, sums = open_rules[undecided], sums[:, undecided]
            flat = [np.ascontiguousarray(of_group[:, undecided]) for of_group in flat]
        if not len(open_rules):
            break
    chance: Array = (1 + as_much) / (1 + exchanges)
    beyond_all = as_much[open_rules] == 0
    rows, sums = open_rules[beyond_all], sums[:, beyond_all]
    chance[rows] = np.minimum(chance[rows], normal_chance((own[rows] - sums.mean(axis=0)) / sums.std(axis=0)))
    return chance


def _holm(p: Array) -> Array:
    """Probabilities corrected for their number."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return corrected


def _beside_others(rules: _Rules, runs: Sequence[Held], orders: Ints) -> tuple[Array, Array]:
    """Of each rule, the probability of as much if right sides of any workload are exchanged, and its gain over them.

    Of all ways to part it, those that say least for it.
    """
    workloads = [run.workload for run in runs]
    alike, gain = np.zeros(len(rules[1])), np.full(len(rules[1]), np.inf)
    for rows, left, right in [(np.arange(len(rules[1])), *rules), *_parted(*rules)]:
        for rule, *of_rule in zip(rows, left, right, strict=True):
            sides = [_sides((of_rule[0][None], np.array(of_rule[1:])), run) for run in runs]
            beyond, held = _beyond(sides), sum(int(a.sum()) for a, _ in sides)
            alike[rule] = max(alike[rule], _exchanged([beyond[None]], [orders])[0])
            gain[rule] = min(gain[rule], _gain_over_others(beyond, held, workloads))
    return alike, gain


def _beyond(sides: Sequence[tuple[Mask, Mask]]) -> Array:
    """Overlap beyond the expected of each run's left side with each run's right side, from the runs' starts.

    Two runs are compared over as many windows as the shorter one has. Sides are those of one rule: 1 x windows.
    """
    length = np.array([left.shape[1] for left, _ in sides], dtype=np.int64)
    left, right = (np.zeros((len(sides), length.max(initial=0)), dtype=np.float32) for _ in range(2))
    for row, (a, c) in enumerate(sides):
        left[row, : length[row]], right[row, : length[row]] = a[0], c[0]
    shared, rows = np.minimum.outer(length, length), np.arange(len(sides))
    held_left, held_right = (np.pad(side.cumsum(axis=1), ((0, 0), (1, 0))) for side in (left, right))
    expected = held_left[rows[:, None], shared] * held_right[rows[None, :], shared] / np.maximum(shared, 1)
    return np.asarray(left @ right.T - expected, dtype=np.float64)


def _gain_over_others(beyond: Array, held: int, workloads: Sequence[str]) -> float:
    """By how much the left side tells the right one of its run better than those of other workloads, as confidence."""
    other = np.array(workloads)[:, None] != np.array(workloads)
    elsewhere = np.where(other, beyond, 0.0).sum(axis=1) / np.maximum(other.sum(axis=1), 1)
    return float((np.trace(beyond) - elsewhere.sum()) / max(held, 1))
