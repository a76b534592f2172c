"""Page faults, paging and swapping from /proc/vmstat (proc(5))."""

from __future__ import annotations

from pathlib import Path

from infrascope_core.collect.probe import Column, TextProbe, integer

_WANTED = {
    b"pgpgin": Column("Vmstat_diff", "pgpgin", "", "kB", difference=True),
    b"pgpgout": Column("Vmstat_diff", "pgpgout", "", "kB", difference=True),
    b"pswpin": Column("Vmstat_diff", "pswpin", "", "count", difference=True),
    b"pswpout": Column("Vmstat_diff", "pswpout", "", "count", difference=True),
    b"pgfault": Column("Vmstat_diff", "pgfault", "", "count", difference=True),
    b"pgmajfault": Column("Vmstat_diff", "pgmajfault", "", "count", difference=True),
}


def vmstat_probe(path: Path = Path("/proc/vmstat")) -> TextProbe:
    """Probe of /proc/vmstat."""
    return TextProbe("/proc/vmstat", (path,), parse)


def parse(raw: bytes) -> dict[Column, float | int]:
    """The wanted counters."""
    values: dict[Column, float | int] = {}
    for line in raw.splitlines():
        key, _, number = line.partition(b" ")
        if key in _WANTED and (count := integer(number)) is not None:
            values[_WANTED[key]] = count
    return values
