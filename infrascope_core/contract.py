"""What a table is: its name, key, columns and meaning. The tables themselves stand in the `tables.py` of their stages.

What belongs here: the types of schemas, and the columns that several stages share. The lake holds files to these
schemas, the warehouse and Dagster show them, `docs/tables.md` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

VERSION = 4
"""Version of the contract: raised when a column changes its name or meaning, or goes."""

TEXT, INT, REAL, FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
SINGLE = pl.Float32()
"""Single precision, for what fills most of a disk: seven digits, up to 3.4e38."""
TIME = pl.Datetime("us")
TEXTS = pl.List(pl.String())


@dataclass(frozen=True)
class Column:
    """One column: its name, polars type, and meaning with unit.

    Attributes
    ----------
    volatile : bool
        It differs between equal runs (a time of day), and so is not part of what makes two tables equal.
    of : tuple of str
        Columns of other tables that it is computed from, as `table.column`. A column that is taken over as it is needs
        none: it is declared once and shared.
    """

    name: str
    dtype: pl.DataType
    meaning: str
    volatile: bool = False
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    key : tuple of str
        Columns that identify a row.
    wide : bool
        Further columns follow those of the contract: telemetry has one per metric.
    bulk : bool
        Most of what a run takes on disk, and needed only to make other tables: what is dropped of old runs.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    wide: bool = False
    bulk: bool = False

    @cached_property
    def schema(self) -> pl.Schema:
        """Column names and polars types, in order."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    def empty(self) -> pl.DataFrame:
        """A frame with the table's columns and no rows."""
        return self._empty.clone()

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def stable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame without the columns that differ between equal runs."""
        volatile = [column.name for column in self.columns if column.volatile]
        # a copy, even where nothing is left out
        return frame.drop(volatile, strict=False) if volatile else frame

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with just the table's columns, in order and of their types; a wide table keeps its others."""
        if self.wide or frame.schema == self.schema:
            return frame
        return frame.select(self.schema.names()).cast(self.schema)


RUN_KEY = Column("run_key", TEXT, "the run file's stem")
HOST = Column("host", TEXT, "host the samples come from")
WINDOW = Column("window", INT, "window number, from 0")
START_TS = Column("start_ts", TIME, "time of the window's first sample, naive UTC as in the file")
METRIC = Column("metric", TEXT, "host-free column name with its unit, as `Turbostat:Busy%.-[%]`")
METRIC_GROUP = Column("metric_group", TEXT, "metric group of the recipe")
PLATFORM = Column("platform", TEXT, "gpu (the file has GPU columns) or cpu")
PHASE = Column("phase", TEXT, "train, infer or fine-tuning")
WORKLOAD = Column("workload", TEXT, "MODEL__TASK__DATASET")
SAMPLE = Column("sample", INT, "sample number, from 0")
TS = Column("ts", TIME, "time of the sample, naive UTC as in the file")
SCOPE = Column("scope", TEXT, "`gpu`, `cpu`, or narrower: `gpu/train`, `gpu/train/WORKLOAD`")
SUBSYSTEM = Column("subsystem", TEXT, "CPU, GPU, Memory, Network, Storage or Other")
UNIT = Column("unit", TEXT, "unit as the file gives it")

HOST_KEY = ("run_key", "host")
"""Identifies a host of a run."""
WINDOW_KEY = (*HOST_KEY, "window")
"""Identifies a window."""
EPISODE_KEY = (*HOST_KEY, "episode")
"""Identifies an episode."""
WORKLOAD_KEY = ("platform", "phase", "workload")
"""Identifies a workload: what baselines are fitted for and runs are compared within."""
