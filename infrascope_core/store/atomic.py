"""Files that are whole or not there: written aside, then renamed into place.

What belongs here: the one way in which this package writes a file that others may be reading, and the removal of what
writers that were killed have left behind.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from infrascope_core.errors import StorageError

ASIDE_SUFFIX = ".tmp"
"""Ending of files and folders that are being written; their names begin with a dot."""
_LONGEST_STEM = 100
_ABANDONED_S = 3600.0
"""A leftover that has not been touched for this long belongs to a writer that is gone."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of the system that every other write would meet as well."""


@contextlib.contextmanager
def aside(target: Path, *, sync: bool = False) -> Iterator[Path]:
    """A path beside `target` to write to; renamed to `target` when the block ends well, removed when it does not.

    Parameters
    ----------
    target : Path
        The file; its folder is made if it is missing.
    sync : bool
        Make sure that it is on the disk before the old file is gone: for what cannot be made again.

    Raises
    ------
    StorageError
        The folder cannot be written, or has no room; names the target.
    """
    path: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=ASIDE_SUFFIX, dir=target.parent)
        os.close(handle)
        path = Path(name)
        yield path
        path.chmod(0o644)
        if sync:
            _sync(path)
        path.replace(target)
        path = None
        if sync:
            _sync(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file, UTF-8 with Unix line ends; what is not a regular file (`/dev/stdout`) is written to directly.

    Raises
    ------
    StorageError
        See `aside`.
    """
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    with aside(target) as path:
        path.write_text(text, encoding="utf-8", newline="\n")


def cannot_write(target: Path, error: OSError) -> StorageError:
    """The error to raise when a file cannot be written: the target, the room that is left, and the reason."""
    folder = target.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    room = shutil.disk_usage(folder).free
    reason = error.strerror or str(error)
    return StorageError(
        f"{target}: cannot be written, with {room:,} bytes free there ({reason})", full=error.errno in FULL
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def leftovers(target: Path) -> list[Path]:
    """What writers of a file that were killed, or are at work, have beside it."""
    return sorted(target.parent.glob(f"{glob.escape(_prefix(target))}*{ASIDE_SUFFIX}"))


def _prefix(target: Path) -> str:
    return f".{target.name[:_LONGEST_STEM]}."


def sweep(leftovers: Iterable[Path]) -> None:
    """Remove, of what writers have left or are writing, what nobody has touched for an hour."""
    for leftover in leftovers:
        with contextlib.suppress(OSError):  # another process may sweep as well
            # one from the future was left before the clock was set back
            if abs(time.time() - leftover.lstat().st_mtime) > _ABANDONED_S:
                if leftover.is_dir() and not leftover.is_symlink():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink(missing_ok=True)
