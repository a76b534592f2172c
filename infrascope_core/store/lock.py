"""One writer at a time: advisory locks on files, which the system takes back when their holder dies."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from infrascope_core.errors import InfraScopeError


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if there is none; waits for whoever holds it.

    The lock belongs to the open file (flock(2)): it excludes threads of this process as well as other processes, and a
    process that is killed holds it no longer.

    Raises
    ------
    InfraScopeError
        The file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise InfraScopeError(f"{path}: cannot be written ({error.strerror or error})") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
