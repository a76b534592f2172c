"""CPU time, interrupts, context switches and process counts from /proc/stat (proc(5)).

Utilization is the share of a core's time that was neither idle nor waiting for I/O since the previous sample.
The kernel counts in ticks of 1/100 s, so at 100 ms one core's utilization moves in steps of about 10 %. The
recorder itself is one of the running processes at every sample.
"""

from __future__ import annotations

from pathlib import Path

from infrascope_core.collect.probe import Column, FileProbe, RowReader, Value, difference, integer

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Fields of a cpu line that add up to its whole time; guest time is part of user and nice already."""
_IDLE, _IOWAIT = _STATES.index("idle"), _STATES.index("iowait")
_SHOWN_STATES = tuple(state for state in _STATES if state != "idle")
_COUNTERS = {
    b"intr": Column("Interrupts_diff", "total", "", "count", difference=True),
    b"softirq": Column("Interrupts_diff", "softirqs", "", "count", difference=True),
    b"ctxt": Column("ContextSwitches_diff", "total", "", "count", difference=True),
    b"processes": Column("Processes_diff", "forks", "", "count", difference=True),
    b"procs_running": Column("Processes", "running", "", "count"),
    b"procs_blocked": Column("Processes", "blocked", "", "count"),
}


class StatProbe(FileProbe):
    """Probe of /proc/stat."""

    def __init__(self, path: Path = Path("/proc/stat")) -> None:
        super().__init__("/proc/stat", path)

    def reader(self, base: bytes) -> RowReader:
        """Utilizations and counters from `base` on."""
        return StatReader(base)


class StatReader:
    """Rows of utilization per core and on average, shares of CPU states, and the kernel's event counters."""

    def __init__(self, base: bytes) -> None:
        self._times, self._counters = _parse(base)
        self._cores = tuple(cpu for cpu in self._times if cpu != b"cpu")
        self._counted = tuple(key for key in _COUNTERS if key in self._counters)
        whole = b"cpu" in self._times
        self._columns = (
            *(Column("CPU", f"CPU{cpu[3:].decode()}Utilization", "", "%") for cpu in self._cores),
            *((Column("", "AverageCPUUtilization", "", "%"),) if whole else ()),
            *((Column("CPU", state, "", "%") for state in _SHOWN_STATES) if whole else ()),
            *(_COUNTERS[key] for key in self._counted),
        )
        self._whole = whole

    @property
    def columns(self) -> tuple[Column, ...]:
        """CPU columns of the cores online at the first reading, then the counters."""
        return self._columns

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column, shares in per cent."""
        times, counters = _parse(raw)
        old_times, self._times = self._times, times
        old_counters, self._counters = self._counters, counters
        values = [_utilization(_spent(old_times.get(cpu), times.get(cpu))) for cpu in self._cores]
        if self._whole:
            spent = _spent(old_times.get(b"cpu"), times.get(b"cpu"))
            values.append(_utilization(spent))
            total = sum(spent) if spent else 0
            values += [
                100 * part / total if spent and total else None
                for state, part in zip(_STATES, spent or (0,) * len(_STATES), strict=True)
                if state != "idle"
            ]
        for key in self._counted:
            now = counters.get(key)
            values.append(difference(old_counters.get(key), now) if _COUNTERS[key].difference else now)
        return values


def _parse(raw: bytes) -> tuple[dict[bytes, tuple[int, ...]], dict[bytes, int]]:
    """Times per cpu line, in ticks, and the first number of the other lines that are wanted."""
    times: dict[bytes, tuple[int, ...]] = {}
    counters: dict[bytes, int] = {}
    for line in raw.splitlines():
        if line.startswith(b"cpu"):
            name, *fields = line.split()
            numbers = [integer(field) for field in fields[: len(_STATES)]]
            ticks = tuple(number for number in numbers if number is not None)
            if len(ticks) == len(_STATES):
                times[name] = ticks
        else:
            head = line.split(None, 2)  # the intr line holds thousands of fields; only the first is its sum
            if len(head) > 1 and head[0] in _COUNTERS and (number := integer(head[1])) is not None:
                counters[head[0]] = number
    return times, counters


def _spent(before: tuple[int, ...] | None, now: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Ticks per state since the previous sample; None where a counter was reset or a core was away.

    idle and iowait may step back a little (proc(5) says so of iowait); such a step counts as no time.
    """
    if before is None or now is None:
        return None
    spent = [after - earlier for earlier, after in zip(before, now, strict=True)]
    for state in (_IDLE, _IOWAIT):
        spent[state] = max(0, spent[state])
    return None if min(spent) < 0 else tuple(spent)


def _utilization(spent: tuple[int, ...] | None) -> Value:
    if spent is None or not (total := sum(spent)):
        return None
    return 100 * (total - spent[_IDLE] - spent[_IOWAIT]) / total
