"""Pressure stall information from /proc/pressure (kernel: accounting/psi.rst).

`some` is time in which at least one task waited for the resource, `full` time in which all did. `total` is a
counter in microseconds; `avg10` is the kernel's own ten-second average, renewed every two seconds.
"""

from __future__ import annotations

from pathlib import Path

from infrascope_core.collect.probe import FILE_SEPARATOR, Column, TextProbe, integer

_RESOURCES = ("cpu", "memory", "io")


def pressure_probe(folder: Path = Path("/proc/pressure")) -> TextProbe:
    """Probe of /proc/pressure/cpu, memory and io."""
    return TextProbe("/proc/pressure", [folder / resource for resource in _RESOURCES], parse)


def parse(raw: bytes) -> dict[Column, float | int]:
    """Averages in per cent and totals in microseconds, per resource, some and full."""
    values: dict[Column, float | int] = {}
    for resource, text in zip(_RESOURCES, raw.split(FILE_SEPARATOR), strict=False):
        for line in text.splitlines():
            kind, _, averages = line.decode("ascii", "replace").partition(" ")
            for key, _, number in (pair.partition("=") for pair in averages.split()):
                if key == "avg10" and number.replace(".", "", 1).isdecimal():
                    values[Column("Pressure", f"{resource}_{kind}_avg10", "", "%")] = float(number)
                elif key == "total" and (total := integer(number.encode())) is not None:
                    column = Column("Pressure_diff", f"{resource}_{kind}_total", "", "us", difference=True)
                    values[column] = total
    return values
