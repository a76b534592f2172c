"""Storage from /proc/diskstats, summed over the host's physical disks.

Fields and their names follow the kernel's Documentation/admin-guide/iostats.rst, spelt as the paper's data
set spells them. A physical disk is one with a device behind it in sysfs (/sys/block/NAME/device): partitions,
loop, ram, zram, device-mapper and md devices would count the same transfer twice or are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from infrascope_core.collect.probe import (
    Column,
    FileProbe,
    ProbeUnavailableError,
    RowReader,
    Value,
    difference,
    integer,
)


def _counter(metric: str, unit: str) -> Column:
    return Column("Storage_diff", metric, "", unit, difference=True)


_FIELDS = (
    _counter("reads_completed_successfully", "count"),
    _counter("reads_merged", "count"),
    _counter("sectors_read", "count"),
    _counter("time_spent_reading_(ms)", "ms"),
    _counter("writes_completed", "count"),
    _counter("writes_merged", "count"),
    _counter("sectors_written", "count"),
    _counter("time_spent_writing_(ms)", "ms"),
    Column("Storage", "I/Os_currently_in_progress", "", "count"),
    _counter("time_spent_doing_I/Os_(ms)", "ms"),
    _counter("weighted_time_spent_doing_I/Os_(ms)", "ms"),
    _counter("discards_completed_successfully", "count"),
    _counter("discards_merged", "count"),
    _counter("sectors_discarded", "count"),
    _counter("time_spent_discarding_(ms)", "ms"),
    _counter("flush_requests_completed_successfully", "count"),
    _counter("time_spent_flushing_(ms)", "ms"),
)
"""Fields 1 to 17 after the device's name; kernels before 4.18 end at 11, before 5.5 at 15."""


class DiskstatsProbe(FileProbe):
    """Probe of /proc/diskstats."""

    def __init__(self, path: Path = Path("/proc/diskstats"), block_devices: Path = Path("/sys/block")) -> None:
        super().__init__("/proc/diskstats", path)
        self._block_devices = block_devices
        self._disks: frozenset[bytes] = frozenset()

    def start(self, interval_s: float) -> None:
        """Find the physical disks and open the file; raises ProbeUnavailableError if there is no disk."""
        self._disks = frozenset(device.parent.name.encode() for device in self._block_devices.glob("*/device"))
        if not self._disks:
            raise ProbeUnavailableError(f"no physical disk under {self._block_devices}")
        super().start(interval_s)

    def state(self) -> dict[str, Any]:
        """The physical disks."""
        return {"disks": sorted(disk.decode("utf-8", "surrogateescape") for disk in self._disks)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The physical disks."""
        self._disks = frozenset(str(disk).encode("utf-8", "surrogateescape") for disk in state["disks"])

    def reader(self, base: bytes) -> RowReader:
        """Sums over the disks from `base` on."""
        return DiskstatsReader(base, self._disks)


class DiskstatsReader:
    """Rows summed over the disks that both readings hold; a disk that goes away leaves the sum."""

    def __init__(self, base: bytes, disks: Collection[bytes]) -> None:
        self._disks = disks
        self._previous = _parse(base, disks)
        fields = min((len(counters) for counters in self._previous.values()), default=0)
        self._columns = _FIELDS[:fields]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The fields that this kernel gives for every disk."""
        return self._columns

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column."""
        now = _parse(raw, self._disks)
        before, self._previous = self._previous, now
        both = [disk for disk in now if disk in before]
        return [
            _sum(
                difference(before[disk][field], now[disk][field]) if column.difference else now[disk][field]
                for disk in both
                if field < min(len(before[disk]), len(now[disk]))
            )
            for field, column in enumerate(self._columns)
        ]


def _parse(raw: bytes, disks: Collection[bytes]) -> dict[bytes, tuple[int, ...]]:
    counters: dict[bytes, tuple[int, ...]] = {}
    for line in raw.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] in disks:
            numbers = [integer(field) for field in fields[3 : 3 + len(_FIELDS)]]
            if None not in numbers:
                counters[fields[2]] = tuple(number for number in numbers if number is not None)
    return counters


def _sum(values: Iterable[Value]) -> Value:
    """The sum, missing where there is nothing to add or a part is missing."""
    parts = list(values)
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None
