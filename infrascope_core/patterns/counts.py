"""What baskets hold: how often each item occurs, and each two together; how many baskets a run has.

What belongs here: counts, without a test (steps 5 and 6 of the InfraScope notebook). Tests are in `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.numeric import Array, Ints
from infrascope_core.patterns.held import Held, Items, level_of
from infrascope_core.patterns.tables import BASKET_COUNTS, ITEM_FREQUENCIES, ITEM_PAIRS


@dataclass(frozen=True, eq=False)
class Counts:
    """What runs add up to.

    Attributes
    ----------
    windows : int
        How many there are.
    runs : ndarray of int, items
        Runs and hosts in which each item occurs.
    both : ndarray, items x items
        Windows that hold both; with itself, those that hold the item.
    """

    windows: int
    runs: Ints
    both: Array

    @classmethod
    def of(cls, runs: Iterable[Held], items: Items) -> Counts:
        """Of runs and hosts that hold these items."""
        n = len(items.names)
        return sum((cls._of(run) for run in runs), cls(0, np.zeros(n, dtype=np.int64), np.zeros((n, n))))

    @classmethod
    def _of(cls, run: Held) -> Counts:
        x = run.holds.astype(np.float32)  # whole numbers: exact up to 16 million windows of a run
        return cls(len(x), np.asarray(run.holds.any(axis=0), dtype=np.int64), (x.T @ x).astype(np.float64))

    def __add__(self, other: Counts) -> Counts:
        """What both add up to."""
        return Counts(self.windows + other.windows, self.runs + other.runs, self.both + other.both)


def item_frequencies(counts: Counts, items: Items, scope: str) -> pl.DataFrame:
    """How often each item occurs: table `item_frequencies`, by falling count."""
    count = np.diag(counts.both).astype(np.int64)
    found = pl.DataFrame(
        {
            "scope": [scope] * len(items.names),
            "item": list(items.names),
            "metric_group": list(items.groups),
            "level": [level_of(name) for name in items.names],
            "count": count,
            "support": count / max(counts.windows, 1),
            "runs": counts.runs,
        },
        schema=ITEM_FREQUENCIES.schema,
    )
    return found.filter(pl.col("count") > 0).sort("count", "item", descending=[True, False])


def item_pairs(counts: Counts, items: Items, scope: str) -> pl.DataFrame:
    """How often each two items of different groups occur together, those that never do included: table `item_pairs`."""
    both, windows = counts.both, counts.windows
    count = np.diag(both)
    occurs, group = count > 0, items.group
    first, second = np.nonzero(np.triu((group[:, None] != group) & occurs[:, None] & occurs, 1))
    together = both[first, second]
    return pl.DataFrame(
        {
            "scope": [scope] * len(first),
            "first": [items.names[i] for i in first],
            "second": [items.names[i] for i in second],
            "count": together.astype(np.int64),
            "support": together / max(windows, 1),
            "lift": together * windows / np.maximum(count[first] * count[second], 1),
        },
        schema=ITEM_PAIRS.schema,
    )


def basket_counts(runs: Iterable[Held], items: Items, platform: str) -> pl.DataFrame:
    """How many baskets each run and host has, and what they hold: table `basket_counts`."""
    rows = []
    for run in runs:
        held = run.holds.sum(axis=1)
        groups = len({items.groups[i] for i in np.flatnonzero(run.holds.any(axis=0))})
        packed = np.packbits(run.holds, axis=1)
        distinct = len(set(packed.view(f"V{packed.shape[1]}").ravel().tolist())) if len(held) else 0
        least, most = (int(held.min()), int(held.max())) if len(held) else (0, 0)
        mean = float(held.mean()) if len(held) else None
        rows.append((platform, run.run_key, run.host, len(held), run.window_s, groups, least, most, mean, distinct))
    return pl.DataFrame(rows, schema=BASKET_COUNTS.schema, orient="row").sort("platform", "run_key", "host")
