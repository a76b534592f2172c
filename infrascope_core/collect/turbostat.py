"""Core frequencies, sleep states, temperatures and power through `turbostat` (turbostat(8)).

turbostat prints tables: a line of names, a line for the whole system (Core and CPU are `-`), then a line per
CPU. Values that belong to a core or a package stand only in the line of its first CPU.
It needs root and the msr device, which virtual machines rarely have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from infrascope_core.collect.probe import Column, ProbeUnavailableError, Value
from infrascope_core.collect.stream import ParseLine, StreamProbe, find_program, number, try_out

_PLACES = ("Package", "Die", "Node", "Core", "CPU")
_LEFT_OUT = frozenset((*_PLACES, "APIC", "X2APIC", "usec", "Time_Of_Day_Seconds"))
_PACKAGE_PREFIXES = (
    "Pkg",
    "PKG_",
    "RAM",
    "GFX",
    "Totl%",
    "Any%",
    "CPUGFX%",
    "Cor_J",
    "SysWatt",
    "UncMHz",
)
_WHOLE = "-"
_NAME = re.compile(r"[A-Za-z][\w%+/-]*")


def turbostat_probe() -> StreamProbe:
    """Probe of all CPUs and packages that turbostat lists."""
    return StreamProbe("turbostat", prepare, lambda columns: TableParser().parse_line)


def prepare(interval_s: float) -> tuple[Sequence[str], Sequence[Column], ParseLine]:
    """The command, the columns of a trial table, and the parser of one line."""
    program = find_program("turbostat")
    if os.geteuid() != 0:
        raise ProbeUnavailableError("turbostat needs root")
    command = [program, "--quiet", "--interval", f"{max(0.01, interval_s):g}"]
    printed = try_out([*command, "--num_iterations", "1"])
    table = TableParser()
    columns = [column for line in printed.splitlines() for column, _ in table.parse_line(line)]
    return command, columns, TableParser().parse_line


class TableParser:
    """Parses lines of tables; remembers the names that stand above."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def parse_line(self, line: str) -> Iterator[tuple[Column, Value]]:
        """The cells of a CPU's line or of the system's line; any other line gives none."""
        cells = [cell.strip() for cell in line.split("\t")]
        if "CPU" in cells or "Busy%" in cells:
            self._names = cells
            return
        if len(cells) > len(self._names):
            return
        row = dict(zip(self._names, cells, strict=False))
        cpu = row.get("CPU", _WHOLE)
        if cpu != _WHOLE and not cpu.isdecimal():
            return
        package = row.get("Package", "0")
        for name, cell in row.items():
            if name in _LEFT_OUT or not cell or not _NAME.fullmatch(name):
                continue
            of_package = name.startswith(_PACKAGE_PREFIXES)
            if of_package and (cpu == _WHOLE or not package.isdecimal()):
                continue
            instance = package if of_package else cpu
            yield Column("Turbostat", name, instance, _unit(name)), number(cell)


def _unit(name: str) -> str:
    if "%" in name:
        return "%"
    for ending, unit in (("MHz", "MHz"), ("Watt", "W"), ("Tmp", "C"), ("_J", "J"), ("mV", "mV")):
        if name.endswith(ending):
            return unit
    return "-" if name == "IPC" else "count"
