"""What baskets hold: how often each item occurs, and each two together; how many baskets a run has.

What belongs here: counts, without a test (steps 5 and 6 of the InfraScope notebook). Tests are in `rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from infrascope_core.numeric import Array
from infrascope_core.patterns.held import Held, Items, level_of
from infrascope_core.patterns.tables import BASKET_COUNTS, ITEM_FREQUENCIES, ITEM_PAIRS


def item_frequencies(runs: Sequence[Held], items: Items, scope: str) -> pl.DataFrame:
    """How often each item occurs: table `item_frequencies`, by falling count."""
    windows = sum(len(run.holds) for run in runs)
    by_run = np.stack([run.holds.sum(axis=0) for run in runs]) if runs else np.zeros((0, len(items.names)), dtype=int)
    count = by_run.sum(axis=0)
    found = pl.DataFrame(
        {
            "scope": [scope] * len(items.names),
            "item": list(items.names),
            "metric_group": list(items.groups),
            "level": [level_of(name) for name in items.names],
            "count": count,
            "support": count / max(windows, 1),
            "runs": (by_run > 0).sum(axis=0),
        },
        schema=ITEM_FREQUENCIES.schema,
    )
    return found.filter(pl.col("count") > 0).sort("count", "item", descending=[True, False])


def item_pairs(runs: Sequence[Held], items: Items, scope: str) -> pl.DataFrame:
    """How often each two items of different groups occur together, those that never do included: table `item_pairs`."""
    windows = sum(len(run.holds) for run in runs)
    both: Array = sum((run.holds.T.astype(np.float64) @ run.holds for run in runs), np.zeros((len(items.names),) * 2))
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


def basket_counts(runs: Sequence[Held], items: Items, platform: str) -> pl.DataFrame:
    """How many baskets each run and host has, and what they hold: table `basket_counts`."""
    rows = []
    for run in runs:
        held = run.holds.sum(axis=1)
        groups = len({items.groups[i] for i in np.flatnonzero(run.holds.any(axis=0))})
        distinct = len(np.unique(np.packbits(run.holds, axis=1), axis=0)) if len(held) else 0
        least, most = (int(held.min()), int(held.max())) if len(held) else (0, 0)
        mean = float(held.mean()) if len(held) else None
        rows.append((platform, run.run_key, run.host, len(held), run.window_s, groups, least, most, mean, distinct))
    return pl.DataFrame(rows, schema=BASKET_COUNTS.schema, orient="row").sort("platform", "run_key", "host")
