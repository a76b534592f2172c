"""Tables of any kind, CSV or Parquet, long or wide, as a mapping describes them: frames to samples.

What belongs here: what tables of all sources have in common, and the reading of those that only a mapping knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from io import BytesIO
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.mapping import TableShape
from infrascope_core.importers.samples import SCHEMA, Samples, Series, moments

_PARQUET = b"PAR1"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MISSING = ["", "nan", "NaN", "NA", "N/A", "null", "None"]
_MOST_COLUMNS = 20_000
HOST = "host"
"""Label under which the host of a table's row is found."""


def samples_of_table(path: Path, raw: bytes, shape: TableShape, zone: tzinfo = UTC) -> Samples:
    """Samples of a table.

    Parameters
    ----------
    path : Path
        For messages.
    raw : bytes
        CSV with a header, or Parquet.
    shape : TableShape
        Which of its columns hold what.
    zone : tzinfo
        Zone of times without an offset.

    Raises
    ------
    ImportSourceError
        It cannot be read, lacks a column, or holds a time that cannot be read.
    """
    table = _frame(path, raw, shape)
    keys = [shape.time, *shape.labels, *([shape.host] if shape.host else [])]
    long = [name or "" for name in (shape.name, shape.value)] if shape.layout == "long" else []
    for name in (*keys, *long):
        if name not in table.columns:
            raise ImportSourceError(f"{path}: has no column {name!r}; it has {', '.join(table.columns)[:200]!r}")
    times = _times(path, table[shape.time], shape, zone)
    labels = {name: table[name].cast(pl.String) for name in shape.labels}
    labels |= {HOST: table[shape.host].cast(pl.String)} if shape.host else {}
    if not long:
        cells = {name: table[name] for name in table.columns if name not in keys}
        metrics = {name: _numbers(values, shape) for name, values in cells.items()}
        _check_numbers(path, cells, metrics)
        return cells_to_samples(times, labels, metrics, ",".join(table.columns))
    name, value = long
    numbers = _numbers(table[value], shape)
    _check_numbers(path, {value: table[value]}, {value: numbers})
    frame = pl.DataFrame({"ts": times, "value": numbers})
    return _numbered(frame, {_NAME: table[name].cast(pl.String), **labels}, ",".join(table.columns))


def _numbers(cells: pl.Series, shape: TableShape) -> pl.Series:
    """Cells as numbers; what is none is null."""
    if shape.decimal == "," and cells.dtype == pl.String:
        cells = cells.str.replace(",", ".", literal=True)
    return cells.cast(pl.Float64, strict=False)


def _check_numbers(path: Path, cells: Mapping[str, pl.Series], numbers: Mapping[str, pl.Series]) -> None:
    """Complain if there are cells, and none of them is a number."""
    texts = [(name, values.drop_nulls()[0]) for name, values in cells.items() if values.null_count() < len(values)]
    if texts and all(values.null_count() == len(values) for values in numbers.values()):
        name, text = texts[0]
        raise ImportSourceError(
            f"{path}: expected numbers, found {str(text)[:60]!r} in column {name!r} (`decimal: ','` reads 1,5)"
        )


def cells_to_samples(
    times: pl.Series,
    labels: Mapping[str, pl.Series],
    metrics: Mapping[str, pl.Series],
    group: str,
    split: Callable[[str], tuple[str, dict[str, str]]] = lambda name: (name, {}),
) -> Samples:
    """Samples of a wide table.

    Parameters
    ----------
    times : polars.Series
        Naive UTC, one a row.
    labels : mapping of str to polars.Series
        What tells rows apart; null where a row has no such label.
    metrics : mapping of str to polars.Series
        A column of numbers per metric; null where missing.
    group : str
        What is read at the same moments: files of one group that follow one another are one.
    split : callable
        From a column's name to that of its metric, and to further labels.
    """
    keys = pl.DataFrame(dict(labels)) if labels else None
    if keys is None:
        found: list[dict[str, str]] = [{}]
        number = pl.Series([0], dtype=pl.UInt32).new_from_index(0, len(times))
    else:
        rows = keys.unique(maintain_order=True)
        found = [{k: v for k, v in row.items() if v is not None} for row in rows.iter_rows(named=True)]
        number = keys.join(
            rows.with_row_index("number"), on=rows.columns, how="left", nulls_equal=True, maintain_order="left"
        )["number"]
    series: list[Series] = []
    frames = [SCHEMA.to_frame()]
    for name, values in metrics.items():
        metric, more = split(name)
        first = len(series)
        series += [Series.of(metric, {**of, **more}, group) for of in found]
        frames.append(pl.DataFrame({"series": number + first, "ts": times, "value": values}).cast(SCHEMA))
    return Samples(tuple(series), pl.concat(frames).drop_nulls())


