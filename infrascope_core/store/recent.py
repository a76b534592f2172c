"""Frames that were just written or read, for those that read them next: most products of a run read its others."""

from __future__ import annotations

from collections import OrderedDict

import polars as pl

from infrascope_core.store.footers import Stat

_LIMIT = 128 * 2**20
"""Bytes of all frames: a few per cent of what a run of the longest files takes anyhow."""
_LARGEST = 2**22
"""Bytes of one frame: opening a larger file is a small part of reading it."""


class RecentFrames:
    """The frames used last, by file; an entry counts only while its file is the one that the frame was read from.

    At 1,200 small files, opening them is a tenth of all work.
    """

    def __init__(self) -> None:
        self._frames: OrderedDict[str, tuple[Stat, pl.DataFrame, int]] = OrderedDict()
        self._bytes = 0

    def get(self, path: str, stat: Stat) -> pl.DataFrame | None:
        """The frame of a file, or None."""
        known = self._frames.get(path)
        if known is None or known[0] != stat:
            return None
        self._frames.move_to_end(path)
        return known[1]

    def put(self, path: str, stat: Stat, frame: pl.DataFrame) -> None:
        """Remember a frame in one piece, as it would be read; forgets those that were not used for longest."""
        size = int(frame.estimated_size())
        self._forget(path)
        if size > _LARGEST:
            return
        self._frames[path] = stat, frame.rechunk(), size
        self._bytes += size
        while self._bytes > _LIMIT:
            self._forget(next(iter(self._frames)))

    def _forget(self, path: str) -> None:
        known = self._frames.pop(path, None)
        if known is not None:
            self._bytes -= known[2]
