"""Where readings rest during the run: a hidden file `.STEM.txt.recording` beside the place of the run file.

What belongs here: the format of that file. Readings are compressed as they come (zlib level 1), because procfs texts
differ little from one sample to the next and shrink about tenfold; hours of sampling need no memory. Whatever is a
second old has been handed to the system, so that a recorder that is killed leaves what `recovery` makes a run file of.
While the recorder lives it holds the file's lock; a file that nobody holds was cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from infrascope_core.store.atomic import ASIDE_SUFFIX

HOST_NAME = re.compile(r"[A-Za-z0-9-]+")
_MAGIC = b"infrascope recording 1\n"
_LONGEST_HEADER = 1 << 24
_LONGEST_TEXT = 1 << 26
_WRITE_BYTES = 1 << 18
_WRITE_EVERY_S = 1.0
_READ_BYTES = 1 << 16
_TIME = struct.Struct("<d")
_LENGTH = struct.Struct("<I")

Reading = tuple[float, list[bytes]]
"""Seconds since the first reading, and one text per probe."""


class NotARecordingError(Exception):
    """A file does not begin as a recording does; the message says why."""


@dataclass(frozen=True)
class Header:
    """What a recording begins with: all that is needed to parse its readings, wherever that is done.

    Attributes
    ----------
    started : datetime
        Naive UTC, of the first reading.
    host : str
        Host in column names.
    probes : tuple of (str, dict)
        Name and state of each probe, in the order of the texts of a reading.
    """

    started: datetime
    host: str
    probes: tuple[tuple[str, Mapping[str, Any]], ...]

    def as_line(self) -> bytes:
        """The header as it stands in the file."""
        content = {"started": self.started.isoformat(), "host": self.host, "probes": self.probes}
        return json.dumps(content).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> Header:
        """The header by its line; raises NotARecordingError."""
        try:
            content = json.loads(line)
            probes = tuple((str(name), dict(state)) for name, state in content["probes"])
            if not HOST_NAME.fullmatch(content["host"]):
                raise ValueError(content["host"])
            return cls(datetime.fromisoformat(content["started"]), content["host"], probes)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotARecordingError("its header is damaged") from error


class Spool:
    """Readings in order: when, and one text per probe. Written once, then read once."""

    def __init__(self, path: Path) -> None:
        """Make the file, locked from its first moment on.

        Raises
        ------
        FileExistsError
            The name is taken.
        OSError
            The folder takes no file.
        """
        self.path = path
        handle, name = tempfile.mkstemp(prefix=".recording.", suffix=ASIDE_SUFFIX, dir=path.parent)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        try:
            os.fchmod(handle, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
            path.hardlink_to(name)
        except OSError:
            self._file.close()
            raise
        finally:
            Path(name).unlink()
        self._compress = zlib.compressobj(1)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._written_s = -math.inf
        self.readings = 0

    def begin(self, header: Header) -> None:
        """Write the header; raises OSError if there is no room."""
        self._keep(_MAGIC + header.as_line())
        self._write()

    def append(self, at_s: float, texts: Sequence[bytes]) -> None:
        """Keep one reading; raises OSError if there is no room."""
        parts = [_TIME.pack(at_s)]
        for text in texts:
            parts += (_LENGTH.pack(len(text)), text)
        self._keep(self._compress.compress(b"".join(parts)))
        self.readings += 1
        if at_s - self._written_s >= _WRITE_EVERY_S or self._waiting_bytes >= _WRITE_BYTES:
            self._keep(self._compress.flush(zlib.Z_SYNC_FLUSH))
            self._write()
            self._written_s = at_s

    def finish(self) -> None:
        """Write what waits; raises OSError if there is no room."""
        self._keep(self._compress.flush())
        self._write()

    def __iter__(self) -> Iterator[Reading]:
        """Readings in the order they came, after `finish`."""
        self._file.seek(0)
        _, readings = read_recording(self._file)
        count = 0
        for count, reading in enumerate(readings, start=1):  # noqa: B007 - counted
            yield reading
        if count < self.readings:
            raise OSError("the spool ends early")

    def close(self) -> None:
        """Give the room and the name back; may be called twice."""
        if not self._file.closed:
            self.path.unlink(missing_ok=True)
            self._file.close()

    def _keep(self, packed: bytes) -> None:
        if packed:
            self._waiting.append(packed)
            self._waiting_bytes += len(packed)

    def _write(self) -> None:
        view = memoryview(b"".join(self._waiting))
        while view:
            written = self._file.write(view)
            view = view[written or 0 :]
        self._waiting.clear()
        self._waiting_bytes = 0


def read_recording(file: BinaryIO) -> tuple[Header, Iterator[Reading]]:
    """The header of a recording, and its readings up to where it ends or is damaged.

    Raises
    ------
    NotARecordingError
        It does not begin as a recording does.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise NotARecordingError("it holds no recording")
    head = bytearray()
    while b"\n" not in head:
        part = file.read(_READ_BYTES)
        if not part or len(head) > _LONGEST_HEADER:
            raise NotARecordingError("its header is damaged")
        head += part
    line, _, rest = bytes(head).partition(b"\n")
    header = Header.of(line)
    return header, _readings(file, rest, len(header.probes))


def _readings(file: BinaryIO, packed: bytes, probes: int) -> Iterator[Reading]:
    pieces = _unpacked(file, packed)
    buffer = bytearray()

    def take(count: int) -> bytes:
        while len(buffer) < count:
            buffer.extend(next(pieces))
        taken = bytes(buffer[:count])
        del buffer[:count]
        return taken

    def text() -> bytes:
        (length,) = _LENGTH.unpack(take(_LENGTH.size))
        return take(min(length, _LONGEST_TEXT))

    while True:
        try:
            (at_s,) = _TIME.unpack(take(_TIME.size))
            texts = [text() for _ in range(probes)]
        except StopIteration:  # the last reading was cut off
            return
        yield at_s, texts


def _unpacked(file: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """What was compressed, in pieces, up to the end of the file or to where it is damaged."""
    unpack = zlib.decompressobj()
    while not unpack.eof and (packed := packed or file.read(_READ_BYTES)):
        before = unpack.copy()
        try:
            yield unpack.decompress(packed, _LONGEST_TEXT)
        except zlib.error:
            with contextlib.suppress(zlib.error):
                for place in range(len(packed)):  # what stands before the damage is still good
                    yield before.decompress(packed[place : place + 1])
            return
        packed = unpack.unconsumed_tail
