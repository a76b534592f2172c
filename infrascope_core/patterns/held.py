"""What each run holds: items by window, as one matrix a run and host.

What belongs here: from the table `baskets` to matrices. The unit of all that is tested is the run and host: its windows
are in the order of time, and none of them is a case of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.contract import HOST_KEY
from infrascope_core.frames import split
from infrascope_core.numeric import Ints, Mask

Times = NDArray[np.datetime64]

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
    start : ndarray of datetime64, windows
        When each window begins, naive UTC as in the file.
    window : ndarray of int, windows
        Their numbers.
    job : str
        Of its hosts, the runs of one job have their times in common (`run_files.jobs`); empty for a run by itself.
    """

    run_key: str
    host: str
    workload: str
    holds: Mask
    start: Times
    window: Ints
    job: str = ""

    @cached_property
    def window_s(self) -> float | None:
        """Seconds from one window to the next, the median; None where there are not two, or the clock stands still."""
        if len(self.start) < 2:
            return None
        return float(np.median(np.diff(self.start) / np.timedelta64(1, "s"))) or None


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
        Of these runs; the hosts of each are one job.
    """
    known = pl.Enum(items.names)
    found = []
    # column by column: each query of a frame costs as much as the work on a run
    for rows in split(baskets, HOST_KEY):
        window, first, row = np.unique(rows["window"].to_numpy(), return_index=True, return_inverse=True)
        item = rows["item"].cast(known, strict=False).to_physical()
        has_item = item.is_not_null().to_numpy()
        holds = np.zeros((len(window), len(items.names)), dtype=bool)
        holds[row[has_item], item.drop_nulls().to_numpy()] = True
        run_key, host = (str(rows[name][0]) for name in HOST_KEY)
        start = rows["start_ts"].to_numpy()[first]
        found.append(Held(run_key, host, workload, holds, start, window, run_key))
    return found


@dataclass(frozen=True, eq=False)
class Packed:
    """A run and host, one bit an item and window: a fleet of them is remembered, and looked at one after the other.

    Attributes
    ----------
    run : Held
        Without what it holds.
    items : Items
        The columns.
    bits : ndarray of uint8, windows x bytes
        What it holds.
    """

    run: Held
    items: Items
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, run: Held, items: Items) -> Packed:
        """From what it holds."""
        return cls(replace(run, holds=np.zeros((len(run.holds), 0), dtype=bool)), items, np.packbits(run.holds, axis=1))

    def of_items(self, items: Items) -> Held:
        """What it holds of some of its items; windows without any of them are left out."""
        place = {name: number for number, name in enumerate(self.items.names)}
        holds = np.unpackbits(self.bits, axis=1, count=len(self.items.names)).view(bool)
        holds = holds[:, [place[name] for name in items.names]]
        some = holds.any(axis=1)
        return replace(self.run, holds=holds[some], start=self.run.start[some], window=self.run.window[some])


def jobs(runs: Sequence[Held]) -> list[list[int]]:
    """Runs by job, by number.

    Returns
    -------
    list of list of int
        The runs of each job, the one with most windows before the others; jobs by workload, then by their names.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for number in sorted(range(len(runs)), key=lambda number: (-len(runs[number].start), number)):
        run = runs[number]
        found.setdefault((run.workload, run.job or run.run_key), []).append(number)
    return [found[job] for job in sorted(found)]
