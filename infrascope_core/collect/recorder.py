"""Recording a command: the sampling loop, the command's life and signals, and the run file that results.

While the command runs, readings are taken at fixed moments (start + k × interval, so that lateness does not
add up) and kept unparsed in a spool. When it has ended they are parsed, one at a time, into a run file that is whole
or not there. A recorder that is killed leaves its spool, from which `recovery` makes the run file.

A reading before the command starts is the base of the first differences; the last, incomplete interval is not
sampled. Sample times are the wall clock at the start plus the monotonic clock since, so they never run back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Literal

from infrascope_core.collect.all_probes import default_probes
from infrascope_core.collect.probe import Probe, ProbeUnavailableError
from infrascope_core.collect.run_file import write_run_file
from infrascope_core.collect.spool import HOST_NAME, Header, Spool
from infrascope_core.errors import CollectError, StorageError
from infrascope_core.run_files.name import RECORDING_SUFFIX

DEFAULT_INTERVAL_S = 0.1
"""Reveal samples at 100 ms (section 5.3)."""
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.01, 3600.0

Phase = Literal["train", "infer"]

_log = logging.getLogger(__name__)
_NAME_CLAIMS = 5
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Recording:
    """What came of a recorded command.

    Attributes
    ----------
    path : Path or None
        The run file; None if the command ended before the first full sample.
    exit_code : int
        The command's exit code; 128 + n if signal n ended it.
    samples : int
        Rows of the file.
    missed_ticks : int
        Sampling moments that passed without a sample, because the recorder was not scheduled in time.
    skipped : tuple of str
        Probes that could not be used, each with the reason.
    elapsed_s, sampling_cpu_s, writing_cpu_s : float
        Time the command ran; CPU seconds of this process while sampling, and while parsing and writing.
    """

    path: Path | None
    exit_code: int
    samples: int
    missed_ticks: int
    skipped: tuple[str, ...]
    elapsed_s: float
    sampling_cpu_s: float
    writing_cpu_s: float


class CommandNotStartedError(CollectError):
    """The command cannot be started; nothing was recorded.

    Attributes
    ----------
    exit_code : int
        What a shell would give: 127 if there is no such command, 126 if it cannot be executed.
    """

    def __init__(self, program: str, error: OSError | ValueError) -> None:
        self.exit_code = 127 if isinstance(error, FileNotFoundError) else 126
        reason = error.strerror if isinstance(error, OSError) else str(error)
        super().__init__(f"command {program!r} cannot be started ({reason})")


class RecordingLostError(CollectError):
    """The command ran to its end, but its readings could not be kept; no file is left.

    Attributes
    ----------
    exit_code : int
        The command's exit code, as in `Recording`.
    """

    def __init__(self, out_dir: Path, reason: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(
            f"{out_dir}: the recording is lost, no file is left ({reason}); "
            f"the command itself ended with exit code {exit_code}"
        )


def record(
    command: Sequence[str],
    *,
    out_dir: Path,
    interval_s: float = DEFAULT_INTERVAL_S,
    model: str,
    task: str,
    dataset: str,
    phase: Phase,
    host: str | None = None,
    probes: Sequence[Probe] | None = None,
) -> Recording:
    """Run a command and record the host until it ends.

    The command inherits standard input, output and error. SIGINT, SIGTERM and SIGHUP end the command, not the
    recorder, which then writes the file; handlers are set only in the main thread, and put back.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    out_dir : Path
        Folder of the run file; made if it is missing.
    interval_s : float
        Seconds between samples.
    model, task, dataset : str
        Parts of the file name, from letters, digits, `.`, `+` and `-`; the task begins with a capital.
    phase : {"train", "infer"}
        First part of the file name.
    host : str, optional
        Host in the file name and in column names (letters, digits, `-`); this host's short name if not given.
    probes : sequence of Probe, optional
        What to sample; `default_probes()` if not given.

    Raises
    ------
    CollectError
        The arguments do not make a file name, the folder cannot be written, or no probe can be used. Nothing is left
        behind.
    CommandNotStartedError
        The command cannot be started. Nothing is left behind.
    RecordingLostError
        The disk filled up (or failed) while recording; raised after the command has ended.
    """
    if not command:
        raise CollectError("no command was given; expected a program and its arguments")
    if not SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise CollectError(
            f"interval {interval_s:g} s is out of range; expected {SHORTEST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:g} s"
        )
    host = _short_host_name() if host is None else host
    _check_name_parts(model=model, task=task, dataset=dataset, phase=phase, host=host)
    prefix = f"{phase}_{model}for{task}_{dataset}"
    with contextlib.ExitStack() as cleanup:
        used, skipped = _start_probes(default_probes() if probes is None else probes, interval_s, cleanup)
        final, spool = _claim_name(out_dir, prefix, host)
        cleanup.callback(spool.close)

        child = _Child()
        cleanup.enter_context(child.signals())
        run = _sample(child, command, used, spool, interval_s, host)
        try:
            if run.fault is not None:
                raise run.fault
            spool.finish()
            cpu_s = time.process_time()
            rows = write_run_file(final, spool, used, run.started, host)
        except (OSError, StorageError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            raise RecordingLostError(out_dir, reason, run.exit_code) from error
        if not rows:
            _log.warning("no file was written: the command ended before the first full sample (%g s)", interval_s)
        return Recording(
            path=final if rows else None,
            exit_code=run.exit_code,
            samples=rows,
            missed_ticks=run.missed_ticks,
            skipped=skipped,
            elapsed_s=run.elapsed_s,
            sampling_cpu_s=run.cpu_s,
            writing_cpu_s=time.process_time() - cpu_s,
        )


# --- names ---

_NAME_PART = re.compile(r"[A-Za-z0-9.+-]+")
_TASK = re.compile(r"[A-Z][A-Za-z0-9.+-]*")
_SEPARATOR = re.compile(r"for[A-Z]")


def _check_name_parts(*, model: str, task: str, dataset: str, phase: str, host: str) -> None:
    """Raise CollectError unless the parts make a file name that can be taken apart again."""
    allowed = "expected letters, digits, `.`, `+` and `-`"
    if phase not in ("train", "infer"):
        raise CollectError(f"phase {phase!r} is unknown; expected train or infer")
    for what, value in (("model", model), ("dataset", dataset)):
        if not _NAME_PART.fullmatch(value):
            raise CollectError(f"{what} {value!r} cannot stand in a file name; {allowed}")
    if not _TASK.fullmatch(task):
        raise CollectError(f"task {task!r} cannot stand in a file name; {allowed}, a capital letter first")
    if not HOST_NAME.fullmatch(host):
        raise CollectError(f"host {host!r} cannot stand in a file name; expected letters, digits and `-`")
    for what, value in (("model", model), ("task", task)):
        if _SEPARATOR.search(value):
            raise CollectError(f"{what} {value!r} holds `for` and a capital letter, which separates model from task")


def _short_host_name() -> str:
    short = socket.gethostname().partition(".")[0]
    return re.sub(r"[^A-Za-z0-9-]+", "-", short).strip("-") or "localhost"


def _claim_name(out_dir: Path, prefix: str, host: str) -> tuple[Path, Spool]:
    """Claim the name of the present second by making its spool; wait for the next one if it is taken."""
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        for _ in range(_NAME_CLAIMS):
            final = out_dir / f"{prefix}_{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}_{host}.txt"
            if not final.exists():
                with contextlib.suppress(FileExistsError):
                    return final, Spool(final.with_name(f".{final.name}{RECORDING_SUFFIX}"))
            time.sleep(1 - time.time() % 1)
    except OSError as error:
        raise CollectError(f"{out_dir}: cannot be written ({error.strerror})") from error
    raise CollectError(f"{out_dir}: {_NAME_CLAIMS} names in a row are taken by other recordings")


# --- the command ---


class _Child:
    """The recorded command as a process, and the signals that are meant for it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def start(self, command: Sequence[str]) -> None:
        """Start the command; raises CommandNotStartedError if that fails."""
        try:
            self._process = subprocess.Popen(command)
        except (OSError, ValueError) as error:
            raise CommandNotStartedError(command[0], error) from error
        for signum in self._early:
            self._process.send_signal(signum)

    def wait(self) -> int:
        """Wait for the end; the exit code, 128 + n if signal n ended it."""
        assert self._process is not None
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def open_pidfd(self) -> int:
        """A file descriptor that becomes readable when the command ends (pidfd_open(2))."""
        assert self._process is not None
        return os.pidfd_open(self._process.pid)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Pass signals on to the command instead of dying of them; those that are ignored stay so."""
        before: dict[signal.Signals, object] = {}
        with contextlib.suppress(ValueError):  # not the main thread
            for signum in _FORWARDED:
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    before[signum] = signal.signal(signum, self._pass_on)
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]

    def _pass_on(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and _in_foreground():
            return  # typed at the terminal, which sends it to the command as well
        if self._process is None:
            self._early.append(signum)
        else:
            self._process.send_signal(signum)  # does nothing once the command has been waited for


def _in_foreground() -> bool:
    """Whether this process belongs to its terminal's foreground group, so that Ctrl-C reaches all of it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


