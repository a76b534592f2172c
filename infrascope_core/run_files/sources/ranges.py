"""A remote file of which only parts are fetched, as a file that zipfile can read.

What belongs here: positions. How the bytes of a part come over the network is for `transfer`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

OpenPart = Callable[[int, int], Iterator[bytes]]
"""Gives the bytes from a first position to one before a last, in pieces."""


class RangeFile(io.RawIOBase):
    """A seekable file made of parts.

    Parameters
    ----------
    size : int
        Bytes of the file.
    open_part : callable
        Fetches a part.
    known : tuple of int and bytes
        Bytes that are there already, and where they begin: they are not fetched.
    span : tuple of int
        What will be read in order: a read in it fetches all of the rest of it at once, as a stream. A read anywhere
        else fetches just what is asked for.
    """

    def __init__(
        self,
        size: int,
        open_part: OpenPart,
        known: tuple[int, bytes] = (0, b""),
        span: tuple[int, int] = (0, 0),
    ) -> None:
        self._size = size
        self._open_part = open_part
        self._known_start, self._known = known
        self._span = span
        self._at = 0
        self._stream: Iterator[bytes] | None = None
        self._stream_at = self._stream_end = 0
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The position of the next byte to be read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position; nothing is fetched.

        Raises
        ------
        ValueError
            The position is before the first byte.
        """
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0:
            raise ValueError("a position before the first byte")
        self._at = at
        return at

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes from here, or as many as there are."""
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        parts: list[bytes] = []
        while self._at < end:
            part = self._read_known(end) or self._read_stream(end)
            if not part:
                break
            parts.append(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give up what is being fetched."""
        self._drop_stream()
        super().close()

    def _read_known(self, end: int) -> bytes:
        offset = self._at - self._known_start
        return self._known[offset : end - self._known_start] if 0 <= offset < len(self._known) else b""

    def _read_stream(self, end: int) -> bytes:
        if self._stream is None or self._stream_at != self._at or self._at == self._stream_end:
            self._drop_stream()
            start, until = self._span
            last = until if start <= self._at < until else end
            if self._at < self._known_start and self._known:
                last = min(last, self._known_start)
            self._stream, self._stream_at, self._stream_end = self._open_part(self._at, last), self._at, last
        if not self._left:
            self._left = next(self._stream, b"")
        part, self._left = self._left[: end - self._at], self._left[end - self._at :]
        self._stream_at += len(part)
        if not part:
            self._drop_stream()
        return part

    def _drop_stream(self) -> None:
        if self._stream is not None and hasattr(self._stream, "close"):
            self._stream.close()
        self._stream, self._left = None, b""
