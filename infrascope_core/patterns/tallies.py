"""What the runs of a scope add up to: the overlaps that rules are tested by.

What belongs here: one pass over the runs, each seen once, and the sums that are kept of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from infrascope_core.numeric import Ints, Mask
from infrascope_core.patterns.co_occurrence import Beyond, Overlap, Side
from infrascope_core.patterns.held import Held, Items


@dataclass(eq=False)
class Tally:
    """What all runs of a scope add up to.

    Attributes
    ----------
    single : Overlap, items x items
        Each item with each other.
    joint : Overlap, (pairs of items) x items
        Windows that hold two items with each other item; pairs in the order of `pairs_of`.
    within : Beyond, (items x items) x items
        Of the windows that hold the first item alone, the second with each other: row first x items + second.
    windows : int
        How many there are.
    """

    items: Items
    max_antecedent: int
    windows: int = 0
    single: Overlap = field(init=False)
    joint: Overlap = field(init=False)
    within: Beyond = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.items.names)
        self.single = Overlap.nothing(n, n)
        deep = self.max_antecedent > 1
        self.joint = Overlap.nothing(len(pairs_of(self.items)) if deep else 0, n)
        self.within = Beyond.nothing(n * n if deep else 0, n)

    @classmethod
    def of(cls, runs: Iterable[Held], items: Items, max_antecedent: int) -> Tally:
        """The sum over these runs."""
        total = cls(items, max_antecedent)
        for run in runs:
            total.add(run_overlaps(run.holds, items, max_antecedent))
        return total

    def add(self, run: RunOverlaps) -> None:
        """Add a run."""
        self.windows += run.windows
        self.single.add(run.single)
        for at, joint in run.joint:
            self.joint.add(joint, at)
        for at, within in run.within:
            self.within.add(within, at)


def pairs_of(items: Items) -> Ints:
    """Pairs of items of different groups, the first before the second: pairs x 2."""
    group = items.group
    first, second = np.triu_indices(len(group), 1)
    different = group[first] != group[second]
    return np.stack([first[different], second[different]], axis=1)


@dataclass(frozen=True, eq=False)
class RunOverlaps:
    """The same of one run: overlaps with the rows of a tally that they are added to."""

    windows: int
    single: Overlap
    joint: Sequence[tuple[slice, Overlap]]
    within: Sequence[tuple[slice, Beyond]]


def run_overlaps(holds: Mask, items: Items, max_antecedent: int) -> RunOverlaps:
    """What one run adds to a tally.

    Parameters
    ----------
    holds : ndarray of bool, windows x items
        See `Held`.
    items : Items
        The columns.
    max_antecedent : int
        With 2 or more, pairs of items are added up as well; three items are few enough to be looked at one by one
        (`candidates`).
    """
    n, group, whole = len(items.names), items.group, Side.of(holds)
    joint, within, begin = [], [], 0
    for item in range(n if max_antecedent > 1 else 0):
        others = np.flatnonzero(group[item + 1 :] != group[item]) + item + 1
        at, begin = slice(begin, begin + len(others)), begin + len(others)
        here = holds[:, item]
        if here.any():
            joint.append((at, Overlap.of_sides(Side.of(holds[:, others] & here[:, None]), whole)))
            own = Side.of(holds[here])
            within.append((slice(item * n, (item + 1) * n), Beyond.of_sides(own, own)))
    return RunOverlaps(len(holds), Overlap.of_sides(whole, whole), joint, within)
