"""Probes that are programs of their own (nvidia-smi, perf, turbostat): started once, printing as they go.

What they print is taken from their pipe at every tick and stored; after the run it is parsed line by line. A
tick shows the last value printed at or before it, and none once that is older than a few intervals.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from infrascope_core.collect.probe import Column, ProbeUnavailableError, RowReader, Value

_FRESH_INTERVALS = 5
_FRESH_AT_LEAST_S = 0.5
_TRIAL_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 2.0
_READ_BYTES = 1 << 16
_READS_A_TICK = 16
_LONGEST_LINE_BYTES = 1 << 16

ParseLine = Callable[[str], Iterable[tuple[Column, Value]]]
"""Maps one printed line to the values in it; a value that does not read as a number is given as None."""


def find_program(name: str) -> str:
    """The path of a program; raises ProbeUnavailableError where PATH has none."""
    path = shutil.which(name)
    if path is None:
        raise ProbeUnavailableError(f"{name} is not installed")
    return path


def try_out(command: Sequence[str]) -> str:
    """Standard output and error of a short run in the C locale; raises ProbeUnavailableError if it fails."""
    try:
        done = subprocess.run(
            ["env", "LC_ALL=C", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeUnavailableError(f"{command[0]} cannot be run ({error})") from error
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        printed = " ".join(text.split())[:200] or "nothing"
        raise ProbeUnavailableError(f"{command[0]} ended with code {done.returncode}; it printed: {printed}")
    return text


class ProgramStream:
    """A program whose output is read without ever waiting for it.

    It runs in a process group of its own, so that Ctrl-C ends the recorded command and not the probe.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str]) -> None:
        """Start the program in the C locale; raises ProbeUnavailableError if that fails."""
        try:
            self._process = subprocess.Popen(
                ["env", "LC_ALL=C", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            raise ProbeUnavailableError(f"{command[0]} cannot be run ({error.strerror})") from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def sample(self) -> bytes:
        """What it has printed since the last call, at most 1 MiB; empty once it has ended."""
        if self._process is None or self._process.stdout is None:
            return b""
        parts = []
        for _ in range(_READS_A_TICK):
            try:
                part = os.read(self._process.stdout.fileno(), _READ_BYTES)
            except OSError:  # BlockingIOError: nothing more at this moment
                break
            parts.append(part)
            if len(part) < _READ_BYTES:
                break
        return b"".join(parts)

    def stop(self) -> None:
        """End the program."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


class StreamProbe:
    """A program as a probe.

    `prepare` gets the sampling interval in seconds and returns the command, the columns, and the function
    that parses one line; it raises ProbeUnavailableError where the program is absent or may not be used. `parser`
    gives that function for known columns, where the program need not be.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[float], tuple[Sequence[str], Sequence[Column], ParseLine]],
        parser: Callable[[Sequence[Column]], ParseLine],
    ) -> None:
        self.name = name
        self._prepare = prepare
        self._parser = parser
        self._stream = ProgramStream()
        self._columns: tuple[Column, ...] = ()
        self._parse: ParseLine | None = None
        self._interval_s = 0.0

    def start(self, interval_s: float) -> None:
        """Find out what the program can measure here, and start it."""
        command, columns, self._parse = self._prepare(interval_s)
        self._columns = tuple(dict.fromkeys(columns))
        if not self._columns:
            raise ProbeUnavailableError(f"{self.name} finds nothing to read on this host")
        self._interval_s = interval_s
        self._stream.start(command)

    def sample(self) -> bytes:
        """What was printed since the last sample."""
        return self._stream.sample()

    def stop(self) -> None:
        """End the program."""
        self._stream.stop()

    def state(self) -> dict[str, Any]:
        """The columns, and how often the program prints."""
        return {"columns": self._columns, "interval_s": self._interval_s}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The columns, and how often the program prints."""
        self._columns = tuple(
            Column(str(source), str(metric), str(instance), str(unit), bool(difference))
            for source, metric, instance, unit, difference in state["columns"]
        )
        self._interval_s = float(state["interval_s"])
        self._parse = self._parser(self._columns)

    def reader(self, base: bytes) -> RowReader:
        """Last values at or before each tick."""
        assert self._parse is not None, "started before it is read"
        fresh_s = max(_FRESH_AT_LEAST_S, _FRESH_INTERVALS * self._interval_s)
        return StreamReader(base, self._columns, self._parse, fresh_s=fresh_s)


class StreamReader:
    """Rows of the last printed values; one older than `fresh_s` seconds is missing."""

    def __init__(self, base: bytes, columns: tuple[Column, ...], parse: ParseLine, *, fresh_s: float) -> None:
        self._columns = columns
        self._parse = parse
        self._fresh_s = fresh_s
        self._tail = b""
        self._latest: dict[Column, tuple[float, Value]] = {}
        self._take(base, 0.0)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns the program was found to have."""
        return self._columns

    def row(self, raw: bytes, at_s: float) -> list[Value]:
        """One value per column."""
        self._take(raw, at_s)
        oldest = at_s - self._fresh_s
        never = (oldest - 1, None)
        latest = (self._latest.get(column, never) for column in self._columns)
        return [value if when >= oldest else None for when, value in latest]

    def _take(self, raw: bytes, at_s: float) -> None:
        *lines, self._tail = (self._tail + raw).split(b"\n")
        self._tail = self._tail[:_LONGEST_LINE_BYTES]
        for line in lines:
            for column, value in self._parse(line.decode("utf-8", "replace").rstrip("\r")):
                self._latest[column] = (at_s, value)


def number(text: str) -> Value:
    """The plain decimal number in `text`; None for `N/A`, `[Not Supported]`, `<not counted>`, nan, inf."""
    text = text.strip()
    digits = text.removeprefix("-").replace(".", "", 1)
    if len(text) > 40 or not (digits.isascii() and digits.isdecimal()):
        return None
    return float(text) if "." in text else int(text)
