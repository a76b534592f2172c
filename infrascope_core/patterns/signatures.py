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
from infrascope_core.numeric import Array, median
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
    place = {name: i for i, name in enumerate(groups)}
    found = []
    for (run_key, host), rows in sorted(baskets.partition_by(HOST_KEY, as_dict=True).items()):
        by_group = (
            rows.filter(pl.col("metric_group").is_in(groups))
            .group_by("metric_group")
            .agg(
                *((pl.col("level") == level).mean().alias(level) for level in LEVELS),
                *(pl.col("value").quantile(share, "linear").alias(str(share)) for share in _QUARTILES),
            )
        )
        figures = np.full((len(groups), len(FIGURES)), np.nan)
        for name, *own in by_group.iter_rows():
            figures[place[name]] = own
        first, last = rows.select(first=pl.col("start_ts").min(), last=pl.col("start_ts").max()).row(0)
        found.append(Signature(str(run_key), str(host), workload, first, last, figures))
    return found


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
