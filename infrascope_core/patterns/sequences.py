"""Order in time: what rises or falls, and what does so some seconds later.

What belongs here: onsets, the test of their joint occurrence at a lag, and which orders hold up. The test is that of
`co_occurrence`: onsets are items that hold for one window, and a lag is a shift, whose variance all shifts share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.candidates import SIGNIFICANT
from infrascope_core.patterns.co_occurrence import Overlap, by_shift, chance_of_as_much
from infrascope_core.patterns.held import MEDIUM, Held, Items, group_of, level_of
from infrascope_core.patterns.sentences import sequence_sentence
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import SEQUENTIAL_PATTERNS
from infrascope_core.patterns.telling import Row, few, in_words
from infrascope_core.recipes import Recipe

_HELD = 2
"""Windows that a level must hold before and after an onset: a level that is left at once was none."""
_AGREEING = 1 / 2
"""Least share of the informative runs with more joint onsets than expected."""
_TOLD = 3
"""Most orders of a scope that are shown."""
_LONGEST_WINDOW_S = 1.5
"""In longer windows an order of seconds does not show."""


def _directed(items: Items) -> list[int]:
    """Items whose onset has a direction: what becomes LOW falls, what becomes HIGH rises."""
    return [i for i, name in enumerate(items.names) if level_of(name) != MEDIUM]


def onsets(holds: Mask, items: Items) -> tuple[Mask, tuple[str, ...]]:
    """Where levels begin.

    Parameters
    ----------
    holds : ndarray of bool, windows x items
        See `Held`.
    items : Items
        The columns.

    Returns
    -------
    begins : ndarray of bool, windows x onsets
        A level holds in this window and the next, and another of its group held in the two before.
    names : tuple of str
        The items, LOW and HIGH ones, of each column.
    """
    chosen = _directed(items)
    group = items.group
    begins = np.zeros((len(holds), len(chosen)), dtype=bool)
    steady = holds.copy()  # holds here and in the window after
    steady[:-1] &= holds[1:]
    steady[-1:] = False
    for column, item in enumerate(chosen):
        others = np.flatnonzero((group == group[item]) & (np.arange(len(group)) != item))
        before = np.asarray(steady[:, others].any(axis=1))
        begins[_HELD:, column] = steady[_HELD:, item] & before[:-_HELD]
    return begins, tuple(items.names[i] for i in chosen)


@dataclass(eq=False)
class OrderTally:
    """Joint onsets of a scope's runs, by lag.

    Attributes
    ----------
    items : Items
        All items; onsets are of those that are LOW or HIGH.
    lags : ndarray of int
        From minus to plus the longest, seconds.
    joint : ndarray, lags x onsets x onsets
        Times that the second begins so many seconds after the first.
    simultaneous : Overlap, onsets x onsets
        At lag 0: expectation and variance are those of all lags.
    count : ndarray, onsets
        How often each begins.
    """

    items: Items
    longest_lag_s: int
    joint: Array = field(init=False)
    simultaneous: Overlap = field(init=False)
    count: Array = field(init=False)

    def __post_init__(self) -> None:
        n = len(_directed(self.items))
        self.joint = np.zeros((len(self.lags), n, n))
        self.simultaneous, self.count = Overlap.nothing(n, n), np.zeros(n)

    @classmethod
    def of(cls, runs: Iterable[Held], items: Items, longest_lag_s: int) -> OrderTally:
        """The sum over these runs."""
        total = cls(items, longest_lag_s)
        for run in runs:
            total.add(order_of_run(run, items, longest_lag_s))
        return total

    @property
    def lags(self) -> Ints:
        """From minus to plus the longest, seconds."""
        return np.arange(-self.longest_lag_s, self.longest_lag_s + 1)

    def add(self, run: OrderOfRun | None) -> None:
        """Add a run; one whose windows are too long is None."""
        if run is None:
            return
        self.joint += run.joint
        self.simultaneous.add(run.simultaneous)
        self.count += run.count


@dataclass(frozen=True, eq=False)
class OrderOfRun:
    """The same of one run."""

    joint: Array
    simultaneous: Overlap
    count: Array


def order_of_run(run: Held, items: Items, longest_lag_s: int) -> OrderOfRun | None:
    """What a run adds to a tally; None where its windows are too long to show an order."""
    shown = _onsets_of(run, items)
    if shown is None:
        return None
    begins, window_s = shown
    lags = [round(lag / window_s) for lag in range(-longest_lag_s, longest_lag_s + 1)]
    joint = np.stack([_at_lag(begins, lag) for lag in lags])
    return OrderOfRun(joint, Overlap.of_run(begins, begins), begins.sum(axis=0).astype(np.float64))


def _onsets_of(run: Held, items: Items) -> tuple[Mask, float] | None:
    """The onsets of a run and its windows' length, seconds; None where they are too long to show an order."""
    if run.window_s is None or run.window_s > _LONGEST_WINDOW_S:
        return None
    return onsets(run.holds, items)[0], run.window_s


