"""Reading a run file: a table of samples becomes a typed telemetry frame and its facts, or one sentence why not.

The happy path is a single typed parse, in pieces if the file is large; only when it fails, or when the count of
separators does not add up, a second, slow pass looks for the line and column at fault.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import polars.selectors as cs

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.columns import ColumnName, is_gpu_metric, parse_columns
from infrascope_core.run_files.content import is_packed, pieces
from infrascope_core.run_files.name import RunName, parse_run_name
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.run_files.tables import Platform

_MISSING = ["", "nan", "NaN", "NAN", "-nan", "NA", "N/A", "[N/A]", "[Not Supported]", "null", "None"]
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?)", re.IGNORECASE)
_NOT_BLANK = re.compile(rb"\S")
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S%.f"
_TIME = "__time__"
_SEPARATORS = {"\t": "tab", ",": "comma"}
_MAX_QUOTED = 40
"""Characters of a cell or a name that a message quotes."""


@dataclass(frozen=True)
class RunFile:
    """A run file that was read and found good.

    Attributes
    ----------
    telemetry : pl.DataFrame
        run_key, host, sample, ts (naive, microseconds), then one Float64 column per host-free metric in
        the file's order; the rows of several hosts lie one after the other. Missing is null; infinities
        are kept.
    metrics : int
        Metric columns of the file, over all hosts.
    interval_s : float or None
        Median time between samples, seconds; None for a single sample.
    """

    name: RunName
    path: Path
    telemetry: pl.DataFrame
    platform: Platform
    samples: int
    metrics: int
    interval_s: float | None
    bytes: int
    sha256: str


def read_run_file(file: Path | Entry, settings: ReaderSettings | None = None) -> RunFile:
    """Read one run file.

    The file is read once, from the first byte to the last, and never lies on a disk or in memory unpacked as a whole if
    it is larger than a piece (128 MiB).

    Parameters
    ----------
    file : Path or Entry
        `.txt`, `.tsv` or `.csv`, plain or gzipped, on this machine or in a source.
    settings : ReaderSettings, optional
        Limits and the fallback to commas.

    Raises
    ------
    RunFileError
        The file is rejected as a whole (docs/design.md, Bad input); the message names the line or column.
    SourceError
        The source cannot be reached.
    """
    settings = settings or ReaderSettings()
    entry = LocalFile(file) if isinstance(file, Path) else file
    path = entry.path
    name = parse_run_name(path)
    with entry.open() as stream, ThreadPoolExecutor(1) as pool:
        if entry.size > settings.max_bytes:
            raise RunFileError(path, f"larger than {settings.max_bytes:,} bytes, the limit")
        seen = _Seen(stream, pool)
        # what unpacks reads in small steps
        text = cast(BinaryIO, io.BufferedReader(seen, 2**20) if is_packed(path) else seen)
        table, columns = _parse(path, pieces(path, text, settings.max_bytes), name, settings)
        sha256 = seen.sha256()
    ts = _times(path, table)
    return RunFile(
        name=name,
        path=path,
        telemetry=_telemetry(table, columns, ts, name.run_key),
        platform="gpu" if any(is_gpu_metric(c.metric) for c in columns) else "cpu",
        samples=table.height,
        metrics=len(columns),
        interval_s=_interval_s(ts),
        bytes=seen.bytes,
        sha256=sha256,
    )


def is_same_content(entry: Entry, size: int, sha256: str) -> bool:
    """Whether a file holds the bytes of this number and hash.

    Raises
    ------
    RunFileError, SourceError
        See `Entry.open`.
    """
    with entry.open() as stream, ThreadPoolExecutor(1) as pool:
        if entry.size != size:
            return False
        seen = _Seen(stream, pool)
        while seen.read(2**20):
            pass
        return (seen.bytes, seen.sha256()) == (size, sha256)


class _Seen(io.RawIOBase):
    """A stream that counts and hashes what is read of it; the hash is computed on a second thread meanwhile."""

    def __init__(self, stream: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self._stream = stream
        self._pool = pool
        self._hash = hashlib.sha256()
        self._hashing: Future[None] | None = None
        self.bytes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        read = self._stream.read(size)
        if read:
            if self._hashing is not None:  # no more than one part waits in memory
                self._hashing.result()
            self.bytes += len(read)
            self._hashing = self._pool.submit(self._hash.update, read)
        return read

    def readinto(self, buffer: object, /) -> int:
        room = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        read = self.read(len(room))
        room[: len(read)] = read
        return len(read)

    def sha256(self) -> str:
        """Hash of all that was read."""
        if self._hashing is not None:
            self._hashing.result()
        return self._hash.hexdigest()


def _parse(
    path: Path, text: Iterator[bytes], name: RunName, settings: ReaderSettings
) -> tuple[pl.DataFrame, list[ColumnName]]:
    raw = next(text)
    header_end = raw.find(b"\n")
    header = raw[: header_end if header_end >= 0 else len(raw)]
    fields, separator = _header(path, header, settings)
    columns = parse_columns(path, fields[1:], name.host)
    if not _NOT_BLANK.search(raw, len(header)):
        raw += next(text, b"")
    if not _NOT_BLANK.search(raw, len(header)):
        raise RunFileError(path, "holds a header but no samples")
    tables: list[pl.DataFrame] = []
    rows = 0
    following: bytes | None = raw
    while following is not None:
        raw, following = following, next(text, None)
        try:
            table = _parse_piece(raw, fields, separator, rows, last=not following)
        except _PieceError as error:
            raise RunFileError(path, str(error)) from None
        rows += table.height
        if rows * len(columns) > settings.max_values:
            raise RunFileError(path, f"holds more than {settings.max_values:,} values, the limit")
        tables.append(table)
    return tables[0] if len(tables) == 1 else pl.concat(tables), columns


class _PieceError(Exception):
    """What is wrong with a piece, in words."""


def _parse_piece(raw: bytes, fields: list[str], separator: str, rows: int, *, last: bool) -> pl.DataFrame:
    """The table of a piece of a file; `rows` came before it, and the header if they are none."""
    metrics, header_lines = len(fields) - 1, int(not rows)
    if last and (raw.endswith((b"\n\n", b"\n\r\n")) or raw in (b"\n", b"\r\n")):
        raw = raw.rstrip()
    if not raw:  # lines without anything, at the end of a file of several pieces
        return pl.DataFrame(schema=_schema(metrics))
    try:
        table = _parse_body(raw, separator, metrics, header_lines, None)
    except pl.exceptions.PolarsError:
        try:
            table = _parse_body(raw, separator, metrics, header_lines, _MISSING)
        except pl.exceptions.PolarsError as error:
            raise _PieceError(_diagnose(raw, fields, separator, rows, last) or _first_line(error)) from None
    # short rows are filled up silently by the parser
    if _count(raw, separator) != metrics * (table.height + header_lines):
        raise _PieceError(_diagnose(raw, fields, separator, rows, last) or "its lines differ in length")
    return table


def _count(raw: bytes, separator: str) -> int:
    """How often a separator occurs; in pieces that fit the cache."""
    piece = 2**20
    codes = np.frombuffer(raw, np.uint8)
    return sum(
        int(np.count_nonzero(codes[start : start + piece] == ord(separator))) for start in range(0, len(codes), piece)
    )


def _schema(metrics: int) -> dict[str, pl.DataType]:
    return {_TIME: pl.String(), **{str(i): pl.Float64() for i in range(metrics)}}


def _parse_body(raw: bytes, separator: str, metrics: int, header_lines: int, missing: list[str] | None) -> pl.DataFrame:
    """One typed parse; a list of spellings for missing costs a third more time, so it comes second."""
    return pl.read_csv(
        raw,
        separator=separator,
        has_header=False,
        skip_rows=header_lines,
        schema=_schema(metrics),
        quote_char=None,
        null_values=missing,
    )


def _header(path: Path, header: bytes, settings: ReaderSettings) -> tuple[list[str], str]:
    try:
        text = header.decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        raise RunFileError(path, "not a table: its first line is not UTF-8 text") from None
    if not text.strip():
        raise RunFileError(path, "empty: expected a header line" if not header else "its header line is blank")
    for separator in _SEPARATORS:
        fields = text.split(separator)
        if len(fields) >= settings.min_fields_for_tabs:
            break
    else:
        separator = max(_SEPARATORS, key=text.count)
        fields = text.split(separator)
    if len(fields) < 2 or "\0" in text:
        raise RunFileError(path, "not a table: its first line has no tab- or comma-separated column names")
    if len(fields) > settings.max_columns:
        raise RunFileError(path, f"has {len(fields):,} columns; the limit is {settings.max_columns:,}")
    return fields, separator


def _first_line(error: Exception) -> str:
    return f"cannot be parsed ({str(error).splitlines()[0][:200]})"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…")


def _diagnose(raw: bytes, fields: list[str], separator: str, rows: int, is_last_piece: bool) -> str | None:
    """The first fault a person would find: line, column, and what was expected; `rows` as in `_parse_piece`."""
    lines = raw.split(b"\n")
    if not rows:
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=rows + 2):
        try:
            cells = line.decode("utf-8").rstrip("\r").split(separator)
        except UnicodeDecodeError:
            return f"line {number} is not UTF-8 text"
        if cells == fields:
            return f"line {number} repeats the header; two files seem to be joined"
        if len(cells) != len(fields):
            cut = is_last_piece and number == rows + 1 + len(lines) and len(cells) < len(fields)
            return f"line {number} has {len(cells)} fields, the header has {len(fields)}" + (
                "; the file ends in the middle of a line" if cut else f" ({_SEPARATORS[separator]}-separated)"
            )
        for name, cell in zip(fields[1:], cells[1:], strict=True):
            if cell not in _MISSING and not _NUMBER.fullmatch(cell):
                return f"line {number}, column {_quoted(name)}: expected a number, found {_quoted(cell)}"
    return None


def _times(path: Path, table: pl.DataFrame) -> pl.Series:
    text = table[_TIME]
    ts = text.str.to_datetime(_TIME_FORMAT, time_unit="us", strict=False)
    if ts.null_count() == len(ts):
        raise RunFileError(
            path,
            f"no timestamps: the first column holds {_quoted(str(text[0] or ''))} in line 2, "
            "expected times as 2025-04-26 13:38:18.600",
        )
    if ts.null_count():
        row = int(ts.is_null().arg_max() or 0)
        raise RunFileError(
            path,
            f"line {row + 2}: expected a time as 2025-04-26 13:38:18.600, found {_quoted(text[row] or '')}",
        )
    backwards = (ts.diff().dt.total_microseconds() < 0).fill_null(False)
    if backwards.any():
        row = int(backwards.arg_max() or 0)
        raise RunFileError(path, f"line {row + 2}: time runs backwards, {text[row]} follows {text[row - 1]}")
    return ts.rename("ts")


def _interval_s(ts: pl.Series) -> float | None:
    median = ts.diff().drop_nulls().dt.total_microseconds().median()
    return None if median is None else round(float(median) / 1e6, 6)  # type: ignore[arg-type]


def _telemetry(table: pl.DataFrame, columns: list[ColumnName], ts: pl.Series, run_key: str) -> pl.DataFrame:
    """Host-free frame; NaN becomes null so that missing is the same everywhere."""
    odd = [name for name, nan in table.select(cs.float().is_nan().any()).row(0, named=True).items() if nan]
    table = table.with_columns(pl.col(odd).fill_nan(None))
    parts = []
    for host in dict.fromkeys(c.host for c in columns):
        metrics = {str(i): c.metric for i, c in enumerate(columns) if c.host == host}
        parts.append(
            table.select(
                pl.lit(run_key).alias("run_key"),
                pl.lit(host).alias("host"),
                pl.int_range(pl.len(), dtype=pl.Int64).alias("sample"),
                ts,
                *(pl.col(position).alias(metric) for position, metric in metrics.items()),
            )
        )
    return parts[0] if len(parts) == 1 else pl.concat(parts, how="diagonal")
