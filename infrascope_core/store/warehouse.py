"""The warehouse: one DuckDB file that shows the whole lake, built aside and renamed (docs/adr/0002)."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb

from infrascope_core.contract import Table
from infrascope_core.errors import StorageError
from infrascope_core.store.atomic import ASIDE_SUFFIX, FULL, cannot_write
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Product
from infrascope_core.store.sql import identifier, literal

Connect = Callable[[str], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""Opens a DuckDB file for writing."""

PLACE = "data_folder"
"""Table of one row: where the lake lay when the file was built, and what of it was copied."""
VARIABLE = "infrascope_data"
"""DuckDB variable that says where the data folder lies now, for a client that opens a file which was moved."""


def publish(folder: DataFolder, graph: Graph, connect: Connect = duckdb.connect) -> Path:
    """Build the warehouse file anew beside the old one, and rename it into place.

    Pooled tables, and findings per run, are copied; other tables per run become views on the lake's Parquet files, or
    empty tables while there are none. Whoever has the old file open keeps it, undisturbed and not disturbing. Of
    several that publish at once, the last shows what all have made.

    Parameters
    ----------
    folder : DataFolder
        What is shown. Views hold its absolute path; in a folder that was moved, they follow the variable
        `infrascope_data` until the file is built again.
    graph : Graph
        The tables.
    connect : callable
        Opens a DuckDB file for writing, as a context manager.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    target = folder.warehouse
    try:
        with folder.lock("warehouse"):
            _build(folder, graph, connect)
    except (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException) as error:
        raise cannot_write(target, _system_error(error)) from error
    except OSError as error:
        raise cannot_write(target, error) from error
    return target


def _system_error(error: duckdb.Error) -> OSError:
    """The system's error behind one of DuckDB, which has only its words: of a commit, they come at the end."""
    said = str(error).splitlines()[0]
    number = next((number for number in FULL if os.strerror(number) in said), None)
    return OSError(said) if number is None else OSError(number, os.strerror(number))


def _build(folder: DataFolder, graph: Graph, connect: Connect) -> None:
    target = folder.warehouse
    # what changes while the file is built is not shown by it
    place, shown = literal(str(folder.root.absolute())), literal(_shown(folder, graph))
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=ASIDE_SUFFIX, dir=target.parent) as aside:
        path = Path(aside) / target.name
        with connect(str(path)) as con:
            # of thousands of small files, several threads hold many at once and are no quicker
            con.execute("SET threads = 1")
            con.begin()  # one commit, not one a table
            con.execute(f"CREATE TABLE {PLACE} AS SELECT {place} AS path, {shown} AS shown")
            for product in graph.order:
                for table in product.tables:
                    if not table.wide:
                        _show(con, folder, product, table)
            con.commit()
            # closing would do it, and would say nothing if there is no room for it
            con.execute("CHECKPOINT")
        # a log that somebody left beside the old file would be taken for the new one's
        target.with_name(target.name + ".wal").unlink(missing_ok=True)
        path.replace(target)


def is_published(folder: DataFolder, graph: Graph) -> bool:
    """Whether the warehouse shows the lake as it is now, from where it lies now.

    A view shows what lies in its folder of the lake by itself; only that there is something at all makes it a view.
    """
    try:
        with duckdb.connect(str(folder.warehouse), read_only=True) as con:
            views = con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
            return {name for (name,) in views} == _views(folder, graph) and con.execute(
                f"SELECT path, shown FROM {PLACE}"
            ).fetchone() == (str(folder.root.absolute()), _shown(folder, graph))
    except (OSError, duckdb.Error):
        return False


def _shown(folder: DataFolder, graph: Graph) -> str:
    """What tells whether anything changed since that the warehouse copies.

    Equal or not, never earlier or later: clocks are set back, and those of two machines differ.
    """
    copied = [path for product in graph.order for path in _copied_from(folder, product)]
    stats = [path.stat() if path.exists() else None for path in copied]
    return fingerprint(*(f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}" if stat else "" for stat in stats))


def _copied_from(folder: DataFolder, product: Product) -> list[Path]:
    """What changes when the rows change that the warehouse holds a copy of: a folder, when a file is put into it."""
    if product.scope.per_run:
        paths = [folder.lake.root / table.name for table in product.tables if product.copied]
    else:
        paths = [folder.lake.path(table) for table in product.tables]
    return paths


def _views(folder: DataFolder, graph: Graph) -> set[str]:
    """Names of the tables that are shown as views."""
    per_run = [product for product in graph.order if product.scope.per_run and not product.copied]
    tables = [table for product in per_run for table in product.tables if not table.wide]
    return {table.name for table in tables if folder.lake.keys(table)}


def keep_published(folder: DataFolder, graph: Graph) -> None:
    """Build the warehouse file anew if it does not show the folder as it is: the lake changed, or the folder was moved.

    For whoever opens a folder to read it: that the file cannot be written (a folder of somebody else's) is no reason to
    refuse the rest.
    """
    if folder.lake.root.is_dir() and not is_published(folder, graph):
        with contextlib.suppress(StorageError):
            publish(folder, graph)


def _show(con: duckdb.DuckDBPyConnection, folder: DataFolder, product: Product, table: Table) -> None:
    name, lake, kind = identifier(table.name), folder.lake, "TABLE"
    if product.scope.per_run and lake.keys(table):
        files = literal(f"/lake/{table.name}/*.parquet")
        place = literal(glob.escape(str(folder.root.absolute())))
        if not product.copied:
            kind, place = "VIEW", f"coalesce(getvariable({literal(VARIABLE)}), {place})"
        con.execute(f"CREATE {kind} {name} AS FROM read_parquet({place} || {files})")
    elif not product.scope.per_run and lake.has(table):
        file = literal(glob.escape(str(lake.path(table).absolute())))
        con.execute(f"CREATE TABLE {name} AS FROM read_parquet({file})")
    else:
        con.register("product", table.empty().to_arrow())
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM product")
        con.unregister("product")
    con.execute(f"COMMENT ON {kind} {name} IS {literal(table.meaning)}")
