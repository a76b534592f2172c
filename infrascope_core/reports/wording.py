"""Numbers, lists and moments in words, as reports and summaries write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from infrascope_core.errors import printable as printable  # noqa: PLC0414 - words of reports, as the others here


def count(n: int, noun: str) -> str:
    """`1 window`, `1,200 windows`."""
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def named(names: Sequence[str], most: int) -> str:
    """The first names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def moment(with_day: bool, time: datetime | None) -> str | None:
    """A time of day, with its date where a run spans several days."""
    return None if time is None else f"{time:%Y-%m-%d %H:%M:%S}" if with_day else f"{time:%H:%M:%S}"


def duration(length: timedelta) -> str:
    """A length of time in the unit that suits it: `0.5 s`, `45 s`, `3.9 min`, `2.1 h`, `4.5 d`."""
    seconds = length.total_seconds()
    if round(seconds) < 60:
        return f"{seconds:.0f} s" if seconds == 0 or seconds >= 10 else f"{seconds:.2g} s"
    for size, unit, most in ((60, "min", 60), (3600, "h", 48)):
        if round(seconds / size, 1) < most:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86400:,.1f} d"
