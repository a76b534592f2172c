"""Where readings rest during the run: an unnamed compressed file, so that hours of sampling need no memory.

The file has no name in the folder (O_TMPFILE where the file system has it), so nothing is left of it however
the recorder ends. Readings are compressed as they come (zlib level 1): procfs texts differ little from one
sample to the next and shrink about tenfold.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_WRITE_BYTES = 1 << 18
_READ_BYTES = 1 << 16
_TIME = struct.Struct("<d")
_LENGTH = struct.Struct("<I")


class Spool:
    """Readings in order: when, and one text per probe. Written once, then read once."""

    def __init__(self, folder: Path, probes: int) -> None:
        """Open the file; raises OSError if the folder takes none."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
        self._probes = probes
        self._compress = zlib.compressobj(1)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.readings = 0

    def append(self, at_s: float, texts: Sequence[bytes]) -> None:
        """Keep one reading; raises OSError if there is no room."""
        parts = [_TIME.pack(at_s)]
        for text in texts:
            parts += (_LENGTH.pack(len(text)), text)
        self._keep(self._compress.compress(b"".join(parts)))
        self.readings += 1
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def finish(self) -> None:
        """Write what waits; raises OSError if there is no room."""
        self._keep(self._compress.flush())
        self._write()

    def __iter__(self) -> Iterator[tuple[float, list[bytes]]]:
        """Readings in the order they came, after `finish`."""
        self._file.seek(0)
        unpack = zlib.decompressobj()
        buffer = bytearray()
        left = self.readings

        def take(count: int) -> bytes:
            while len(buffer) < count:
                packed = self._file.read(_READ_BYTES)
                if not packed:
                    raise OSError("the spool ends early")
                buffer.extend(unpack.decompress(packed))
            taken = bytes(buffer[:count])
            del buffer[:count]
            return taken

        for _ in range(left):
            (at_s,) = _TIME.unpack(take(_TIME.size))
            texts = [take(_LENGTH.unpack(take(_LENGTH.size))[0]) for _ in range(self._probes)]
            yield at_s, texts

    def close(self) -> None:
        """Give the room back."""
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
