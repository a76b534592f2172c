"""Recordings that were cut off (the recorder was killed, the machine went down) become run files after all."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infrascope_core.collect.all_probes import default_probes
from infrascope_core.collect.probe import Probe
from infrascope_core.collect.run_file import write_run_file
from infrascope_core.collect.spool import Header, NotARecordingError, read_recording
from infrascope_core.errors import CollectError, InfraScopeError
from infrascope_core.run_files.name import RECORDING_SUFFIX, is_recording
from infrascope_core.store.atomic import leftovers


@dataclass(frozen=True)
class Recovered:
    """What came of a recording that was cut off.

    Attributes
    ----------
    recording : Path
        The recording, which is gone.
    path : Path or None
        The run file; None if it was cut off before the first full sample.
    samples : int
        Rows of the file.
    """

    recording: Path
    path: Path | None
    samples: int


def recover(recording: Path, probes: Sequence[Probe] | None = None) -> Recovered | None:
    """Make a run file of what a recording holds up to where it was cut off, and remove the recording.

    Parameters
    ----------
    recording : Path
        `.STEM.txt.recording`.
    probes : sequence of Probe, optional
        Those that may have recorded, not started; `default_probes()` if not given.

    Returns
    -------
    Recovered or None
        None if the recording is going on, or if somebody else recovers it.

    Raises
    ------
    CollectError
        It cannot be opened, or is damaged from its beginning; it stays.
    StorageError
        There is no room for the run file; the recording stays.
    """
    try:
        descriptor = os.open(recording, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CollectError(f"{recording}: cannot be opened ({error.strerror})") from error
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CollectError(f"{recording}: not a regular file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        final = recording.with_name(recording.name.removeprefix(".").removesuffix(RECORDING_SUFFIX))
        rows = 0
        if not final.exists():  # else it was written to its end, and only the recording was not removed any more
            try:
                header, readings = read_recording(file)
                rows = write_run_file(final, readings, _restored(header, probes), header.started, header.host)
            except InfraScopeError:
                raise
            except (NotARecordingError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
                raise CollectError(f"{recording}: cannot be recovered ({error})") from error
        for leftover in leftovers(final):  # killed while it wrote
            leftover.unlink(missing_ok=True)
        recording.unlink(missing_ok=True)
    return Recovered(recording, final if rows or final.exists() else None, rows)


def recover_all(folder: Path, probes: Sequence[Probe] | None = None) -> list[Recovered | CollectError]:
    """Recover all recordings of a folder that were cut off.

    Returns
    -------
    list of Recovered or CollectError
        What came of each, or why it cannot be recovered; those that are going on are left out.
    """
    found: list[Recovered | CollectError] = []
    for recording in sorted(path for path in folder.glob(f".*{RECORDING_SUFFIX}") if is_recording(path)):
        try:
            recovered = recover(recording, probes)
        except InfraScopeError as error:
            found.append(CollectError(str(error)))
        else:
            found += [recovered] if recovered else []
    return found


def _restored(header: Header, probes: Sequence[Probe] | None) -> list[Probe]:
    known = {probe.name: probe for probe in (default_probes() if probes is None else probes)}
    used = []
    for name, state in header.probes:
        if name not in known:
            raise ValueError(f"this version has no probe {name!r}")
        known[name].restore(state)
        used.append(known[name])
    return used