# --- sampling ---


@dataclass(frozen=True)
class _Run:
    started: datetime
    exit_code: int
    missed_ticks: int
    elapsed_s: float
    cpu_s: float
    fault: OSError | None


def _start_probes(
    probes: Sequence[Probe], interval_s: float, cleanup: contextlib.ExitStack
) -> tuple[list[Probe], tuple[str, ...]]:
    """Start what can be started; one log line for each that cannot."""
    used, skipped = [], []
    for probe in probes:
        try:
            probe.start(interval_s)
        except ProbeUnavailableError as error:
            skipped.append(f"{probe.name}: {error}")
            _log.warning("probe skipped: %s", skipped[-1])
        else:
            cleanup.callback(probe.stop)
            used.append(probe)
    if not used:
        raise CollectError(f"nothing to sample on this host: {'; '.join(skipped)}")
    return used, tuple(skipped)


def _sample(  # noqa: PLR0917 - all of them are one recording's
    child: _Child, command: Sequence[str], probes: Sequence[Probe], spool: Spool, interval_s: float, host: str
) -> _Run:
    """Run the command and fill the spool; a full disk ends the sampling, not the command."""
    reads: list[Callable[[], bytes]] = [probe.sample for probe in probes]
    cpu_s = time.process_time()
    began = time.monotonic()
    started = datetime.now(UTC).replace(tzinfo=None)
    base = [read() for read in reads]
    child.start(command)
    pidfd = child.open_pidfd()
    tick = missed = 0
    fault: OSError | None = None
    try:
        spool.begin(Header(started, host, tuple((probe.name, probe.state()) for probe in probes)))
        spool.append(0.0, base)
        while not _ended(pidfd, began + (tick + 1) * interval_s):
            at_s = time.monotonic() - began
            due = max(tick + 1, int(at_s / interval_s))
            missed += due - tick - 1
            tick = due
            spool.append(at_s, [read() for read in reads])
    except OSError as error:
        fault = error
        spool.close()  # gives the room back to the command
    finally:
        os.close(pidfd)
        exit_code = child.wait()
    for probe in probes:
        probe.stop()
    return _Run(started, exit_code, missed, time.monotonic() - began, time.process_time() - cpu_s, fault)


def _ended(pidfd: int, until: float) -> bool:
    """Wait for the command's end, at most until a moment of the monotonic clock; True if it has ended."""
    ready, _, _ = select.select([pidfd], [], [], max(0.0, until - time.monotonic()))
    return bool(ready)
