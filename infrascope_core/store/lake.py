"""The lake: one Parquet file per table and run, one per pooled table, each replaced atomically.

Every file carries the fingerprint of what it was made from, so that a product that is still current is recognised
without reading it. No step opens the DuckDB file for writing (docs/adr/0002).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from infrascope_core.contract import Table
from infrascope_core.errors import InfraScopeError, OutdatedError
from infrascope_core.store.atomic import ASIDE_SUFFIX, aside, sweep
from infrascope_core.store.footers import FINGERPRINT, VERSION, Footers, Stat, stat_of, stats_in
from infrascope_core.store.recent import RecentFrames

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_LEAST_PROBE = 2**16
_EMPTIED = "emptied"
"""What stands in the place of a version where the rows of a run were dropped on purpose, followed by the columns."""
_ROWS_PER_GROUP = 122_880
"""DuckDB's own row-group size: readers of the lake are mostly DuckDB."""


@lru_cache(maxsize=16_384)
def _remembered(path: Path, _stat: Stat) -> pl.DataFrame:
    return pl.read_parquet(path, use_statistics=False, glob=False)


def fingerprint(*parts: str) -> str:
    """Short hash of what a product is made from; sensitive to order and to where parts begin and end."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=65_536)
def _safe(run_key: str) -> str:
    if not _SAFE.fullmatch(run_key) or ".." in run_key:
        raise InfraScopeError(f"{run_key[:60]!r} is not a valid run key")
    return run_key


@dataclass(frozen=True)
class Lake:
    """The folder of Parquet files below `root`: `TABLE/RUN_KEY.parquet` and `TABLE.parquet`.

    Tables are given as `Table`, whose schema is then held to and which read as empty while nothing was written, or by
    name.
    """

    root: Path

    @cached_property
    def _footers(self) -> Footers:
        return Footers(self.root)

    @cached_property
    def _recent(self) -> RecentFrames:
        return RecentFrames()

    def path(self, table: Table | str, run_key: str | None = None) -> Path:
        """Where a product lies, whether or not it exists.

        Raises
        ------
        InfraScopeError
            The run key could leave the folder or is not a key at all.
        """
        return Path(self._file(table, run_key))

    def _file(self, table: Table | str, run_key: str | None = None) -> str:
        name = table if isinstance(table, str) else table.name
        return f"{self._place}/{name}.parquet" if run_key is None else f"{self._place}/{name}/{_safe(run_key)}.parquet"

    @cached_property
    def _place(self) -> str:
        return str(self.root)

    def write(self, frame: pl.DataFrame, table: Table | str, run_key: str | None = None, made_from: str = "") -> Path:
        """Write a product aside and put it in place.

        Parameters
        ----------
        frame : polars.DataFrame
            Brought to the schema of the table, if that is given as such.
        table : Table or str
            What it is.
        run_key : str, optional
            Of which run; none for a pooled table.
        made_from : str
            Fingerprint, or any other text that says what the product was made from.

        Raises
        ------
        StorageError
            The file cannot be written.
        """
        if isinstance(table, Table):
            frame = table.conform(frame)
        target = self.path(table, run_key)
        # a pooled table is seen by others as a whole: its version is that of its content
        version = (
            "" if run_key is not None else content_hash(table.stable(frame) if isinstance(table, Table) else frame)
        )
        with aside(target) as path:
            try:
                frame.write_parquet(
                    path,
                    compression="zstd",
                    compression_level=1,
                    row_group_size=_ROWS_PER_GROUP,
                    metadata={FINGERPRINT: made_from, **({VERSION: version} if version else {})},
                )
            except pl.exceptions.PolarsError as error:
                raise _system_error(error, path, int(frame.estimated_size())) from error
            stat = stat_of(path)
        self._footers.note(str(target), stat, (made_from, version))
        if run_key is not None and stat is not None and frame.height <= _ROWS_PER_GROUP:
            self._recent.put(str(target), stat, frame)
        return target

    def read(
        self, table: Table | str, run_key: str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Read a product; a `Table` that was never written is empty, unless it is wide, with columns of its own.

        Raises
        ------
        OutdatedError
            It was written by an earlier version and lacks columns of the table.
        """
        path = self._file(table, run_key)
        stat = stat_of(path)
        if stat is None and isinstance(table, Table) and not table.wide:
            empty = table.empty()
            return empty.select(columns) if columns else empty
        recent = None if stat is None else self._recent.get(path, stat)
        if recent is not None:
            return recent[list(columns)] if columns else recent.clone()
        frame = pl.read_parquet(path, columns=list(columns) if columns else None, use_statistics=False, glob=False)
        if isinstance(table, Table) and not columns:
            _refuse_outdated(frame, table, path)
        return frame

    def read_cached(self, table: Table | str, run_key: str | None = None) -> pl.DataFrame:
        """The same, remembered until the file changes: for small products that many steps look at."""
        path = self.path(table, run_key)
        stat = stat_of(path)
        if stat is None:
            return self.read(table, run_key)
        frame = _remembered(path, stat)
        if isinstance(table, Table):
            _refuse_outdated(frame, table, str(path))
        return frame

    def read_all(self, table: Table, run_keys: Iterable[str] | None = None) -> pl.DataFrame:
        """A per-run table of several runs (by default all), one below the other by run key.

        A damaged file is put aside and left out. Columns that an earlier version did not have are null.
        """
        files = self.files(table, self.keys(table) if run_keys is None else run_keys)
        try:
            return _one_below_the_other(files, table)
        except pl.exceptions.ComputeError:
            whole = [file for file in files if self._footers.of(str(file)) is not None]
            if len(whole) == len(files):
                raise
            return _one_below_the_other(whole, table)

    def empty(self, table: Table, run_key: str) -> int:
        """Drop the rows of a run's product on purpose: it stays current, with the table's columns, and says so.

        One that was emptied by an earlier version, whose table had other columns, gets those of today.

        Returns
        -------
        int
            Bytes that are free now.
        """
        path = self.path(table, run_key)
        before, footer = stat_of(path), self._footers.of(str(path))
        emptied = f"{_EMPTIED} {fingerprint(*(f'{name} {dtype}' for name, dtype in table.schema.items()))}"
        if before is None or footer is None or footer[1] == emptied:
            return 0
        nothing = pl.DataFrame(schema=pl.read_parquet_schema(path)) if table.wide else table.empty()
        with aside(target := path) as place:
            nothing.write_parquet(place, compression="zstd", metadata={FINGERPRINT: footer[0], VERSION: emptied})
            stat = stat_of(place)
        self._footers.note(str(target), stat, (footer[0], emptied))
        return before[0] - (stat[0] if stat else 0)

    def is_emptied(self, table: Table | str, run_key: str) -> bool:
        """Whether the rows of a run's product were dropped on purpose."""
        footer = self._footers.of(self._file(table, run_key))
        return footer is not None and footer[1].startswith(_EMPTIED)

    def has(self, table: Table | str, run_key: str | None = None) -> bool:
        """Whether the product exists."""
        return stat_of(self._file(table, run_key)) is not None

    def made_from(self, table: Table | str, run_key: str | None = None) -> str | None:
        """What the product was made from, as it was written; None if it does not exist."""
        footer = self._footers.of(self._file(table, run_key))
        return None if footer is None else footer[0]

    def version(self, table: Table | str) -> str | None:
        """Hash of the content of a pooled table; None if it does not exist."""
        footer = self._footers.of(self._file(table))
        return None if footer is None else footer[1]

    def columns(self, table: Table | str, run_key: str | None = None) -> list[str]:
        """Names of a product's columns, from its footer."""
        with self.path(table, run_key).open("rb") as file:
            return list(pl.read_parquet_schema(file))

    def stats(self, table: Table | str) -> dict[str, Stat]:
        """By run key, what tells whether the file of a per-run table was replaced."""
        return stats_in(self.path(table).with_suffix(""), ".parquet")

    def keys(self, table: Table | str) -> list[str]:
        """Run keys that have the table, sorted."""
        return sorted(self.stats(table))

    def files(self, table: Table | str, run_keys: Iterable[str]) -> list[Path]:
        """Files of a per-run table for those of the given runs that have it, in sorted order."""
        there = self.stats(table)
        return [self.path(table, key) for key in sorted(set(run_keys)) if key in there]

    def row(self, table: Table, run_key: str) -> dict[str, Any] | None:
        """The row of a run in a table with one row per run; None if there is none.

        The first call reads all runs at once, which takes as long as reading twenty of them one by one.
        """
        known = self._rows.get(table.name)
        if known is None:
            stats = self.stats(table)
            rows = {row["run_key"]: row for row in self.read_all(table, stats).iter_rows(named=True)}
            known = self._rows[table.name] = {key: (stats[key], rows[key]) for key in stats if key in rows}
        stat = stat_of(self._file(table, run_key))
        if stat is None:
            return None
        if run_key not in known or known[run_key][0] != stat:
            known[run_key] = stat, self.read_all(table, [run_key]).row(0, named=True)
        return known[run_key][1]

    @cached_property
    def _rows(self) -> dict[str, dict[str, tuple[Stat, dict[str, Any]]]]:
        return {}

    def drop(self, table: Table | str, run_key: str | None = None) -> None:
        """Remove a product if it exists."""
        path = self.path(table, run_key)
        path.unlink(missing_ok=True)
        self._footers.forget(str(path))

    def drop_run(self, run_key: str, keep: Iterable[Table] = ()) -> None:
        """Remove all products of a run, save those of the tables to keep."""
        kept = {table.name for table in keep}
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if folder.is_dir() and folder.name not in kept:
                self.drop(folder.name, run_key)

    def sweep(self) -> None:
        """Remove what writers that were killed have left behind, an hour ago or earlier."""
        sweep([*self.root.glob(f".*{ASIDE_SUFFIX}"), *self.root.glob(f"*/.*{ASIDE_SUFFIX}")])

    def save_index(self) -> None:
        """Leave the fingerprints that were looked up for the next process, so that it need not open every file."""
        self._footers.save()


