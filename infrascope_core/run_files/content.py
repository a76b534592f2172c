"""The content of a file that somebody else delivered: a regular file, of bounded size, unpacked.

What belongs here: whatever keeps a hostile file (a FIFO, a device, a link into nowhere, a gzip bomb) from hanging or
filling the process that reads it. What the bytes mean is for `reader` and `labels`.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from infrascope_core.errors import ChangingFileError, RunFileError

PIECE = 2**27
"""Bytes of text that are read and parsed at a time: every file of the public data set but a few is one piece, and one
of the largest size that is allowed does not lie in memory as text."""
_LONGEST_LINE = 4 * 2**20
"""A first line of more bytes than this is not a header; nothing after it is unpacked."""


@contextmanager
def regular_file(path: Path) -> Iterator[BufferedReader]:
    """A regular file, open for reading; a FIFO without a writer does not block.

    What replaces it meanwhile changes nothing: it is read to its end as it was.

    Raises
    ------
    RunFileError
        Anything else lies there, or it cannot be read.
    ChangingFileError
        It was written to while it was open, whatever was found wrong with it then; or it is gone.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise RunFileError(path, "not a regular file")
            with open(descriptor, "rb", closefd=False) as stream:
                try:
                    yield stream
                except RunFileError:
                    _refuse_changed(path, before, os.fstat(descriptor))
                    raise
            _refuse_changed(path, before, os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise RunFileError(path, "not a regular file") from None
        fault = f"cannot be read ({error.strerror or error})"
        if error.errno == errno.ENOENT and not os.path.lexists(path):
            raise ChangingFileError(path, fault) from None
        raise RunFileError(path, fault) from error


def _refuse_changed(path: Path, before: os.stat_result, after: os.stat_result) -> None:
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise ChangingFileError(path, "was written to while it was read; it is read at the next look") from None


def is_packed(path: Path) -> bool:
    """Whether a file's name says that it is gzipped."""
    return path.name.lower().endswith(".gz")


def read_bounded(path: Path, stream: BinaryIO, max_bytes: int) -> bytes:
    """All that a stream holds.

    Raises
    ------
    RunFileError
        It holds more than `max_bytes`.
    """
    content = _filled(stream, max_bytes + 1)
    if len(content) > max_bytes:
        raise RunFileError(path, f"larger than {max_bytes:,} bytes, the limit")
    return content


def pieces(path: Path, stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """The text of a file in pieces of about `PIECE` bytes that end with a line; unpacked if its name says so.

    Parameters
    ----------
    path : Path
        The file's name.
    stream : BinaryIO
        Its bytes, as they lie; read to the end, unless an error is raised.
    max_bytes : int
        Most bytes, as they lie and unpacked.

    Raises
    ------
    RunFileError
        It is larger, or not a gzip file though its name says so, or truncated, or has no line within 4 MiB if it is
        packed, or a line that is longer than a piece.
    """
    packed = is_packed(path)
    text = cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb")) if packed else stream
    total, rest = 0, b""
    if packed:
        rest = _unpacked(path, text, min(_LONGEST_LINE, max_bytes + 1))
        total = len(rest)
        if total == _LONGEST_LINE and b"\n" not in rest:
            raise RunFileError(path, f"not a table: its first line is longer than {_LONGEST_LINE:,} bytes")
    while True:
        wanted = min(PIECE, max_bytes + 1 - total)
        read = _unpacked(path, text, wanted) if packed else _filled(text, wanted)
        total += len(read)
        if total > max_bytes:
            is_larger = "unpacks to more" if packed else "larger"
            raise RunFileError(path, f"{is_larger} than {max_bytes:,} bytes, the limit")
        if len(read) < PIECE:  # the end
            yield rest + read
            return
        cut = read.rfind(b"\n") + 1
        if not cut:
            raise RunFileError(path, f"not a table: it holds a line of more than {PIECE:,} bytes")
        piece, rest = rest + read[:cut], read[cut:]
        del read
        yield piece


def _filled(stream: BinaryIO, size: int) -> bytes:
    """So many bytes of a stream, or as many as it has: a single read may give fewer."""
    read = stream.read(size)
    more = stream.read(size - len(read)) if 0 < len(read) < size else b""
    if not more:
        return read
    parts = [read, more]
    left = size - len(read) - len(more)
    while left and (more := stream.read(left)):
        parts.append(more)
        left -= len(more)
    return b"".join(parts)


def _unpacked(path: Path, text: BinaryIO, size: int) -> bytes:
    try:
        return _filled(text, size)
    except EOFError:
        raise RunFileError(path, "the gzip data ends early; the file is truncated") from None
    except (gzip.BadGzipFile, zlib.error):
        raise RunFileError(path, "not a gzip file, although its name ends in .gz") from None
