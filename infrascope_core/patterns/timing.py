"""Times of its own, or the course of the job: does a rule tie two things together, or does a schedule tie both?

What belongs here: the comparison of a run with others of its workload. Every run of a job loads, trains and saves in
the same order, so two things that have nothing to do with each other rise together in all of them. What one run's left
side shares with another run's right side is that schedule; what it shares only with its own is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.co_occurrence import Overlap, normal_chance
from infrascope_core.patterns.held import Held
from infrascope_core.patterns.settings import MiningSettings

OWN, COURSE, UNDECIDED, UNKNOWN = "own", "course", "undecided", "unknown"
_SIGNIFICANT = 0.05

Sides = Sequence[tuple[Mask, Mask]]
"""The two sides of a rule in every run."""


def timings(rules: Iterable[Sides], runs: Sequence[Held], settings: MiningSettings) -> list[str]:
    """Label rules.

    Parameters
    ----------
    rules : iterable of Sides
        Rules that hold up.
    runs : sequence of Held
        The runs, in the order of the sides.
    settings : MiningSettings
        `exchanges`, `random_state`.

    Returns
    -------
    list of str
        `own`: the sides overlap more within runs than between runs of one workload, more than in 95 % of the ways in
        which right sides can be exchanged, corrected for the number of rules (Holm, 1979). `course`: they do not, and
        they overlap between runs more than shifts of one of them would have it. `undecided`: neither is shown.
        `unknown`: no workload has two runs, one after another.
    """
    groups = _workloads(runs)
    rng = np.random.default_rng(settings.random_state)
    # each row is a permutation of the group's runs; the same for all rules
    orders = [rng.permuted(np.tile(np.arange(len(group)), (settings.exchanges, 1)), axis=1) for group in groups]
    found = [_of_rule(sides, groups, orders) for sides in rules]
    order = np.argsort([own for own, _ in found], kind="stable")
    labels = [UNDECIDED] * len(found)
    still_own = True
    for rank, rule in enumerate(order):
        own, between = found[rule]
        if not groups:
            labels[rule] = UNKNOWN
            continue
        still_own = still_own and own <= _SIGNIFICANT / (len(found) - rank)
        labels[rule] = OWN if still_own else COURSE if between < _SIGNIFICANT else UNDECIDED
    return labels


def _workloads(runs: Sequence[Held]) -> list[Ints]:
    """Runs of each workload that has several, one after another: hosts of one job have their times in common."""
    by_start = sorted((run for run in range(len(runs)) if runs[run].start), key=lambda run: (runs[run].start[0], run))
    groups: dict[str, list[int]] = {}
    for number in by_start:
        members = groups.setdefault(runs[number].workload, [])
        if not members or runs[number].start[0] > runs[members[-1]].start[-1]:
            members.append(number)
    return [np.array(members) for _, members in sorted(groups.items()) if len(members) > 1]


def _of_rule(sides: Sides, groups: Sequence[Ints], orders: Sequence[Ints]) -> tuple[float, float]:
    """Probability of the overlap within runs if right sides are exchanged, and of that between runs by shifts."""
    own, exchanged = 0.0, np.zeros(len(orders[0]) if orders else 0)
    excess = variance = 0.0
    for group, order in zip(groups, orders, strict=True):
        beyond, spread = _between([sides[run] for run in group])
        own += np.trace(beyond)
        exchanged += beyond[np.arange(len(group)), order].sum(axis=1)
        off = ~np.eye(len(group), dtype=bool)
        excess += beyond[off].sum()
        # a run's left side meets the right sides of all others: those overlaps are not independent of each other
        variance += (np.sqrt(np.where(off, spread, 0.0)).sum(axis=1) ** 2).sum()
    chance = (1 + np.count_nonzero(exchanged >= own - 1e-9)) / (1 + len(exchanged))
    between = normal_chance(np.array([excess / np.sqrt(variance)])) if variance > 0 else np.ones(1)
    return float(chance), float(between[0])


def _between(sides: Sides) -> tuple[Array, Array]:
    """Overlap beyond the expected of each run's left side with each run's right side, and its variance over shifts.

    Both from the runs' starts, over as many windows as the shortest of them has.
    """
    windows = min(len(left) for left, _ in sides)
    left, right = (np.stack([side[which][:windows] for side in sides], axis=1) for which in (0, 1))
    overlap = Overlap.of_run(left, right)
    return overlap.both - overlap.expected, overlap.variance
