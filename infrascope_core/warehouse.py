"""The DuckDB file, and the running of `sql/`.

Statements run in a private in-memory database on one thread: the same bytes come out whatever the number of
cores. The file `warehouse.duckdb` is never written in place: it is built aside and renamed (see `publish`).
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib import resources
from pathlib import Path

import duckdb
import polars as pl

from infrascope_core.lake import Lake
from infrascope_core.tables import TABLES, Table

Relation = pl.DataFrame | Sequence[Path]
"""What a statement reads: a frame, or Parquet files of the lake (in the order given)."""

Connect = Callable[[str], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""Opens a DuckDB file for writing."""

_MEMORY_LIMIT = "1GB"


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """One in-memory database a process: opening one costs as much as a small statement.

    Its cursors share nothing, because the relations they read are registered or temporary, and so their own.
    """
    return duckdb.connect(":memory:", config={"threads": 1, "memory_limit": _MEMORY_LIMIT})


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
    with _database().cursor() as con:
        for name, relation in relations.items():
            if isinstance(relation, pl.DataFrame):
                con.register(name, relation.to_arrow())
            else:
                files = ", ".join(_text(glob.escape(str(path))) for path in relation)
                con.execute(f"CREATE TEMP VIEW {identifier(name)} AS FROM read_parquet([{files}])")
        result: pl.DataFrame = con.sql(text, params=parameters or None).pl()
    return result


def identifier(name: str) -> str:
    """A name quoted for SQL: the one place where that is done."""
    return '"' + name.replace('"', '""') + '"'


def publish(lake: Lake, target: Path, connect: Connect = duckdb.connect) -> Path:
    """Build the warehouse file anew beside the old one, and rename it into place.

    Pooled products become tables; per-run products become views on the lake's Parquet files, or empty tables
    while there are none. Whoever has the old file open keeps it, undisturbed and not disturbing.

    Parameters
    ----------
    lake : Lake
        What is shown; views hold its absolute path.
    target : Path
        The warehouse file.
    connect : callable
        Opens a DuckDB file for writing, as a context manager.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".warehouse-", dir=target.parent) as folder:
        aside = Path(folder) / target.name
        with connect(str(aside)) as con:
            for table in TABLES.values():
                _show(con, table, lake)
        # a log that somebody left beside the old file would be taken for the new one's
        target.with_name(target.name + ".wal").unlink(missing_ok=True)
        aside.replace(target)
    return target


def _show(con: duckdb.DuckDBPyConnection, table: Table, lake: Lake) -> None:
    name = identifier(table.name)
    if table.per_run and lake.keys(table.name):
        files = _text(glob.escape(str((lake.root / table.name).absolute())) + "/*.parquet")
        con.execute(f"CREATE VIEW {name} AS FROM read_parquet({files})")
    else:
        frame = table.empty() if table.per_run else lake.read(table.name)
        con.register("product", frame.to_arrow())
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM product")
        con.unregister("product")
    con.execute(f"COMMENT ON {'VIEW' if _is_view(con, table.name) else 'TABLE'} {name} IS {_text(table.meaning)}")


def _is_view(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    row = con.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = ?", [name]).fetchone()
    return bool(row and row[0])


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
