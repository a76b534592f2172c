"""One writer at a time: advisory locks on files, which the system takes back when their holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from infrascope_core.store.atomic import cannot_write


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file, which is made if there is none; waits for whoever holds it.

    The lock belongs to the open file (flock(2)): it excludes threads of this process as well as other processes, and a
    process that is killed holds it no longer.

    Parameters
    ----------
    path : Path
        The file; it stays, empty.
    on_wait : callable
        Called if somebody else holds the lock, before the wait.

    Raises
    ------
    StorageError
        The file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise cannot_write(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock of a file, or may hold it: it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
