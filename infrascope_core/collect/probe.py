"""What every probe is: where it reads, what it stores during the run, how that becomes numbers afterwards.

What belongs here: the protocol and the small types that all probes share. One source of data is one file
beside this one; the loop that samples them is `recorder.py`.

A probe reads first and parses after the run. `sample()` returns raw bytes; after the run, `reader(base)`
fixes the columns from the first reading and turns the later ones into rows. Missing stays `None`, never 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Value = float | int | None
"""A sampled value; None is missing."""

FILE_SEPARATOR = b"\x00"
"""Between the texts of a probe that reads several files; NUL does not occur in procfs text."""

_READ_BYTES = 1 << 16


class ProbeUnavailableError(Exception):
    """A probe cannot be used on this host; the message says why. The recorder logs it and goes on without."""


class Column(NamedTuple):
    """One column of a run file, without the host (docs/format.md: `Source:metric[.instance].host[unit]`).

    `difference` says that the text holds a counter and the file its difference to the previous sample.
    """

    source: str
    metric: str
    instance: str
    unit: str
    difference: bool = False

    def render(self, host: str) -> str:
        """The column's full name on `host`."""
        source = f"{self.source}:" if self.source else ""
        instance = f".{self.instance}" if self.instance else ""
        return f"{source}{self.metric}{instance}.{host}[{self.unit}]"


class RowReader(Protocol):
    """Turns the readings of one probe, in order, into rows."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, fixed by the first reading."""
        ...

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column for the reading taken `at_s` seconds after the first."""
        ...


class Probe(Protocol):
    """One source of data on the host."""

    @property
    def name(self) -> str:
        """The probe's name in log lines."""
        ...

    def start(self, interval_s: float) -> None:
        """Open what is needed; raises ProbeUnavailableError where the source is absent or not permitted."""
        ...

    def sample(self) -> bytes:
        """Read now, without parsing; empty if the source cannot be read at this moment."""
        ...

    def stop(self) -> None:
        """Close everything; may be called twice."""
        ...

    def state(self) -> dict[str, Any]:
        """What `start` found out and `reader` needs, as JSON can hold it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over such a state instead of being started; raises ValueError, TypeError or KeyError if it is none."""
        ...

    def reader(self, base: bytes) -> RowReader:
        """A reader whose differences start from `base`, the reading before the first row."""
        ...


class ProcFiles:
    """Files of procfs, opened once and read from their start at every sample (proc(5)).

    A seq_file hands out about a page per call, so one reading is as many calls as it takes to reach the end.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._fds: list[int] = []

    def start(self) -> None:
        """Open and read all once; raises ProbeUnavailableError naming the first file that fails."""
        for path in self._paths:
            try:
                self._fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                _read_whole(self._fds[-1])
            except OSError as error:
                self.stop()
                raise ProbeUnavailableError(f"{path} cannot be read ({error.strerror})") from error

    def sample(self) -> bytes:
        """The files' texts, one after another, with FILE_SEPARATOR between; a failed file's text is empty."""
        return FILE_SEPARATOR.join(_read_whole_or_nothing(fd) for fd in self._fds)

    def stop(self) -> None:
        """Close all."""
        while self._fds:
            os.close(self._fds.pop())


class FileProbe:
    """What the probes that read files of procfs share: opening, reading and closing them."""

    def __init__(self, name: str, *paths: Path) -> None:
        self.name = name
        self._files = ProcFiles(*paths)

    def start(self, interval_s: float) -> None:
        """Open the files."""
        self._files.start()

    def sample(self) -> bytes:
        """Read the files."""
        return self._files.sample()

    def stop(self) -> None:
        """Close the files."""
        self._files.stop()

    def state(self) -> dict[str, Any]:
        """Nothing: the texts say all."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing to take over."""


class TextProbe(FileProbe):
    """A probe whose reading is text of procfs and whose values are gauges and counters found by one function.

    `parse` maps a reading to values; a counter's column has `difference` set. Text that does not read as
    documented gives no value for that column.
    """

    def __init__(
        self, name: str, paths: Iterable[Path], parse: Callable[[bytes], Mapping[Column, float | int]]
    ) -> None:
        super().__init__(name, *paths)
        self._parse = parse

    def reader(self, base: bytes) -> RowReader:
        """Gauges as they come, counters as differences."""
        return CounterReader(base, self._parse)


class CounterReader:
    """Rows of gauges and of differences of counters.

    A counter that runs backwards (reset, wrap, device replaced) or that one of the two readings lacks gives a
    missing value.
    """

    def __init__(self, base: bytes, parse: Callable[[bytes], Mapping[Column, float | int]]) -> None:
        self._parse = parse
        self._previous = parse(base)
        self._columns = tuple(self._previous)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the first reading, in its order."""
        return self._columns

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column."""
        now = self._parse(raw)
        before, self._previous = self._previous, now
        return [
            difference(before.get(column), now.get(column)) if column.difference else now.get(column)
            for column in self._columns
        ]


def difference(before: float | int | None, now: float | int | None) -> Value:
    """`now - before`; missing where one is missing or the counter ran backwards."""
    if before is None or now is None or now < before:
        return None
    return now - before


def integer(text: bytes) -> int | None:
    """The number a field holds; None where it is not a plain decimal of at most 20 digits (64 bits)."""
    return int(text) if text.isdigit() and len(text) <= 20 else None


def _read_whole(fd: int) -> bytes:
    parts = []
    offset = 0
    while part := os.pread(fd, _READ_BYTES, offset):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_whole_or_nothing(fd: int) -> bytes:
    try:
        return _read_whole(fd)
    except OSError:
        return b""
