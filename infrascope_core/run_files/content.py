"""The content of a file that somebody else delivered: a regular file, of bounded size, unpacked.

What belongs here: whatever keeps a hostile file (a FIFO, a device, a link into nowhere, a gzip bomb) from hanging or
filling the process that reads it. What the bytes mean is for `reader` and `labels`.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path

from infrascope_core.errors import RunFileError

_LONGEST_LINE = 4 * 2**20
"""A first line of more bytes than this is not a header; nothing after it is unpacked."""


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file.

    Raises
    ------
    RunFileError
        Anything else lies there, or it is larger than `max_bytes`, or it cannot be read.
    """
    with _opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > max_bytes:
            raise RunFileError(path, f"larger than {max_bytes:,} bytes, the limit")
        return stream.read(size)


def has_content(path: Path, size: int, sha256: str) -> bool:
    """Whether a regular file holds the bytes of this number and hash.

    Raises
    ------
    RunFileError
        Anything else lies there, or it cannot be read.
    """
    with _opened(path) as stream:
        if os.fstat(stream.fileno()).st_size != size:
            return False
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256


def is_packed(path: Path) -> bool:
    """Whether a file's name says that it is gzipped."""
    return path.name.lower().endswith(".gz")


def unpack(path: Path, packed: bytes, max_bytes: int) -> bytes:
    """The text of a gzipped file.

    Raises
    ------
    RunFileError
        It is not a gzip file, or truncated, or unpacks to more than `max_bytes`, or has no line within 4 MiB.
    """
    try:
        with gzip.open(BytesIO(packed)) as stream:
            raw = stream.read(min(_LONGEST_LINE, max_bytes + 1))
            if len(raw) == _LONGEST_LINE and b"\n" not in raw:
                raise RunFileError(path, f"not a table: its first line is longer than {_LONGEST_LINE:,} bytes")
            raw += stream.read(max_bytes + 1 - len(raw))
    except EOFError:
        raise RunFileError(path, "the gzip data ends early; the file is truncated") from None
    except (OSError, zlib.error):
        raise RunFileError(path, "not a gzip file, although its name ends in .gz") from None
    if len(raw) > max_bytes:
        raise RunFileError(path, f"unpacks to more than {max_bytes:,} bytes, the limit")
    return raw


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """A regular file, open for reading; a FIFO without a writer does not block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RunFileError(path, "not a regular file")
            with open(descriptor, "rb", closefd=False) as stream:
                yield stream
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise RunFileError(path, "not a regular file") from None
        raise RunFileError(path, f"cannot be read ({error.strerror or error})") from error
