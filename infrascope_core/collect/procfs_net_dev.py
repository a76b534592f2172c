"""Network interfaces from /proc/net/dev (proc(5)), loopback included: local traffic shows only there.

NetworkUtilization is the busier direction's bits over what the link can carry in the time since the previous
sample; only where sysfs knows the link's speed (virtual interfaces mostly say -1 or nothing).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from infrascope_core.collect.probe import Column, CounterReader, FileProbe, RowReader, Value, integer

_SOURCE = "NetworkInterStat_diff"
_FIELDS = (
    "rx_bytes rx_packets rx_errs rx_drop rx_fifo rx_frame rx_compressed rx_multicast "
    "tx_bytes tx_packets tx_errs tx_drop tx_fifo tx_colls tx_carrier tx_compressed"
).split()
_INTERFACE_IS_UP = 0x1
"""IFF_UP of netdevice(7)."""


class NetDevProbe(FileProbe):
    """Probe of /proc/net/dev.

    The interfaces that are up when the recording starts are recorded; one that is down has nothing to say.
    """

    def __init__(self, path: Path = Path("/proc/net/dev"), interfaces: Path = Path("/sys/class/net")) -> None:
        super().__init__("/proc/net/dev", path)
        self._interfaces = interfaces
        self._down: frozenset[str] = frozenset()
        self._speeds: dict[str, int] = {}

    def start(self, interval_s: float) -> None:
        """Open the file and ask sysfs which interfaces are up and how fast their links are."""
        super().start(interval_s)
        down = set()
        for interface in self._interfaces.glob("*/"):
            flags = _text(interface / "flags")
            if re.fullmatch(r"0x[0-9a-fA-F]+", flags) and not int(flags, 16) & _INTERFACE_IS_UP:
                down.add(interface.name)
            speed = _text(interface / "speed")
            if speed.isdecimal() and int(speed) > 0:
                self._speeds[interface.name] = int(speed)
        self._down = frozenset(down)

    def state(self) -> dict[str, Any]:
        """Interfaces that are down, and the speeds of the others."""
        return {"down": sorted(self._down), "speeds_mbit": self._speeds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Interfaces that are down, and the speeds of the others."""
        self._down = frozenset(map(str, state["down"]))
        self._speeds = {str(name): int(speed) for name, speed in dict(state["speeds_mbit"]).items()}

    def reader(self, base: bytes) -> RowReader:
        """Differences from `base` on."""
        return NetDevReader(base, down=self._down, speeds_mbit=self._speeds)


class NetDevReader:
    """Rows of counter differences per interface and, where the speed is known, the link's utilization."""

    def __init__(self, base: bytes, *, down: Collection[str], speeds_mbit: Mapping[str, int]) -> None:
        self._counters = CounterReader(base, partial(parse, down=down))
        counted = self._counters.columns
        place = {(column.instance, column.metric): index for index, column in enumerate(counted)}
        self._links = [
            (place[name, "rx_bytes"], place[name, "tx_bytes"], speed)
            for name, speed in speeds_mbit.items()
            if (name, "rx_bytes") in place
        ]
        self._columns = (
            *counted,
            *(
                Column(_SOURCE, "NetworkUtilization", counted[rx].instance, "%", difference=True)
                for rx, _, _ in self._links
            ),
        )
        self._last_s = 0.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """Counters of the interfaces of the first reading, then utilizations."""
        return self._columns

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column."""
        values = self._counters.row(raw, at_s)
        elapsed_s, self._last_s = at_s - self._last_s, at_s
        for rx, tx, speed_mbit in self._links:
            received, sent = values[rx], values[tx]
            if received is None or sent is None or elapsed_s <= 0:
                values.append(None)
            else:
                values.append(100 * max(received, sent) * 8 / (speed_mbit * 1e6 * elapsed_s))
        return values


def parse(raw: bytes, *, down: Collection[str] = ()) -> dict[Column, float | int]:
    """Counters per interface that is not in `down`."""
    values: dict[Column, float | int] = {}
    for line in raw.splitlines()[2:]:
        name, _, rest = line.rpartition(b":")
        interface = re.sub(r"[^\w.@:-]", "_", name.strip().decode("utf-8", "replace"))
        numbers = [integer(field) for field in rest.split()]
        if not interface or interface in down or len(numbers) != len(_FIELDS):
            continue
        for metric, number in zip(_FIELDS, numbers, strict=True):
            if number is not None:
                unit = "Bytes" if metric.endswith("bytes") else "count"
                values[Column(_SOURCE, metric, interface, unit, difference=True)] = number
    return values


def _text(path: Path) -> str:
    """The file's text; empty where there is none (reading `speed` of some interfaces is an error)."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
