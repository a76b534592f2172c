"""Frequent itemsets of symbolic baskets.

What belongs here: mining one scope's baskets. Rules drawn from the itemsets live in `rules.py`.

The miner is Eclat (Zaki, "Scalable algorithms for association mining", TKDE 2000) on bitsets: an item is the
set of baskets that hold it, one bit a basket, so an itemset's count is the population count of an AND.
Counts are integers throughout; `mlxtend.frequent_patterns.fpgrowth` is the oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.contract import WINDOW_KEY
from infrascope_core.frames import numbered
from infrascope_core.numeric import Ints, Mask
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import FREQUENT_ITEMSETS

_WORD = 64
_DENSE = 0.6
"""Share of words with a bit, above which picking them out costs more than it saves."""
_AT_ONCE = 2**22
"""Pairs of extensions x words up to which itemsets are extended by two items at once: calls take most of the time."""
_STEP = 2**18
"""Itemsets x words that are counted in one step, to stay within a processor's cache."""

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class BasketBits:
    """Baskets of a scope, one bit each.

    Attributes
    ----------
    names : pl.Series
        Items, sorted.
    bits : ndarray of uint64, items x words
        Which baskets hold each item. Every run starts at a word of its own, so that "occurs in this run" is "has a bit
        in these words".
    starts : ndarray of int
        The word at which each run starts.
    total : int
        How many baskets there are: the denominator of every support.
    """

    names: pl.Series
    bits: Bits
    starts: Ints
    total: int

    @classmethod
    def of_table(cls, baskets: pl.DataFrame, min_support: float) -> BasketBits:
        """From rows of the table `baskets`, in any order; rows without an item only count as baskets.

        Items that are not frequent get no bits: they are in no frequent itemset, and there may be very many.
        """
        keys, basket = numbered(baskets, WINDOW_KEY)
        runs = keys.group_by("run_key", maintain_order=True).len()["len"].to_numpy().astype(np.int64)
        words = -(-runs // _WORD)
        starts = _starts(words)
        first = np.concatenate([[0], np.cumsum(runs)[:-1]])
        place = np.arange(keys.height) + np.repeat(starts * _WORD - first, runs)
        common = baskets["item"].drop_nulls().value_counts().filter(pl.col("count") / keys.height >= min_support)
        names = common["item"].sort()
        numbers = np.arange(len(names))
        code = baskets["item"].replace_strict(names, numbers, default=-1, return_dtype=pl.Int64).to_numpy()
        bits = np.zeros((len(names), int(words.sum()) * _WORD // 8), dtype=np.uint8)
        row = np.empty(bits.shape[1] * 8, dtype=bool)
        order = np.argsort(code, kind="stable")
        bounds = np.searchsorted(code[order], np.arange(len(names) + 1))
        for item, (begin, end) in enumerate(pairwise(bounds)):
            row[:] = False
            row[place[basket[order[begin:end]]]] = True
            bits[item] = np.packbits(row)
        return cls(names, bits.view(np.uint64), starts, keys.height)

    @classmethod
    def of_runs(cls, runs: Sequence[RunBits], names: Sequence[str]) -> BasketBits:
        """From runs whose bits have the same items, which are named."""
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        words = np.array([run.bits.shape[1] for run in runs], dtype=np.int64)
        bits = np.hstack([np.zeros((len(names), 0), dtype=np.uint64), *(run.bits for run in runs)])
        return cls(pl.Series([names[i] for i in order]), bits[order], _starts(words), sum(run.baskets for run in runs))


@dataclass(frozen=True, eq=False)
class RunBits:
    """Baskets of one run.

    Attributes
    ----------
    bits : ndarray of uint64, items x words
        Which baskets hold each item.
    baskets : int
        How many there are.
    """

    bits: Bits
    baskets: int

    @classmethod
    def of(cls, holds: Mask) -> RunBits:
        """From windows x items. Equal baskets get bits side by side, so that rare itemsets are in few words."""
        words = -(-len(holds) // _WORD)
        padded = np.zeros((holds.shape[1], words * _WORD), dtype=bool)
        if len(holds):
            padded[:, : len(holds)] = holds[np.lexsort(np.packbits(holds, axis=1).T[::-1])].T
        return cls(np.packbits(padded, axis=1).view(np.uint64), len(holds))


def _starts(words: Ints) -> Ints:
    """Where runs of so many words begin; one without any has no place."""
    words = words[words > 0]
    return np.concatenate([[0], np.cumsum(words)[:-1]]).astype(np.int64)


def frequent_itemsets(baskets: pl.DataFrame | BasketBits, scope: str, settings: MiningSettings) -> pl.DataFrame:
    """Mine the itemsets that at least `min_support` of one scope's baskets hold.

    Parameters
    ----------
    baskets : polars.DataFrame or BasketBits
        Rows of the table `baskets` of one scope, in any order, or the same as bits.
    scope : str
        Written into the column `scope`.
    settings : MiningSettings
        `min_support`, `max_size`; fewer than `min_baskets` baskets give no itemsets.

    Returns
    -------
    polars.DataFrame
        Table `frequent_itemsets`, by size, then falling support, then items. `closed` and `maximal` hold with
        respect to all itemsets: one size more than `max_size` is mined for them and left out.

    Notes
    -----
    An itemset is closed if no superset has its count, maximal if no superset is frequent. Support never grows
    with size, so looking at supersets of one item more suffices.
    """
    if isinstance(baskets, pl.DataFrame):
        if baskets.is_empty():
            return FREQUENT_ITEMSETS.empty()
        baskets = BasketBits.of_table(baskets, settings.min_support)
    if baskets.total < max(settings.min_baskets, 1):
        return FREQUENT_ITEMSETS.empty()
    miner = _mined(baskets, settings.min_support, settings.max_size + 1, with_runs=settings.max_size)
    levels = miner.levels()
    miner.found.clear()
    frames, codes = [], np.zeros((0, 0), dtype=np.int32)
    for size, level in enumerate(levels[: settings.max_size], start=1):
        has_superset, same_count = _supersets(levels, size)
        codes = level.last[:, None] if size == 1 else np.column_stack([codes[level.parent], level.last])
        items = baskets.names.gather(codes.ravel()).reshape(codes.shape).cast(pl.List(pl.String))
        frames.append(
            pl.DataFrame(
                {
                    "items": items,
                    "size": np.full(len(level.counts), size, dtype=np.int64),
                    "count": level.counts,
                    "support": level.counts / baskets.total,
                    "runs": level.runs,
                    "closed": ~same_count,
                    "maximal": ~has_superset,
                }
            ).sort("count", descending=True, maintain_order=True)
        )
    if not frames:
        return FREQUENT_ITEMSETS.empty()
    return (
        pl.concat(frames)
        .with_columns(scope=pl.lit(scope))
        .select(FREQUENT_ITEMSETS.schema.names())
        .cast(FREQUENT_ITEMSETS.schema)
    )


def count_itemsets(baskets: BasketBits, min_support: float, max_size: int) -> list[int]:
    """How many itemsets of each size from 1 to `max_size` are frequent."""
    if not baskets.total:
        return [0] * max_size
    miner = _mined(baskets, min_support, max_size, with_runs=0)
    return [*miner.sizes, *[0] * (max_size - len(miner.sizes))]


def _mined(baskets: BasketBits, min_support: float, max_size: int, with_runs: int) -> _Eclat:
    miner = _Eclat(least_count(baskets.total, min_support), max_size, with_runs)
    miner.mine(baskets)
    return miner


def least_count(total: int, min_support: float) -> int:
    """Smallest count whose share reaches the minimum (a ceiling would trip over 0.07 * 100 > 7)."""
    counts = np.arange(1, total + 1)
    return int(counts[np.argmax(counts / total >= min_support)])


Numbers = NDArray[np.int32]
"""What is kept of each itemset: there are millions."""


@dataclass
class _Level:
    """Itemsets of one size in lexicographic order of their item codes.

    `parent` is the row, one level down, of the itemset without its last item.
    """

    last: Numbers
    parent: Numbers
    counts: Numbers
    runs: Numbers


@dataclass(frozen=True, eq=False)
class _Node:
    """The baskets that hold a prefix: which of them hold each further item, and the word at which each run starts."""

    bits: Bits
    starts: Ints

    def within(self, item: int) -> _Node:
        """The baskets that hold an item as well, with those after it; words without any are left out if many are."""
        own = self.bits[item]
        here = np.flatnonzero(own)
        if len(here) > _DENSE * len(own):
            return _Node(self.bits[item + 1 :] & own, self.starts)
        run = np.searchsorted(self.starts, here, side="right")
        return _Node(self.bits[item + 1 :, here] & own[here], np.flatnonzero(np.diff(run, prepend=0)))

    def runs(self, bits: Bits) -> Ints:
        """In how many runs there are any of these bits, itemsets x words of this node."""
        within = np.bitwise_or.reduceat(bits, self.starts, axis=1) != 0
        return np.asarray(within.sum(axis=1, dtype=np.int64))


def _count(bits: Bits) -> Ints:
    """How many bits are set, of itemsets x words."""
    # four times as fast as a sum of 64 bits
    return np.asarray(np.bitwise_count(bits).sum(axis=1, dtype=np.uint32).astype(np.int64))


@dataclass
class _Eclat:
    """Depth-first search; every node tests all its extensions in one vectorised step.

    The runs of an itemset are counted up to the size `with_runs`.
    """

    min_count: int
    max_size: int
    with_runs: int
    found: list[list[tuple[Numbers, Numbers, Numbers, Numbers]]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def mine(self, baskets: BasketBits) -> None:
        """Search all items."""
        self._extend(1, np.arange(len(baskets.bits)), _Node(baskets.bits, baskets.starts), -1)

    def levels(self) -> list[_Level]:
        """All itemsets found, by size from 1."""
        return [_Level(*(np.concatenate(part) for part in zip(*rows, strict=True))) for rows in self.found]

    def _extend(self, size: int, items: Ints, node: _Node, parent: int) -> None:
        counts = _count(node.bits)
        keep = counts >= self.min_count
        items, counts, node = items[keep], counts[keep], _Node(node.bits[keep], node.starts)
        if not len(items):
            return
        runs = node.runs(node.bits) if size <= self.with_runs else np.zeros(len(items))
        row = self._keep(size, items, np.full(len(items), parent), counts, runs)
        if size == self.max_size:
            return
        if size >= self.max_size - 2 and len(items) ** 2 * len(node.bits[0]) <= _AT_ONCE:
            self._extend_at_once(size + 1, items, node, row)
            return
        for i in range(len(items) - 1):
            self._extend(size + 1, items[i + 1 :], node.within(i), row + i)

    def _extend_at_once(self, size: int, items: Ints, node: _Node, parent: int) -> None:
        """The largest itemsets, those of two sizes: of few words, calls cost more than counting."""
        first, second = _pairs(len(items))
        pairs = node.bits[first] & node.bits[second]
        counts = _count(pairs)
        keep = np.flatnonzero(counts >= self.min_count)
        if not len(keep):
            return
        first, second, pairs = first[keep], second[keep], pairs[keep]
        runs = node.runs(pairs) if size <= self.with_runs else np.zeros(len(keep))
        row = self._keep(size, items[second], parent + first, counts[keep], runs)
        if size == self.max_size:
            return
        frequent = np.zeros((len(items), len(items)), dtype=bool)
        frequent[first, second] = True
        pair, third = np.nonzero(frequent[first] & frequent[second])
        step = max(1, _STEP // pairs.shape[1])
        for begin in range(0, len(pair), step):
            of_pair, last = pair[begin : begin + step], third[begin : begin + step]
            counts = _count(pairs[of_pair] & node.bits[last])
            keep = np.flatnonzero(counts >= self.min_count)
            if len(keep):
                self._keep(size + 1, items[last[keep]], row + of_pair[keep], counts[keep], np.zeros(len(keep)))

    def _keep(self, size: int, *columns: NDArray[Any]) -> int:
        """Put itemsets beside those that were found; the row of the first."""
        if len(self.found) < size:
            self.found.append([])
            self.sizes.append(0)
        row = self.sizes[size - 1]
        self.sizes[size - 1] += len(columns[0])
        last, parent, counts, runs = (column.astype(np.int32) for column in columns)
        self.found[size - 1].append((last, parent, counts, runs))
        return row


@lru_cache(maxsize=256)
def _pairs(number: int) -> tuple[Ints, Ints]:
    """The first and the second of all pairs."""
    first, second = np.triu_indices(number, 1)
    return first.astype(np.int64), second.astype(np.int64)


def _supersets(levels: list[_Level], size: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For the itemsets of one size: is there a frequent superset, and is there one of the same count."""
    here = levels[size - 1]
    has = np.zeros(len(here.counts), dtype=bool)
    same = np.zeros(len(here.counts), dtype=bool)
    if size < len(levels):
        above = levels[size]
        for position in range(size + 1):
            subset = _without(levels, size + 1, position)
            has[subset] = True
            same[subset[above.counts == here.counts[subset]]] = True
    return has, same


def _without(levels: list[_Level], size: int, position: int) -> Ints | Numbers:
    """Rows, one level down, of the itemsets of `size` without the item at `position`.

    Without the last item that is the parent. Otherwise it is the parent without that item, extended by the
    last item; a level's (parent, last item) pairs are in ascending order, so a binary search finds it.
    """
    level = levels[size - 1]
    if position == size - 1:
        return level.parent
    below = levels[size - 2]
    base = int(levels[0].last.max()) + 1
    grandparent = _without(levels, size - 1, position)[level.parent] if size > 2 else np.full(len(level.parent), -1)
    known = below.parent.astype(np.int64) * base + below.last
    return np.searchsorted(known, np.asarray(grandparent, dtype=np.int64) * base + level.last).astype(np.int64)
