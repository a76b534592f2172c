"""Logs of `dcgmi dmon`: text to samples."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.jobs import moment
from infrascope_core.importers.samples import SCHEMA, Samples, Series

_ROW = re.compile(r"(?P<stamp>.*?)\s*\bGPU[ -]?(?P<gpu>\d+)\s+(?P<cells>.*)")
_HEADER = re.compile(r".*#\s*Entity\s+(?P<names>.*)")


def samples_of_dcgmi(
    path: Path, text: bytes, zone: tzinfo = UTC, start: datetime | None = None, interval_s: float | None = None
) -> Samples:
    """Samples of a log, one series per column and GPU, with the label `gpu`.

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
        There is no header, a line does not fit it, or times are not known.
    """
    names: list[str] = []
    place: dict[Series, int] = {}
    rows: list[tuple[int, datetime, float]] = []
    round_of: dict[str, int] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        if header := _HEADER.fullmatch(line.strip()):
            names = header["names"].split()
            continue
        match = _ROW.fullmatch(line.strip())
        if match is None:  # the line of units, and what other entities report
            continue
        cells = match["cells"].split()
        if len(cells) != len(names):
            raise ImportSourceError(f"{path}: line {number} has {len(cells)} values, the header has {len(names)}")
        gpu = match["gpu"]
        round_of[gpu] = round_of.get(gpu, -1) + 1
        if match["stamp"]:
            at = _stamp(path, number, match["stamp"], zone)
        elif start is not None and interval_s is not None:
            at = start + timedelta(seconds=interval_s * round_of[gpu])
        else:
            raise ImportSourceError(
                f"{path}: line {number} has no time; give --start and --interval, or log with "
                "dcgmi dmon ... | ts '%Y-%m-%dT%H:%M:%.S'"
            )
        for name, cell in zip(names, cells, strict=True):
            try:
                value = float(cell)
            except ValueError:  # N/A
                continue
            rows.append((place.setdefault(Series.of(name, {"gpu": gpu}, str(path)), len(place)), at, value))
    if not names:
        raise ImportSourceError(f"{path}: expected a header with #Entity, as dcgmi dmon writes it")
    return Samples(tuple(place), pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _stamp(path: Path, number: int, text: str, zone: tzinfo) -> datetime:
    try:
        return moment(text, zone)
    except ImportSourceError as error:
        raise ImportSourceError(f"{path}: line {number}: {error}") from None
