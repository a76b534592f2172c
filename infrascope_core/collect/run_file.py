"""Writing a run file from readings: they are parsed one at a time, into a file that is whole or not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from infrascope_core.collect.probe import Probe, Value
from infrascope_core.collect.spool import Reading
from infrascope_core.store.atomic import aside


def write_run_file(
    path: Path, readings: Iterable[Reading], probes: Sequence[Probe], started: datetime, host: str
) -> int:
    """Parse readings into a run file, sync it, and put it in place.

    Parameters
    ----------
    path : Path
        Where the run file will be.
    readings : iterable of (float, list of bytes)
        The first is the base of the first differences, and no row.
    probes : sequence of Probe
        Those that gave the texts, in their order.
    started : datetime
        Naive UTC, of the first reading.
    host : str
        Host in column names.

    Returns
    -------
    int
        Rows. Where there are none, nothing is written.

    Raises
    ------
    StorageError
        There is no room.
    """
    remaining = iter(readings)
    base = next(remaining, None)
    first = next(remaining, None)
    if base is None or first is None:
        return 0
    readers = [probe.reader(text) for probe, text in zip(probes, base[1], strict=True)]
    names = [column.render(host) for reader in readers for column in reader.columns]
    rows = 0
    with aside(path, sync=True) as place, place.open("w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(["", *names]) + "\n")
        for at_s, texts in chain([first], remaining):
            stamp = (started + timedelta(seconds=at_s)).isoformat(sep=" ", timespec="milliseconds")
            cells = [stamp]
            for reader, text in zip(readers, texts, strict=True):
                cells += [_cell(value) for value in reader.row(text, at_s)]
            file.write("\t".join(cells) + "\n")
            rows += 1
    return rows


def _cell(value: Value) -> str:
    """Whole numbers in full, others to four decimals, missing as nothing."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")
