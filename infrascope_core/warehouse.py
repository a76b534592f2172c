"""The DuckDB file, and the running of `sql/`.

Statements run in a private in-memory database on one thread: the same bytes come out whatever the number of
cores. The file `warehouse.duckdb` is never written in place: it is built aside and renamed (see `publish`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import duckdb
import polars as pl

from infrascope_core.lake import Lake
from infrascope_core.tables import TABLES

Relation = pl.DataFrame | Sequence[Path]
"""What a statement reads: a frame, or Parquet files of the lake (in the order given)."""

_MEMORY_LIMIT = "1GB"


def run_sql(statement: str, relations: Mapping[str, Relation], **parameters: object) -> pl.DataFrame:
    """Run `sql/STATEMENT.sql` over the named relations and return its rows.

    Parameters
    ----------
    statement : str
        Name of the file without `.sql`; its header says which relations and parameters it takes.
    relations : mapping
        Frame or Parquet files by relation name.
    **parameters
        Values for the statement's `$names`.
    """
    text = (resources.files(__package__) / "sql" / f"{statement}.sql").read_text(encoding="utf-8")
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": _MEMORY_LIMIT}) as con:
        for name, relation in relations.items():
            if isinstance(relation, pl.DataFrame):
                con.register(name, relation.to_arrow())
            else:
                con.read_parquet([str(path) for path in relation]).create_view(name)
        result: pl.DataFrame = con.sql(text, params=parameters or None).pl()
    return result


def identifier(name: str) -> str:
    """A name quoted for SQL: the one place where that is done."""
    return '"' + name.replace('"', '""') + '"'


def publish(lake: Lake, target: Path, connect: Connect | None = None) -> Path:
    """Build the warehouse file anew beside the old one, and rename it into place.

    Pooled products become tables; per-run products become views on the lake's Parquet files, and empty tables
    where no run has them yet. Whoever has the old file open keeps it, undisturbed and not disturbing.
    """
    raise NotImplementedError


Connect = object
