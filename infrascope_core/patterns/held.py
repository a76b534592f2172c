"""What each run holds: items by window, as one matrix a run and host.

What belongs here: from the table `baskets` to matrices. The unit of all that is tested is the run and host: its windows
are in the order of time, and none of them is a case of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl

from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Ints, Mask

LOW, MEDIUM, HIGH = LEVELS = ("LOW", "MED", "HIGH")
"""Levels as items name them (`symbols/sql/discretize.sql`)."""


@dataclass(frozen=True)
class Items:
    """Items by number.

    Attributes
    ----------
    names : tuple of str
        `GROUP_LEVEL`, those of a group together.
    groups : tuple of str
        Metric group of each.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str]) -> Items:
        """Items of these names, in the order of their groups."""
        keyed = sorted((group_of(name), name) for name in set(names))
        return cls(tuple(name for _, name in keyed), tuple(group for group, _ in keyed))

    @classmethod
    def of_groups(cls, groups: Iterable[str]) -> Items:
        """All levels of these metric groups."""
        return cls.of([f"{group}_{level}" for group in groups for level in LEVELS])

    @property
    def group(self) -> Ints:
        """Number of each item's group."""
        return np.unique(self.groups, return_inverse=True)[1].astype(np.int64)


def group_of(item: str) -> str:
    """The metric group of an item `GROUP_LEVEL`."""
    return item.rpartition("_")[0]


def level_of(item: str) -> str:
    """The level of an item `GROUP_LEVEL`."""
    return item.rpartition("_")[2]


@dataclass(frozen=True, eq=False)
class Held:
    """A run and host.

    Attributes
    ----------
    run_key, host, workload : str
        `workload` is its platform, phase and workload: runs of one workload may be exchanged.
    holds : ndarray of bool, windows x items
        Windows in the order of time; those without any group's level are left out.
    start : list of datetime, windows
        When each window begins.
    window : ndarray of int, windows
        Their numbers.
    """

    run_key: str
    host: str
    workload: str
    holds: Mask
    start: Sequence[datetime]
    window: Ints

    @cached_property
    def window_s(self) -> float | None:
        """Seconds from one window to the next, the median; None where there are not two."""
        if len(self.start) < 2:
            return None
        return float(np.median(np.diff(np.array(self.start, dtype="datetime64[us]")).astype(np.float64))) / 1e6


def held(baskets: pl.DataFrame, items: Items, workload: str) -> list[Held]:
    """The runs and hosts of baskets.

    Parameters
    ----------
    baskets : polars.DataFrame
        Rows of the table `baskets`, in any order; items that are not among the names are ignored, but their windows
        count.
    items : Items
        The columns.
    workload : str
        Of these runs.
    """
    number = {name: i for i, name in enumerate(items.names)}
    found = []
    for (run_key, host), rows in sorted(baskets.partition_by(HOST_KEY, as_dict=True).items()):
        windows = rows.group_by("window").agg(pl.col("start_ts").min()).sort("window").with_row_index("row")
        known = rows.filter(pl.col("item").is_in(items.names)).join(windows.select("window", "row"), on="window")
        holds = np.zeros((windows.height, len(items.names)), dtype=bool)
        holds[known["row"].to_numpy(), known["item"].replace_strict(number, return_dtype=pl.Int64).to_numpy()] = True
        found.append(
            Held(str(run_key), str(host), workload, holds, windows["start_ts"].to_list(), windows["window"].to_numpy())
        )
    return found


def jobs(runs: Sequence[Held]) -> list[list[int]]:
    """Runs by job, by number: those of one workload whose times overlap are hosts of one.

    Returns
    -------
    list of list of int
        The runs of each job, the one that begins first before the others; jobs by workload, then by their begin. A run
        without windows is a job by itself.
    """
    found: list[list[int]] = []
    until: dict[str, datetime] = {}
    timed = [number for number, run in enumerate(runs) if run.start]
    for number in sorted(timed, key=lambda number: (runs[number].workload, runs[number].start[0], number)):
        run = runs[number]
        last = until.get(run.workload)
        if last is not None and run.start[0] <= last:
            found[-1].append(number)
        else:
            found.append([number])
        until[run.workload] = run.start[-1] if last is None else max(last, run.start[-1])
    return found + [[number] for number, run in enumerate(runs) if not run.start]
