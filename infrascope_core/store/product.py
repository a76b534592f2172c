"""What a product is: one declaration of its tables, of what it is made from, and of the function that makes it.

What belongs here: the types of a declaration. Declarations stand in the `products.py` of their stages, beside the
science that they call; what follows from them (order, currency, assets, pages) is in `graph` and in its users.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl

from infrascope_core.contract import Table
from infrascope_core.store.folder import DataFolder


class Scope(StrEnum):
    """Over which runs a product is made, and what keeps it current."""

    ARRIVING = "arriving"
    """Per run file that lies in a source: read, or rejected. """
    PER_RUN = "per run"
    """A file per accepted run."""
    GATHERED = "gathered"
    """From all runs, whenever one of them changes."""
    FITTED = "fitted"
    """A model per platform: it keeps what it holds and adds what is missing; it is fitted anew on purpose, or when what
    it rests on changes (docs/adr/0003)."""
    MINED = "mined"
    """Patterns over all runs, mined anew when one of them changes, on the clock."""
    COMPARED = "compared"
    """Runs or hosts against each other, compared anew when one of those changes, on the clock."""
    STUDIED = "studied"
    """The paper's own evaluations: heavy, made on demand or once a week; nothing waits for them."""

    @property
    def per_run(self) -> bool:
        """Whether there is one product per run, or one for the whole folder."""
        return self in (Scope.ARRIVING, Scope.PER_RUN)


OnProgress = Callable[[str, int, int], None]
"""Called with (product, done, total) while products are made."""

Tick = Callable[[int, int], None]
"""Called with (done, total) while one pooled product is made."""

Frames = pl.DataFrame | tuple[pl.DataFrame, ...]
"""One frame per table of a product, in order; a single frame where there is one table."""

MakeRun = Callable[[DataFolder, str], Frames]
"""Makes the product of a run key; for an arriving run file, returns the first table and writes the others itself."""

MakePooled = Callable[[DataFolder, pl.DataFrame, Tick], pl.DataFrame]
"""Makes a pooled product from the folder and the rows that it may keep: those of units that are still current."""

Describe = Callable[[DataFolder, str], str]
"""Text about a unit of a product: a run key; the platform, of a fitted product; else `""` for the whole folder."""

Units = Callable[[DataFolder], dict[str, list[str]]]
"""Run keys by unit of a pooled product that keeps the rows of those units of which nothing has changed."""


@dataclass(frozen=True)
class Part:
    """An input of which only a part concerns a unit: the product is stale when that part changes, not the whole.

    Attributes
    ----------
    table : Table
        The input.
    of : callable
        The part that concerns a unit, as text.
    """

    table: Table
    of: Describe


def _nothing(folder: DataFolder, unit: str) -> str:
    return ""


def _never(folder: DataFolder, unit: str) -> bool:
    return False


def _no_files(folder: DataFolder, unit: str) -> Sequence[Path]:
    return ()


@dataclass(frozen=True)
class Product:
    """Tables that are made together by one function.

    Attributes
    ----------
    stage : str
        The folder of the declaration, and the group of its assets.
    tables : tuple of Table
        What is made; the product goes by the name of the first.
    scope : Scope
        Over which runs.
    make : callable
        `MakeRun` or `MakePooled`, by scope.
    inputs : tuple of Table or Part
        What it reads: it is made after these, and again when they change.
    quotes : tuple of Table
        What it quotes as it stands: it is made after these where both are made, but is not stale when they change.
    code_version : str
        Raised when the same inputs would give other rows.
    settings : tuple of str
        Sections of the settings that it depends on.
    depends_on : callable
        Whatever else it depends on, as text.
    is_refuted : callable
        Whether a run of a product per run is to be made again though it rests on what it rested on.
    units : callable, optional
        Of a pooled product that is made unit by unit: its units. Their names are in the first column of its key. It is
        stale when one of their runs changes; other runs do not concern it.
    files : callable
        Files that it leaves beside the lake; a product of which somebody deleted a file is made again.
    copied : bool
        Whether the warehouse holds a copy instead of a view on the lake: for findings, which are few rows per run.
    libraries : tuple of str
        What does the work, as Dagster's UI names it.
    decisions : tuple of int
        Numbers of the decision records (docs/adr) that say why it is as it is.
    """

    stage: str
    tables: tuple[Table, ...]
    scope: Scope
    make: MakeRun | MakePooled
    inputs: tuple[Table | Part, ...] = ()
    quotes: tuple[Table, ...] = ()
    code_version: str = "1"
    settings: tuple[str, ...] = ()
    depends_on: Describe = _nothing
    is_refuted: Callable[[DataFolder, str], bool] = _never
    units: Units | None = None
    files: Callable[[DataFolder, str], Sequence[Path]] = _no_files
    copied: bool = False
    libraries: tuple[str, ...] = ("polars",)
    decisions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the first table."""
        return self.tables[0].name

    @property
    def reads(self) -> tuple[Table, ...]:
        """Tables of the inputs, whole or in part."""
        return tuple(source.table if isinstance(source, Part) else source for source in self.inputs)

    @property
    def unit_column(self) -> str:
        """Column of a pooled table that names the unit of a row."""
        return "platform" if self.scope is Scope.FITTED else self.tables[0].key[0]

    def __post_init__(self) -> None:
        """Refuse a declaration that contradicts itself."""
        if not self.tables or (len(self.tables) > 1 and not self.scope.per_run):
            raise ValueError(f"{self.stage}: a product has one table, or several per run")
        if self.scope is Scope.FITTED and "platform" not in self.tables[0].schema:
            raise ValueError(f"{self.name}: a fitted product has a column `platform`")
