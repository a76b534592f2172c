"""Memory from /proc/meminfo (proc(5)): every line as it comes, and MemoryUtilization.

MemoryUtilization is the share of MemTotal that MemAvailable does not cover: what could not be had without
swapping. Page cache that can be given back does not count as used.
"""

from __future__ import annotations

from pathlib import Path

from infrascope_core.collect.probe import Column, TextProbe, integer

_UTILIZATION = Column("Memory", "MemoryUtilization", "", "%")


def meminfo_probe(path: Path = Path("/proc/meminfo")) -> TextProbe:
    """Probe of /proc/meminfo."""
    return TextProbe("/proc/meminfo", (path,), parse)


def parse(raw: bytes) -> dict[Column, float | int]:
    """Values in kB, pages of HugePages_* as counts, MemoryUtilization in per cent."""
    values: dict[Column, float | int] = {}
    known: dict[bytes, int] = {}
    for line in raw.splitlines():
        key, colon, rest = line.partition(b":")
        fields = rest.split()
        if not colon or not fields or (number := integer(fields[0])) is None:
            continue
        known[key] = number
        unit = "kB" if fields[1:] == [b"kB"] else "count"
        values[Column("Memory", key.decode("ascii", "replace"), "", unit)] = number
    total, available = known.get(b"MemTotal"), known.get(b"MemAvailable")
    if total and available is not None:
        values[_UTILIZATION] = 100 * (total - available) / total
    return values
