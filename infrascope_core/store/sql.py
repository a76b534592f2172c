"""Running the statements of the stages' `sql/` folders.

Statements run in a private in-memory database on one thread: the same bytes come out whatever the number of cores.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import duckdb
import polars as pl

Relation = pl.DataFrame | Sequence[Path]
"""What a statement reads: a frame, or Parquet files of the lake (in the order given)."""

_MEMORY_LIMIT = "1GB"
"""What does not fit lies on the disk meanwhile, where temporary files do, and not in the folder that one is in."""


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """One in-memory database a process: opening one costs as much as a small statement.

    Its cursors share nothing, because the relations they read are registered or temporary, and so their own.
    """
    spill = f"{tempfile.gettempdir()}/infrascope-{os.getpid()}"
    return duckdb.connect(":memory:", config={"threads": 1, "memory_limit": _MEMORY_LIMIT, "temp_directory": spill})


def run_sql(package: str, statement: str, relations: Mapping[str, Relation], **parameters: object) -> pl.DataFrame:
    """Run `sql/STATEMENT.sql` of a package over the named relations and return its rows.

    Parameters
    ----------
    package : str
        The stage's package, as `__package__` gives it.
    statement : str
        Name of the file without `.sql`; its header says which relations and parameters it takes.
    relations : mapping
        Frame or Parquet files by relation name.
    **parameters
        Values for the statement's `$names`.
    """
    text = (resources.files(package) / "sql" / f"{statement}.sql").read_text(encoding="utf-8")
    with _database().cursor() as con:
        for name, relation in relations.items():
            if isinstance(relation, pl.DataFrame):
                con.register(name, relation.to_arrow())
            else:
                files = ", ".join(literal(glob.escape(str(path))) for path in relation)
                con.execute(f"CREATE TEMP VIEW {identifier(name)} AS FROM read_parquet([{files}])")
        result: pl.DataFrame = con.sql(text, params=parameters or None).pl()
    return result


def identifier(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A text quoted for SQL."""
    return "'" + value.replace("'", "''") + "'"
