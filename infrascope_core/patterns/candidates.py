"""Which rules a scope tests, and what speaks for each but its probability.

What belongs here: antecedents of one, two and three items with what the runs say of them. Those of one and two are read
off the sums of a scope (`tallies`). There are too many sets of three for that: they are counted, and only those whose
counts speak for a rule are looked at run by run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.co_occurrence import Overlap, normal_chance
from infrascope_core.patterns.held import Held, Items
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tallies import Tally, pairs_of

SIGNIFICANT = 0.05
"""Largest q-value of a rule, and largest probability of what else it must show."""
AT_ONCE = 2**22
"""Windows x rules that are looked at together, to bound memory."""
_AGREEING = 2 / 3
"""Least share of the informative runs in which both sides overlap more than expected."""
_NONE = -1
"""Where a left side has fewer items than others."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rules of a scope, as arrays of one entry a rule.

    Attributes
    ----------
    left : ndarray of int, rules x `max_antecedent`
        The items on the left; -1 beyond the last.
    right : ndarray of int
        The item on the right.
    both, count_left, count_right, expected : ndarray
        Windows that hold both sides, either side, and as many as are expected to hold both.
    present, informative, agreeing, z, z_without : ndarray
        See `Overlap`.
    holds_up : ndarray of bool
        All but the probability speaks for the rule.
    least_chance : ndarray
        What it must be tested by beside its own probability: whether each of its items adds to the others.
    tested : int
        Rules that were tested: those that are left out here hold nothing up, and count with probability 1.
    """

    left: Ints
    right: Ints
    both: Array
    count_left: Array
    count_right: Array
    expected: Array
    present: Array
    informative: Array
    agreeing: Array
    z: Array
    z_without: Array
    holds_up: Mask
    least_chance: Array
    tested: int


def left_side(holds: Mask, left: Ints) -> Mask:
    """Windows that hold all items on the left of each rule.

    Parameters
    ----------
    holds : ndarray of bool, windows x items
        See `Held`.
    left : ndarray of int, rules x items
        See `Candidates`.

    Returns
    -------
    ndarray of bool, windows x rules
    """
    held = holds[:, left[:, 0]]
    for others in left.T[1:]:
        held = held & (holds[:, others] | (others == _NONE))
    return np.asarray(held)


def to_be_tested(holds: Mask, items: Items, settings: MiningSettings) -> int:
    """How many rules a scope tests.

    Parameters
    ----------
    holds : ndarray of bool, windows x items
        Of all its runs.
    items : Items
        The columns.
    settings : MiningSettings
        `min_support`, `max_antecedent`.
    """
    if not len(holds):
        return 0
    x = holds.astype(np.float64)
    tested = sum(len(right) for _, right in _sides(x.T @ x, len(holds), items, settings))
    if settings.max_antecedent > 2:
        tested += sum(int(np.count_nonzero(fits)) for _, _, fits in _threes(holds, items, settings))
    return tested


def candidates(tally: Tally, runs: Sequence[Held], settings: MiningSettings) -> Iterator[Candidates]:
    """Rules with one item on the left, those with two, and those with three, as far as `max_antecedent` goes.

    Parameters
    ----------
    tally : Tally
        Of the scope's runs.
    runs : sequence of Held
        The same runs, each with the tally's items.
    settings : MiningSettings
        `min_support`, `min_gain`, `min_runs`, `max_antecedent`.
    """
    if not tally.windows:
        return
    (left, right), *deeper = _sides(tally.single.both, tally.windows, tally.items, settings)
    count = np.diag(tally.single.both)
    yield _of(tally.single, (left, right), _Sides(left[:, None], right, count[left]), tally, settings)
    for row, right in deeper:
        yield _with_two(row, right, tally, settings)
    if settings.max_antecedent > 2:
        yield _with_three(runs, tally, settings)


def _sides(both: Array, windows: int, items: Items, settings: MiningSettings) -> Iterator[tuple[Ints, Ints]]:
    """Left and right sides of rules with one item on the left, as row of `both`; then with two, as row of the pairs."""
    group = items.group
    common = np.diag(both) / windows >= settings.min_support
    yield _where(common[:, None] & common[None, :] & (group[:, None] != group[None, :]))
    if settings.max_antecedent > 1:
        first, second = pairs_of(items).T
        fits = (both[first, second] / windows >= settings.min_support)[:, None] & common[None, :]
        yield _where(fits & (group[first][:, None] != group) & (group[second][:, None] != group))


class _Sides(NamedTuple):
    """The sides of rules, and how many windows hold the left one."""

    left: Ints
    right: Ints
    count_left: Array

    @classmethod
    def none(cls) -> _Sides:
        """Of no rules with three items on the left."""
        return cls(np.zeros((0, 3), dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def _where(mask: Mask) -> tuple[Ints, Ints]:
    row, column = np.nonzero(mask)
    return row.astype(np.int64), column.astype(np.int64)


def _with_two(row: Ints, right: Ints, tally: Tally, settings: MiningSettings) -> Candidates:
    single, pairs = tally.single, pairs_of(tally.items)[row]
    first, second = pairs.T
    count = np.diag(single.both)
    found = _of(tally.joint, (row, right), _Sides(pairs, right, single.both[first, second]), tally, settings)
    least = np.maximum(single.both[first, right] / count[first], single.both[second, right] / count[second])
    n = len(count)
    adds = np.minimum(tally.within.z[first * n + second, right], tally.within.z[second * n + first, right])
    return _productive(found, least, adds, settings)


def _productive(found: Candidates, least: Array, adds: Array, settings: MiningSettings) -> Candidates:
    """With what rules must be beyond their parts: their largest confidence, and the least that an item adds (as z)."""
    chance = normal_chance(adds)
    holds_up = found.holds_up & (found.both / found.count_left >= least + settings.min_gain) & (chance < SIGNIFICANT)
    return replace(found, holds_up=holds_up, least_chance=chance)


def _threes(holds: Mask, items: Items, settings: MiningSettings) -> Iterator[tuple[Ints, Array, Mask]]:
    """Sets of three items, by their first two.

    Yields
    ------
    left : ndarray of int, sets x 3
        Items of different groups, by number.
    both : ndarray, sets x items
        Windows that hold the three and the other.
    fits : ndarray of bool, sets x items
        The rule is to be tested.
    """
    group, least = items.group, settings.min_support
    common = holds.mean(axis=0) >= least
    for first, second in pairs_of(items):
        third = np.flatnonzero(common & (group != group[second]) & (np.arange(len(group)) > second))
        inside = holds[holds[:, first] & holds[:, second]]
        if not len(third) or len(inside) / len(holds) < least:
            continue
        x = inside.astype(np.float32)  # counts are whole numbers: exact up to 16 million windows of a pair
        both = (x[:, third].T @ x).astype(np.float64)
        left = np.stack([np.full_like(third, first), np.full_like(third, second), third], axis=1)
        frequent = both[np.arange(len(third)), third] / len(holds) >= least
        fits = frequent[:, None] & common & (group[left][:, :, None] != group).all(axis=1)
        yield left, both, fits


def _with_three(runs: Sequence[Held], tally: Tally, settings: MiningSettings) -> Candidates:
    """Of the rules with three items on the left, those whose confidence is beyond that of all of their parts."""
    single, items, windows = tally.single.both, tally.items, tally.windows
    first, second = pairs_of(items).T
    row = np.zeros((len(single), len(single)), dtype=np.int64)
    row[first, second] = row[second, first] = np.arange(len(first))
    with np.errstate(divide="ignore", invalid="ignore"):
        of_one = np.nan_to_num(single / np.diag(single)[:, None])
        of_two = np.nan_to_num(tally.joint.both / single[first, second][:, None])
    found, parts, tested = [_Sides.none()], [np.zeros(0)], 0
    for left, both, fits in _threes(np.concatenate([run.holds for run in runs]), items, settings):
        tested += int(np.count_nonzero(fits))
        count = both[np.arange(len(left)), left[:, 2]]
        least = of_one[left].max(axis=1)
        for a, b in combinations(range(3), 2):
            least = np.maximum(least, of_two[row[left[:, a], left[:, b]]])
        enough = (both / windows >= settings.min_support) & (
            both / np.maximum(count, 1)[:, None] >= least + settings.min_gain
        )
        which, right = _where(fits & enough)
        found.append(_Sides(left[which], right, count[which]))
        parts.append(least[which, right])
    sides = _Sides(*(np.concatenate(part) for part in zip(*found, strict=True)))
    at = np.arange(len(sides.right)), np.zeros_like(sides.right)
    promising = _of(_paired(runs, sides.left, sides.right), at, sides, tally, settings)
    adds = np.zeros(len(sides.right))
    rows = np.flatnonzero(promising.holds_up)
    adds[rows] = _least_added(runs, sides.left[rows], sides.right[rows])
    return replace(_productive(promising, np.concatenate(parts), adds, settings), tested=tested)


def _paired(runs: Sequence[Held], left: Ints, right: Ints) -> Overlap:
    """Overlap of the two sides of each rule over all runs: rules x 1."""
    total = Overlap.nothing(len(right), 1)
    for run in runs:
        step = max(1, AT_ONCE // max(len(run.holds), 1))
        for begin in range(0, len(right), step):
            at = slice(begin, begin + step)
            total.add(Overlap.of_pairs(left_side(run.holds, left[at]), run.holds[:, right[at]]), at)
    return total


def _least_added(runs: Sequence[Held], left: Ints, right: Ints) -> Array:
    """What each item on the left adds within the windows that hold the others, as z: the least of the items."""
    least = np.full(len(right), np.inf)
    for place in range(left.shape[1]):
        others, which = np.unique(np.delete(left, place, axis=1), axis=0, return_inverse=True)
        for number, items in enumerate(others):
            rules = np.flatnonzero(which.ravel() == number)
            total = Overlap.nothing(len(rules), 1)
            for run in runs:
                own = run.holds[run.holds[:, items].all(axis=1)]
                if len(own):
                    total.add(Overlap.of_pairs(own[:, left[rules, place]], own[:, right[rules]]))
            least[rules] = np.minimum(least[rules], total.z[:, 0])
    return least


def _of(overlap: Overlap, at: tuple[Ints, Ints], sides: _Sides, tally: Tally, settings: MiningSettings) -> Candidates:
    """Rules with these overlaps, of which `at` gives rows and columns."""
    left, right, count_left = sides
    both, expected, informative = overlap.both[at], overlap.expected[at], overlap.informative[at]
    z, z_without = overlap.z[at], overlap.z_without_strongest[at]
    holds_up = (
        (both / tally.windows >= settings.min_support)
        & ((both - expected) / count_left >= settings.min_gain)
        & (informative >= settings.min_runs)
        & (overlap.agreeing[at] >= _AGREEING * informative)
        & (normal_chance(z_without) < SIGNIFICANT)
    )
    spare = np.full((len(right), max(0, settings.max_antecedent - left.shape[1])), _NONE, dtype=np.int64)
    return Candidates(
        left=np.hstack([left, spare]),
        right=right,
        both=both,
        count_left=count_left,
        count_right=np.diag(tally.single.both)[right],
        expected=expected,
        present=overlap.present[at],
        informative=informative,
        agreeing=overlap.agreeing[at],
        z=z,
        z_without=z_without,
        holds_up=holds_up,
        least_chance=np.zeros(len(right)),
        tested=len(right),
    )
