"""The content of a data folder, for tests that compare two: every file, without what says when it was made."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import duckdb
import polars as pl

from infrascope_core.pipeline import GRAPH
from infrascope_core.store.footers import FINGERPRINT
from infrascope_core.store.sql import identifier

WHEN = {
    table.name: columns
    for table in GRAPH.tables.values()
    if (columns := [column.name for column in table.columns if column.volatile])
}
"""Columns that hold the time of the work."""
WHEN["rejections"] = WHEN["rejected_files"]
_OWN = (".locks", ".fingerprints.json", "warehouse.duckdb")
"""What is no product: locks, the index of footers with inodes, and the warehouse, which `warehouse_of` compares."""


def content_of(data: Path) -> dict[str, str]:
    """Hash of each file of a data folder by its path; what killed writers left aside is left out."""
    found = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        name = path.relative_to(data)
        if not set(name.parts) & set(_OWN) and not any(part.endswith(".tmp") for part in name.parts):
            found[str(name)] = hashlib.sha256(_timeless(path)).hexdigest()
    return found


def _timeless(path: Path) -> bytes:
    table = path.stem if path.stem in WHEN else path.parent.name
    if path.suffix != ".parquet" or table not in WHEN:
        return path.read_bytes()
    content = io.BytesIO()
    pl.read_parquet(path).drop(WHEN[table]).write_ipc(content)
    return content.getvalue() + pl.read_parquet_metadata(path).get(FINGERPRINT, "").encode()


def warehouse_of(data: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of each table of the warehouse, without times of the work."""
    with duckdb.connect(str(data / "warehouse.duckdb"), read_only=True) as con:
        names = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() UNION ALL "
                 "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()]  # fmt: skip
        found: dict[str, list[tuple[object, ...]]] = {}
        for name in names:
            if name != "data_folder":
                rows = con.execute(f"SELECT * FROM {identifier(name)}")
                columns = [column[0] for column in rows.description or ()]
                timeless = [i for i, column in enumerate(columns) if column not in WHEN.get(name, [])]
                found[name] = [tuple(repr(row[i]) for i in timeless) for row in rows.fetchall()]
        return found
