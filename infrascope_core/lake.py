"""Where products rest: one Parquet file per (table, run), one per pooled table, each replaced atomically.

Every file carries the fingerprint of what it was made from, so that a product that is still current is
recognised without reading it. No step opens the DuckDB file for writing (DESIGN section 3, decision 2).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from infrascope_core.errors import InfraScopeError
from infrascope_core.tables import TABLES

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_FINGERPRINT = "infrascope.fingerprint"
_ABANDONED_S = 3600
_ROWS_PER_GROUP = 122_880
"""DuckDB's own row-group size: readers of the lake are mostly DuckDB."""


@lru_cache(maxsize=8_192)
def _remembered(path: Path, _changed_ns: int, _inode: int) -> pl.DataFrame:
    return pl.read_parquet(path, use_statistics=False, glob=False)


def fingerprint(*parts: str) -> str:
    """Short hash of what a product is made from; sensitive to order and to where parts begin and end."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Lake:
    """The folder of Parquet files below `root`: `TABLE/RUN_KEY.parquet` and `TABLE.parquet`."""

    root: Path

    def path(self, table: str, run_key: str | None = None) -> Path:
        """Where a product lies, whether or not it exists.

        Raises
        ------
        InfraScopeError
            The run key could leave the folder or is no key at all.
        """
        if run_key is None:
            return self.root / f"{table}.parquet"
        if not _SAFE.fullmatch(run_key) or ".." in run_key:
            raise InfraScopeError(f"{run_key[:60]!r} is no run key")
        return self.root / table / f"{run_key}.parquet"

    def write(self, frame: pl.DataFrame, table: str, run_key: str | None = None, made_from: str = "") -> Path:
        """Write a product aside and put it in place; a table of the contract is held to its schema."""
        if table in TABLES:
            frame = frame.select(TABLES[table].schema.names()).cast(TABLES[table].schema)
        target = self.path(table, run_key)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        os.close(handle)
        try:
            frame.write_parquet(
                aside,
                compression="zstd",
                compression_level=1,
                row_group_size=_ROWS_PER_GROUP,
                metadata={_FINGERPRINT: made_from},
            )
            Path(aside).chmod(0o644)
            Path(aside).replace(target)
        except (OSError, pl.exceptions.PolarsError) as error:
            free = shutil.disk_usage(target.parent).free
            said = str(error).splitlines()[0]
            raise InfraScopeError(f"{target}: cannot be written, with {free:,} bytes free there ({said})") from error
        finally:
            Path(aside).unlink(missing_ok=True)
        return target

    def sweep(self) -> None:
        """Remove what writers that were killed have left behind, an hour ago or earlier."""
        for leftover in [*self.root.glob(".*.tmp"), *self.root.glob("*/.*.tmp")]:
            if leftover.stat().st_mtime < time.time() - _ABANDONED_S:
                leftover.unlink(missing_ok=True)

    def read(self, table: str, run_key: str | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """Read a product; a table of the contract that was never written is empty."""
        path = self.path(table, run_key)
        if table in TABLES and not path.exists():
            empty = TABLES[table].empty()
            return empty.select(columns) if columns else empty
        return pl.read_parquet(path, columns=columns, use_statistics=False, glob=False)

    def read_cached(self, table: str, run_key: str | None = None) -> pl.DataFrame:
        """The same, remembered until the file changes: for small products that many steps look at."""
        path = self.path(table, run_key)
        if not path.exists():
            return self.read(table, run_key)
        stat = path.stat()
        return _remembered(path, stat.st_mtime_ns, stat.st_ino)

    def has(self, table: str, run_key: str | None = None) -> bool:
        """Whether the product exists."""
        return self.path(table, run_key).exists()

    def made_from(self, table: str, run_key: str | None = None) -> str | None:
        """Fingerprint the product was written with, or None if it does not exist."""
        try:
            with self.path(table, run_key).open("rb") as file:
                return pl.read_parquet_metadata(file).get(_FINGERPRINT, "")
        except FileNotFoundError:
            return None

    def columns(self, table: str, run_key: str | None = None) -> list[str]:
        """Names of a product's columns, from its footer."""
        with self.path(table, run_key).open("rb") as file:
            return list(pl.read_parquet_schema(file))

    def keys(self, table: str) -> list[str]:
        """Run keys that have the table, sorted."""
        return sorted(file.stem for file in (self.root / table).glob("[!.]*.parquet"))

    def files(self, table: str, run_keys: Iterable[str]) -> list[Path]:
        """Files of a per-run table for those of the given runs that have it, in sorted order."""
        paths = (self.path(table, key) for key in sorted(set(run_keys)))
        return [path for path in paths if path.exists()]

    def drop(self, table: str, run_key: str | None = None) -> None:
        """Remove a product if it exists."""
        self.path(table, run_key).unlink(missing_ok=True)