def _at_lag(begins: Mask, lag: int) -> Array:
    """Times that each onset is followed by each other one after so many windows: onsets x onsets."""
    x = begins.astype(np.float64)
    if abs(lag) >= len(x):
        return np.zeros((x.shape[1], x.shape[1]))
    joint: Array = x[: len(x) - lag].T @ x[lag:] if lag >= 0 else x[-lag:].T @ x[: len(x) + lag]
    return joint


def sequential_patterns(
    tally: OrderTally, runs: Sequence[Held], scope: str, settings: MiningSettings, recipe: Recipe
) -> pl.DataFrame:
    """The orders of a scope that hold up.

    Parameters
    ----------
    tally : OrderTally
        Of the scope's runs.
    runs : sequence of Held
        The same runs.
    scope : str
        Written into the column `scope`.
    settings : MiningSettings
        `min_joint_onsets`, `min_runs`.
    recipe : Recipe
        Words of the metric groups.

    Returns
    -------
    polars.DataFrame
        Table `sequential_patterns`, the largest z first.

    Notes
    -----
    Of a pair of onsets of different groups, the lag is taken at which most of them are joint, from minus to plus the
    longest. An order is claimed if it is after 0 and has more of them than its mirror. The probability is that of so
    many joint onsets if one of both is shifted in a circle in each run by itself, times the number of lags
    (Bonferroni); Benjamini and Hochberg's correction is over all pairs.
    """
    names = [tally.items.names[i] for i in _directed(tally.items)]
    groups = np.array([group_of(name) for name in names])
    first, second = np.nonzero((groups[:, None] != groups) & (tally.count[:, None] > 0) & (tally.count > 0))
    if not len(first):
        return SEQUENTIAL_PATTERNS.empty()
    at_lags, zero = tally.joint[:, first, second], tally.longest_lag_s
    best = at_lags.argmax(axis=0)
    joint = at_lags[best, np.arange(len(first))]
    mirror = at_lags[2 * zero - best, np.arange(len(first))]
    chosen = (best > zero) & (joint > mirror) & (joint >= settings.min_joint_onsets)
    chosen &= tally.simultaneous.informative[first, second] >= settings.min_runs
    p = np.ones(len(first))
    agreeing, informative = np.zeros(len(first)), np.zeros(len(first))
    rows = np.flatnonzero(chosen)
    shown = [own for run in runs if (own := _onsets_of(run, tally.items)) is not None] if len(rows) else []
    shares: list[list[Array]] = []
    for begins, window_s in shown:
        left, right = begins[:, first[rows]], begins[:, second[rows]]
        shares.append(by_shift(left, right))
        lags = np.array([round(lag / window_s) for lag in best[rows] - zero])
        vary = left.any(axis=0) & right.any(axis=0)
        more = _followed(left, right, lags) > left.sum(axis=0) * right.sum(axis=0) / len(left)
        informative[rows] += vary
        agreeing[rows] += vary & more
    for row, of_runs in zip(rows, zip(*shares, strict=True), strict=True):
        p[row] = min(1.0, chance_of_as_much(round(joint[row]), of_runs) * len(tally.lags))
    q = false_discovery_control(p)
    kept = np.flatnonzero(chosen & (q < SIGNIFICANT) & (agreeing >= _AGREEING * np.maximum(informative, 1)))
    expected, variance = (
        part[first[kept], second[kept]] for part in (tally.simultaneous.expected, tally.simultaneous.variance)
    )
    found = pl.DataFrame(
        {
            "scope": [scope] * len(kept),
            "first": [names[i] for i in first[kept]],
            "then": [names[i] for i in second[kept]],
            "lag_s": (best[kept] - zero).astype(np.float64),
            "times": joint[kept],
            "of": tally.count[first[kept]],
            "expected": expected,
            "mirrored": mirror[kept],
            "informative_runs": informative[kept],
            "agreeing_runs": agreeing[kept],
            "z": (joint[kept] - expected) / np.sqrt(np.maximum(variance, 1e-12)),
            "p_value": p[kept],
            "q_value": q[kept],
            "tested": [len(first)] * len(kept),
        },
        schema_overrides={"scope": pl.String, "first": pl.String, "then": pl.String, "tested": pl.Int64},
    )
    ranked = found.sort("z", "first", "then", descending=[True, False, False])
    told = (row["place"] for row in told_sequences(ranked.with_row_index("place"), _TOLD))
    return in_words(ranked, SEQUENTIAL_PATTERNS, told, lambda row: sequence_sentence(row, recipe))


def _followed(left: Mask, right: Mask, lags: Ints) -> Ints:
    """How often the right one of each pair of onsets begins so many windows after the left one."""
    found = np.zeros(len(lags), dtype=np.int64)
    for lag in np.unique(lags):
        pairs = np.flatnonzero(lags == lag)
        found[pairs] = (left[:-lag, pairs] & right[lag:, pairs]).sum(axis=0)
    return found


def told_sequences(found: pl.DataFrame, limit: int) -> Iterator[Row]:
    """The few orders that a person should read first: each pair of groups once, what follows at most twice."""
    ranked = found.sort("z", descending=True, maintain_order=True).iter_rows(named=True)
    return few(
        ranked,
        limit,
        says=lambda row: [frozenset((group_of(row["first"]), group_of(row["then"])))],
        about=lambda row: group_of(row["then"]),
    )