def local_times(path: Path, cells: pl.Series, form: str, zone: tzinfo) -> pl.Series:
    """Times in a zone, written in one form, as naive UTC.

    Raises
    ------
    ImportSourceError
        One cannot be read, or does not exist in the zone.
    """
    parsed = cells.str.to_datetime(form, time_unit="us", strict=False)
    if parsed.null_count():
        row = int(parsed.is_null().arg_max() or 0)
        raise ImportSourceError(f"{path}: row {row + 1}: cannot read the time {str(cells[row])[:60]!r}")
    if parsed.dtype.time_zone is not None:  # type: ignore[attr-defined]
        return parsed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if zone is UTC:
        return parsed
    # the hour that occurs twice in autumn is taken as summer time, and the one that does not occur in spring is none
    aware = parsed.dt.replace_time_zone(str(zone), ambiguous="earliest", non_existent="null")
    if aware.null_count():
        raise ImportSourceError(f"{path}: {cells[int(aware.is_null().arg_max() or 0)]!r} is no time in {zone}")
    return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


_NAME = "__name__"


def _numbered(frame: pl.DataFrame, keys: Mapping[str, pl.Series], group: str) -> Samples:
    """Samples of a long table: a series for each combination of its keys."""
    table = frame.with_columns(*(values.alias(f"key {name}") for name, values in keys.items()))
    columns = [f"key {name}" for name in keys]
    rows = table.select(columns).unique(maintain_order=True).drop_nulls(f"key {_NAME}")
    values = table.join(rows.with_row_index("series"), on=columns, nulls_equal=True, maintain_order="left")
    series = []
    for row in rows.iter_rows():
        labels = {name: value for name, value in zip(keys, row, strict=True) if value is not None}
        series.append(Series.of(labels.pop(_NAME), labels, group))
    return Samples(tuple(series), values.select(SCHEMA.names()).cast(SCHEMA).drop_nulls())


def _frame(path: Path, raw: bytes, shape: TableShape) -> pl.DataFrame:
    try:
        if raw[:4] == _PARQUET:
            table = pl.read_parquet(BytesIO(raw))
        else:
            table = pl.read_csv(
                raw, separator=shape.separator, infer_schema=False, null_values=_MISSING, truncate_ragged_lines=False
            )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ImportSourceError(f"{path}: cannot be read as a table ({str(error).splitlines()[0][:200]})") from None
    if table.width > _MOST_COLUMNS:
        raise ImportSourceError(f"{path}: has {table.width:,} columns; the limit is {_MOST_COLUMNS:,}")
    # lists and records are neither numbers nor names
    return table.select(name for name, dtype in table.schema.items() if not dtype.is_nested())


def _times(path: Path, cells: pl.Series, shape: TableShape, zone: tzinfo) -> pl.Series:
    """The column of times as naive UTC."""
    form = shape.time_format
    if form in _PER_SECOND:
        numbers = cells.cast(pl.Float64, strict=False)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            raise ImportSourceError(f"{path}: row {row + 1}: expected a time in {form}, found {str(cells[row])[:60]!r}")
        try:
            return moments(numbers, _PER_SECOND[form])
        except ValueError as error:
            raise ImportSourceError(f"{path}: {error}") from None
    if isinstance(cells.dtype, pl.Datetime):
        aware = cells.dt.cast_time_unit("us")
        if cells.dtype.time_zone is not None:
            return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return local_times(path, aware.dt.to_string("%Y-%m-%dT%H:%M:%S%.6f"), "%Y-%m-%dT%H:%M:%S%.f", zone)
    if form != "iso":
        return local_times(path, cells.cast(pl.String), form, zone)
    text = cells.cast(pl.String).str.replace(" ", "T", literal=True).str.replace(r"Z$", "+00:00")
    offset = text.str.contains(r"[+-]\d\d:?\d\d$")
    if offset.all() and len(offset):
        return local_times(path, text, "%Y-%m-%dT%H:%M:%S%.f%:z", zone)
    return local_times(path, text, "%Y-%m-%dT%H:%M:%S%.f", zone)
