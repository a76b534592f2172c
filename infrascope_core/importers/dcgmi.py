"""Logs of `dcgmi dmon`: text to samples."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.jobs import moment
from infrascope_core.importers.samples import Samples
from infrascope_core.importers.table import cells_to_samples

_ROW = r"^(.*?)[ \t]*\bGPU(-I)?[ -]?(\d+)[ \t]+(.*)$"
_HEADER = r"#\s*Entity\s+(.*)$"


def samples_of_dcgmi(
    path: Path, text: bytes, zone: tzinfo = UTC, start: datetime | None = None, interval_s: float | None = None
) -> Samples:
    """Samples of a log, one series per column and GPU, with the label `gpu`; `mig3` is what dcgmi calls GPU-I 3.

    dcgmi writes no times. Either every line has one in front (`dcgmi dmon ... | ts '%Y-%m-%dT%H:%M:%.S'`), or the first
    sample's time and the interval (`-d`) are known.

    Parameters
    ----------
    path : Path
        For messages.
    text : bytes
        The log.
    zone : tzinfo
        Zone of the times in front of the lines.
    start : datetime, optional
        Naive UTC, of the first sample, where lines have no times.
    interval_s : float, optional
        Seconds between samples, where lines have no times.

    Raises
    ------
    ImportSourceError
        There is no header, or a second one that differs, a line does not fit it, or times are not known.
    """
    lines = pl.DataFrame({"line": text.decode("utf-8", "replace").splitlines()}, schema={"line": pl.String})
    lines = lines.with_row_index("number", offset=1).with_columns(pl.col("line").str.strip_chars())
    # the header is repeated now and then
    headers = lines.select(pl.col("line").str.extract(_HEADER).str.replace_all(r"\s+", " ")).to_series().drop_nulls()
    if headers.n_unique() != 1:
        raise ImportSourceError(
            f"{path}: expected one header with #Entity, as dcgmi dmon writes it, found {headers.n_unique()}"
        )
    names = headers[0].split()
    # the line of units, and what other entities report, are no rows
    rows = lines.with_columns(parts=pl.col("line").str.extract_groups(_ROW)).unnest("parts").drop_nulls("3")
    gpu = pl.when(pl.col("2") == "-I").then(pl.lit("mig") + pl.col("3")).otherwise("3")
    rows = rows.select("number", stamp="1", gpu=gpu, cells=pl.col("4").str.extract_all(r"\S+"))
    wrong = rows.filter(pl.col("cells").list.len() != len(names))
    if wrong.height:
        found = len(wrong["cells"][0])
        raise ImportSourceError(f"{path}: line {wrong['number'][0]} has {found} values, the header has {len(names)}")
    times = _times(path, rows, zone, start, interval_s)
    # N/A is no number
    columns = {name: rows["cells"].list.get(place).cast(pl.Float64, strict=False) for place, name in enumerate(names)}
    return cells_to_samples(times, {"gpu": rows["gpu"]}, columns, headers[0])


def _times(path: Path, rows: pl.DataFrame, zone: tzinfo, start: datetime | None, interval_s: float | None) -> pl.Series:
    """Time of each row: as in front of the lines, or by counting the rows of each GPU."""
    timeless = rows.filter(pl.col("stamp") == "")
    if not timeless.height:
        known = {}
        for number, stamp in rows.unique("stamp", keep="first", maintain_order=True).select("number", "stamp").rows():
            try:
                known[stamp] = moment(stamp, zone)
            except ImportSourceError as error:
                raise ImportSourceError(f"{path}: line {number}: {error}") from None
        return rows["stamp"].replace_strict(known, return_dtype=pl.Datetime("us"))
    if start is None or interval_s is None:
        raise ImportSourceError(
            f"{path}: line {timeless['number'][0]} has no time; give --start and --interval, or log with "
            "dcgmi dmon ... | ts '%Y-%m-%dT%H:%M:%.S'"
        )
    passed = (pl.int_range(pl.len()).over("gpu") * round(interval_s * 1e6)).cast(pl.Duration("us"))
    return rows.select(pl.lit(start, pl.Datetime("us")) + passed).to_series()
