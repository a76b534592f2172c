"""Frequent itemsets of symbolic baskets.

What belongs here: mining one scope's baskets. Rules drawn from the itemsets live in `rules.py`.

The miner is Eclat (Zaki, "Scalable algorithms for association mining", TKDE 2000) on bitsets: an item is the
set of baskets that hold it, one bit a basket, so an itemset's count is the population count of an AND.
Counts are integers throughout; `mlxtend.frequent_patterns.fpgrowth` is the oracle in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.contract import WINDOW_KEY
from infrascope_core.frames import numbered
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import FREQUENT_ITEMSETS

_WORD = 64

Bits = NDArray[np.uint64]
Ints = NDArray[np.int64]


def basket_count(baskets: pl.DataFrame) -> int:
    """Number of baskets (run, host and window) among the rows; the denominator of every support."""
    return baskets.select(pl.struct(WINDOW_KEY).n_unique()).item() if baskets.height else 0


def frequent_itemsets(baskets: pl.DataFrame, scope: str, settings: MiningSettings) -> pl.DataFrame:
    """Mine the itemsets that at least `min_support` of one scope's baskets hold.

    Parameters
    ----------
    baskets : polars.DataFrame
        Rows of the table `baskets` of one scope, in any order; rows without an item only count as baskets.
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
    if baskets.is_empty():
        return FREQUENT_ITEMSETS.empty()
    names, bits, starts, total = _bitsets(baskets, settings.min_support)
    if total < max(settings.min_baskets, 1):
        return FREQUENT_ITEMSETS.empty()
    miner = _Eclat(least_count(total, settings.min_support), settings.max_size + 1, starts)
    miner.mine(bits)
    levels = miner.levels()
    frames = []
    for size, level in enumerate(levels[: settings.max_size], start=1):
        has_superset, same_count = _supersets(levels, size)
        items = names.gather(level.items.ravel()).reshape((len(level.items), size)).cast(pl.List(pl.String))
        frames.append(
            pl.DataFrame(
                {
                    "items": items,
                    "size": np.full(len(level.counts), size, dtype=np.int64),
                    "count": level.counts,
                    "support": level.counts / total,
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


def count_itemsets(baskets: pl.DataFrame, min_support: float, max_size: int) -> list[int]:
    """How many itemsets of each size from 1 to `max_size` are frequent; for `baskets` see `frequent_itemsets`."""
    if baskets.is_empty():
        return [0] * max_size
    _, bits, starts, total = _bitsets(baskets, min_support)
    miner = _Eclat(least_count(total, min_support), max_size, starts)
    miner.mine(bits)
    return [*miner.sizes, *[0] * (max_size - len(miner.sizes))]


def least_count(total: int, min_support: float) -> int:
    """Smallest count whose share reaches the minimum (a ceiling would trip over 0.07 * 100 > 7)."""
    counts = np.arange(1, total + 1)
    return int(counts[np.argmax(counts / total >= min_support)])


def _bitsets(baskets: pl.DataFrame, min_support: float) -> tuple[pl.Series, Bits, Ints, int]:
    """Names of the frequent items, one row of bits per item, the word at which each run starts, and how many baskets.

    Every run starts at a word of its own, so that "occurs in this run" is "has a bit in these words". What is not
    frequent gets no bits: it is in no frequent itemset.
    """
    keys, basket = numbered(baskets, WINDOW_KEY)
    runs = keys.group_by("run_key", maintain_order=True).len()["len"].to_numpy().astype(np.int64)
    words = -(-runs // _WORD)
    starts = np.concatenate([[0], np.cumsum(words)[:-1]]).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(runs)[:-1]])
    place = np.arange(keys.height) + np.repeat(starts * _WORD - first, runs)
    common = baskets["item"].drop_nulls().value_counts().filter(pl.col("count") / keys.height >= min_support)
    names = common["item"].sort()
    code = baskets["item"].replace_strict(names, np.arange(len(names)), default=-1, return_dtype=pl.Int64).to_numpy()
    bits = np.zeros((len(names), int(words.sum()) * _WORD // 8), dtype=np.uint8)
    row = np.empty(bits.shape[1] * 8, dtype=bool)
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(len(names) + 1))
    for item, (begin, end) in enumerate(pairwise(bounds)):
        row[:] = False
        row[place[basket[order[begin:end]]]] = True
        bits[item] = np.packbits(row)
    return names, bits.view(np.uint64), starts, keys.height


@dataclass
class _Level:
    """Itemsets of one size in lexicographic order of their item codes.

    `parent` is the row, one level down, of the itemset without its last item.
    """

    items: Ints
    parent: Ints
    counts: Ints
    runs: Ints


@dataclass
class _Eclat:
    """Depth-first search; every node tests all its extensions in one vectorised step."""

    min_count: int
    max_size: int
    starts: Ints
    found: list[list[tuple[Ints, Ints, Ints, Ints]]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def mine(self, bits: Bits) -> None:
        """Search the items whose bitsets are given, one row each."""
        self._extend((), np.arange(len(bits)), bits, -1)

    def levels(self) -> list[_Level]:
        """All itemsets found, by size from 1."""
        return [_Level(*(np.concatenate(part) for part in zip(*rows, strict=True))) for rows in self.found]

    def _extend(self, prefix: tuple[int, ...], items: Ints, bits: Bits, parent: int) -> None:
        counts = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        keep = counts >= self.min_count
        items, bits, counts = items[keep], bits[keep], counts[keep]
        if not len(items):
            return
        size = len(prefix) + 1
        if len(self.found) < size:
            self.found.append([])
            self.sizes.append(0)
        row = self.sizes[size - 1]
        self.sizes[size - 1] += len(items)
        sets = np.empty((len(items), size), dtype=np.int64)
        sets[:, :-1] = prefix
        sets[:, -1] = items
        runs = (np.bitwise_or.reduceat(bits, self.starts, axis=1) != 0).sum(axis=1, dtype=np.int64)
        self.found[size - 1].append((sets, np.full(len(items), parent), counts, runs))
        if size == self.max_size:
            return
        for i in range(len(items) - 1):
            self._extend((*prefix, int(items[i])), items[i + 1 :], bits[i + 1 :] & bits[i], row + i)


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


def _without(levels: list[_Level], size: int, position: int) -> Ints:
    """Rows, one level down, of the itemsets of `size` without the item at `position`.

    Without the last item that is the parent. Otherwise it is the parent without that item, extended by the
    last item; a level's (parent, last item) pairs are in ascending order, so a binary search finds it.
    """
    level = levels[size - 1]
    if position == size - 1:
        return level.parent
    below = levels[size - 2]
    base = int(levels[0].items.max()) + 1
    grandparent = _without(levels, size - 1, position)[level.parent] if size > 2 else np.full(len(level.parent), -1)
    return np.searchsorted(below.parent * base + below.items[:, -1], grandparent * base + level.items[:, -1]).astype(
        np.int64
    )
