"""Signatures: what a run looks like as a whole, and what the runs of a workload have in common.

What belongs here: from the table `baskets` to a few figures a metric group. Which workload a signature belongs to is
asked in `identity`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from infrascope_core.contract import HOST_KEY, WORKLOAD_KEY
from infrascope_core.frames import split
from infrascope_core.numeric import Array, Ints, median
from infrascope_core.patterns.held import LEVELS
from infrascope_core.patterns.tables import WORKLOAD_SIGNATURES

_QUARTILES = (0.25, 0.5, 0.75)
FIGURES = ("low_share", "med_share", "high_share", "lower_quartile", "median", "upper_quartile")
"""The figures of a group, by the names of the table."""


@dataclass(frozen=True, eq=False)
class Signature:
    """A run and host as a whole.

    Attributes
    ----------
    run_key, host, workload : str
        `workload` is the platform, phase and workload that its name claims: `gpu/train/WORKLOAD`.
    start, end : datetime
        Its first and last window.
    figures : ndarray, groups x 6
        `FIGURES` of each group: shares of the windows, then quartiles in the group's unit; NaN where the run lacks it.
    """

    run_key: str
    host: str
    workload: str
    start: datetime
    end: datetime
    figures: Array


def signatures(baskets: pl.DataFrame, groups: Sequence[str], workload: str) -> list[Signature]:
    """The signatures of a run file, one a host.

    Parameters
    ----------
    baskets : polars.DataFrame
        Its table `baskets`.
    groups : sequence of str
        The rows of the figures; others are left out.
    workload : str
        What its name claims.
    """
    found = []
    for rows in split(baskets, HOST_KEY):
        run_key, host = (str(rows[name][0]) for name in HOST_KEY)
        start = rows["start_ts"].sort()
        found.append(Signature(run_key, host, workload, start[0], start[-1], _figures(rows, groups)))
    return found


def _figures(rows: pl.DataFrame, groups: Sequence[str]) -> Array:
    """Shares of levels and quartiles of values of each group: groups x 6; NaN where there is none.

    As `group_by` gives them, which takes three times as long for so few rows.
    """
    group = _numbers(rows["metric_group"], groups)
    level, value = _numbers(rows["level"], LEVELS), rows["value"]
    counted = (group >= 0) & (level >= 0)
    n = len(groups)
    counts = np.bincount(group[counted] * len(LEVELS) + level[counted], minlength=n * len(LEVELS))
    counts = counts.reshape(n, len(LEVELS)).astype(np.float64)
    valued = (group >= 0) & value.is_not_null().to_numpy()
    group, values = group[valued], value.to_numpy()[valued]
    values = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=n)
    position = np.maximum(count - 1, 0)[:, None] * np.array(_QUARTILES)
    below = np.floor(position).astype(np.int64)
    first = (np.cumsum(count) - count)[:, None]
    last = np.maximum(first + count[:, None] - 1, 0)
    figures = np.full((n, len(FIGURES)), np.nan)
    some = count > 0
    if len(values):
        low, high = (values[np.minimum(first + place, last)] for place in (below, below + 1))
        figures[some, len(LEVELS) :] = (low + (high - low) * (position - below))[some]
    total = counts.sum(axis=1, keepdims=True)
    np.divide(counts, total, out=figures[:, : len(LEVELS)], where=total > 0)
    return figures


def _numbers(names: pl.Series, known: Sequence[str]) -> Ints:
    """Place of each name among those that are known; -1 of the others."""
    numbers = names.cast(pl.Enum(known), strict=False).to_physical().cast(pl.Int64)
    return np.asarray(numbers.fill_null(-1).to_numpy(), dtype=np.int64)


def comparable(runs: Sequence[Signature]) -> Array:
    """What can be compared from group to group, from 0 to 1: runs x 2 groups x 3.

    Shares of levels as they are, then quartiles as ranks among those of all runs: units and scales differ between
    groups, and a few runs with values far off must not hide what the others differ in.
    """
    figures = np.stack([run.figures for run in runs])
    shares, quartiles = figures[..., :3], figures[..., 3:]
    ranks = np.full(quartiles.shape, np.nan)
    for group in range(quartiles.shape[1]):
        values = quartiles[:, group]
        known = np.sort(values[np.isfinite(values)])
        if len(known):
            below, up_to = np.searchsorted(known, values, "left"), np.searchsorted(known, values, "right")
            ranks[:, group] = np.where(np.isfinite(values), (below + up_to) / (2 * len(known)), np.nan)
    return np.concatenate([shares, ranks], axis=1)


def workload_signatures(runs: Sequence[Signature], groups: Sequence[str]) -> pl.DataFrame:
    """What the runs of each workload have in common, the median over them: table `workload_signatures`."""
    rows = []
    for workload in sorted({run.workload for run in runs}):
        own = np.stack([run.figures for run in runs if run.workload == workload])
        middle, known = median(own, axis=0), np.isfinite(own).all(axis=-1).sum(axis=0)
        for place, group in enumerate(groups):
            if known[place]:
                rows.append((*workload.split("/"), group, int(known[place]), *map(float, middle[place])))
    found = pl.DataFrame(rows, schema=WORKLOAD_SIGNATURES.schema, orient="row")
    return found.sort(*WORKLOAD_KEY, "metric_group")
