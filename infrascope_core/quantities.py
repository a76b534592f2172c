"""Quantities as people read them: `24.1 GB`, `506 MB/s`, `28.3 %`, `1,204`."""

from __future__ import annotations

from collections.abc import Mapping

_BYTES: Mapping[str, float] = {
    "bytes": 1.0, "b": 1.0, "kb": 1024.0, "kib": 1024.0, "mb": 1024.0**2, "mib": 1024.0**2, "gb": 1024.0**3,
    "gib": 1024.0**3,
}  # fmt: skip
"""The kernel's and NVML's kB and MB are 1024 and 1024 * 1024 bytes."""
_LARGER = ((1024.0**4, "TB"), (1024.0**3, "GB"), (1024.0**2, "MB"), (1024.0, "kB"))
_SILENT = frozenset({"", "-", "count"})
_THOUSANDS = 1e4


def quantity(value: float, unit: str) -> str:
    """A value with its unit, in a magnitude that suits it.

    Parameters
    ----------
    value : float
        In the unit.
    unit : str
        As the column has it, without brackets; `count`, `-` and nothing are not shown.
    """
    base, slash, per = unit.partition("/")
    if base.lower() in _BYTES:
        value *= _BYTES[base.lower()]
        size, name = next(((size, name) for size, name in _LARGER if abs(value) >= size), (1.0, "B"))
        return f"{_number(value / size)} {name}{slash}{per}"
    shown = "" if base in _SILENT else f" {base}"
    return f"{_number(value)}{shown}{slash}{per}"


def _number(value: float) -> str:
    if abs(value) >= _THOUSANDS and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value + 0.0:.3g}" if abs(value) < 1000 else f"{value:.0f}"
