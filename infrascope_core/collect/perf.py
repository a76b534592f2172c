"""Hardware counters of all cores through `perf stat` (perf-stat(1), "CSV FORMAT" and `-I`).

perf prints what was counted in each interval, so the values are differences already. Which events there are
depends on the processor and, in a virtual machine, on its host; a trial run finds out. Without the right to
count system-wide (root, CAP_PERFMON, or perf_event_paranoid at 0 or below) the trial fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infrascope_core.collect.probe import Column, ProbeUnavailableError, RowReader, Value
from infrascope_core.collect.stream import ParseLine, StreamProbe, find_program, number, try_out

_EVENTS = {
    "branches": Column("Perf", "Branches", "", "count"),
    "branch-misses": Column("Perf", "Branch_Misses", "", "count"),
    "cache-misses": Column("Perf", "Cache_Misses", "", "count"),
    "cache-references": Column("Perf", "Cache_References", "", "count"),
    "cycles": Column("Perf", "Cycles", "", "count"),
    "instructions": Column("Perf", "Instructions", "", "count"),
    "stalled-cycles-backend": Column("Perf", "Stalled_cycles_backend", "", "count"),
}
_RATIOS = (
    (Column("Perf", "IPC", "", "-"), "instructions", "cycles", 1),
    (Column("Perf", "StallRatio", "", "%"), "stalled-cycles-backend", "cycles", 100),
)
"""Column, numerator, denominator, scale. IPC is instructions per cycle."""

_SHORTEST_INTERVAL_MS = 10
_TIME, _COUNT, _EVENT = 0, 1, 3


class PerfProbe(StreamProbe):
    """Probe of the events and of the ratios that follow from them."""

    def __init__(self) -> None:
        super().__init__("perf stat", prepare, lambda columns: parse_line)

    def reader(self, base: bytes) -> RowReader:
        """Events as printed, then ratios."""
        return PerfReader(super().reader(base))


class PerfReader:
    """Rows of the events, with the ratios of those the row has."""

    def __init__(self, events: RowReader) -> None:
        self._events = events
        self._place = {column: place for place, column in enumerate(events.columns)}
        self._ratios = [
            (column, self._place[_EVENTS[above]], self._place[_EVENTS[below]], scale)
            for column, above, below, scale in _RATIOS
            if _EVENTS[above] in self._place and _EVENTS[below] in self._place
        ]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Events, then ratios."""
        return (*self._events.columns, *(column for column, *_ in self._ratios))

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column."""
        values = self._events.row(raw, at_s)
        for _, above, below, scale in self._ratios:
            numerator, denominator = values[above], values[below]
            known = numerator is not None and denominator
            values.append(scale * numerator / denominator if known else None)  # type: ignore[operator]
        return values


def prepare(interval_s: float) -> tuple[Sequence[str], Sequence[Column], ParseLine]:
    """The command, the events that count here, and the parser of one line."""
    program = find_program("perf")
    count = [program, "stat", "-x", ";", "-a", "-e", ",".join(_EVENTS)]
    printed = try_out([*count, "-I", str(_SHORTEST_INTERVAL_MS), "sleep", "0.05"])
    counted = dict(pair for line in printed.splitlines() for pair in parse_line(line) if pair[1] is not None)
    if not counted:
        raise ProbeUnavailableError("perf stat finds no hardware counters that may be used on this host")
    columns = [column for column in _EVENTS.values() if column in counted]
    milliseconds = max(_SHORTEST_INTERVAL_MS, round(1000 * interval_s))
    return [*count, "-I", str(milliseconds)], columns, parse_line


def parse_line(line: str) -> Iterator[tuple[Column, Value]]:
    """The count on one line of `-I -x ;` output; `<not supported>` and `<not counted>` are missing."""
    fields = line.split(";")
    if len(fields) > _EVENT and number(fields[_TIME]) is not None:
        event = fields[_EVENT].partition(":")[0].strip()
        if event in _EVENTS:
            yield _EVENTS[event], number(fields[_COUNT])