def _one_below_the_other(files: Sequence[Path], table: Table) -> pl.DataFrame:
    if not files:
        return table.empty()
    found = pl.scan_parquet(
        list(files), glob=False, schema=table.schema, missing_columns="insert", extra_columns="ignore"
    )
    return found.collect()


def _refuse_outdated(frame: pl.DataFrame, table: Table, path: str) -> None:
    if gone := table.schema.keys() - set(frame.columns):
        raise OutdatedError(
            f"{path} was written by an earlier version of InfraScope and has no {sorted(gone)[0]!r}; "
            "`infrascope run` makes it anew"
        )


def _system_error(error: Exception, path: Path, size: int) -> OSError:
    """The system's error behind one of polars, which passes on its number as text, or not at all.

    Then the system is asked again, by writing as many bytes to the same file.
    """
    number = _OS_ERROR.search(str(error))
    if number is not None:
        return OSError(int(number[1]), os.strerror(int(number[1])))
    try:
        path.write_bytes(bytes(max(size, _LEAST_PROBE)))
    except OSError as again:
        return again
    return OSError(str(error).splitlines()[0])


def content_hash(frame: pl.DataFrame) -> str:
    """Short hash of a frame's columns and of its rows, in their order."""
    digest = hashlib.sha256(json.dumps([(name, str(dtype)) for name, dtype in frame.schema.items()]).encode())
    for rows in frame.iter_slices(_ROWS_PER_GROUP):
        for column in rows:
            _add_content(digest, column)
    return digest.hexdigest()[:16]


def _add_content(digest: hashlib._Hash, values: pl.Series) -> None:
    """Add the values themselves: as text, some rows take ten times as long."""
    digest.update(np.packbits(values.is_null().to_numpy()).tobytes())
    if isinstance(values.dtype, pl.List):
        lengths = values.list.len().fill_null(0)
        digest.update(lengths.to_numpy().tobytes())
        _add_content(digest, values.filter(lengths > 0).explode())
    elif isinstance(values.dtype, pl.Struct):
        for name in values.struct.fields:
            _add_content(digest, values.struct.field(name))
    elif values.dtype.is_numeric() or values.dtype.is_temporal() or values.dtype == pl.Boolean:
        digest.update(values.to_physical().fill_null(value=0).to_numpy().tobytes())
    elif values.dtype != pl.Null:
        texts = values.drop_nulls().cast(pl.String)
        digest.update(texts.str.len_bytes().to_numpy().tobytes())
        digest.update(texts.str.join().fill_null("")[0].encode())
