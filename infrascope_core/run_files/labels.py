"""Labels: `<stem>.faults.csv` beside a run file lists its known faults (docs/format.md, Labels)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from infrascope_core.errors import LabelFileError, RunFileError
from infrascope_core.run_files.content import read_bounded, regular_file
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.tables import FAULTS

_HEADER = ["start", "end", "fault", "subsystem", "metrics"]
_MAX_BYTES = 16 * 2**20


def read_labels(file: Path | Entry, key: str) -> pl.DataFrame:
    """Read a label file as the `faults` table; a header without rows means "known to be healthy".

    Parameters
    ----------
    file : Path or Entry
        The label file, on this machine or in a source.
    key : str
        The run that it belongs to.

    Raises
    ------
    LabelFileError
        Not a regular file of at most 16 MiB, not a table of start,end,fault,subsystem,metrics, an unreadable time, or
        an end before its start.
    """
    path = file if isinstance(file, Path) else file.path
    try:
        with regular_file(file) if isinstance(file, Path) else file.open() as stream:
            content = read_bounded(path, stream, _MAX_BYTES)
        table = pl.read_csv(content, infer_schema=False, empty_string_is_null=False)
    except RunFileError as error:
        raise LabelFileError(path, error.fault) from None
    except pl.exceptions.PolarsError as error:
        raise LabelFileError(path, f"cannot be read as a table ({str(error).splitlines()[0][:200]})") from None
    if table.columns != _HEADER:
        raise LabelFileError(path, f"expected the header {','.join(_HEADER)}, found {','.join(table.columns)[:100]}")
    times = [pl.col(c).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False) for c in ("start", "end")]
    parsed = table.with_columns(*times)
    wrong = parsed.with_row_index("row", offset=2).filter(
        pl.col("start").is_null() | pl.col("end").is_null() | (pl.col("end") < pl.col("start"))
    )
    if wrong.height:
        raise LabelFileError(
            path,
            f"line {wrong['row'][0]}: expected a start and an end not before it, as 2025-04-26 13:38:18.600",
        )
    metrics = pl.col("metrics").str.split(";").list.eval(pl.element().filter(pl.element() != ""))
    return merged(
        parsed.select(pl.lit(key).alias("run_key"), "start", "end", "fault", "subsystem", metrics).cast(FAULTS.schema)
    )


def merged(faults: pl.DataFrame) -> pl.DataFrame:
    """Faults of which intervals of one kind that share a moment are one, with the culprits of all.

    Parameters
    ----------
    faults : polars.DataFrame
        Table `faults` of one run; rows without overlaps keep their order.
    """
    of_kind = ["fault", "subsystem"]
    latest = pl.col("end").cum_max().shift().over(of_kind)
    ordered = faults.with_row_index("row").sort(*of_kind, "start", "end", "row")
    return (
        ordered.with_columns(part=(pl.col("start") > latest).fill_null(True).cum_sum().over(of_kind))
        .group_by(*of_kind, "part", maintain_order=True)
        .agg(
            pl.col("row").min(),
            pl.col("run_key").first(),
            pl.col("start").min(),
            pl.col("end").max(),
            pl.col("metrics").explode(empty_as_null=False, keep_nulls=False).unique(maintain_order=True),
        )
        .sort("row")
        .select(FAULTS.schema.names())
    )
