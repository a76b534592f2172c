"""What the footers of Parquet files record about their origin, remembered from one process to the next."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl

from infrascope_core.store.atomic import write_text

FINGERPRINT = "infrascope.fingerprint"
"""Key, in a file's metadata, of what the product was made from."""
VERSION = "infrascope.version"
"""Key of the hash of a pooled table's content."""

Stat = tuple[int, int, int]
Footer = tuple[str, str]
"""Fingerprint and version."""


def stat_of(path: Path) -> Stat | None:
    """Size, time of change and inode of a file, by which a replacement is recognised; None if it does not exist."""
    try:
        return _identity(path.stat())
    except FileNotFoundError:
        return None


def _identity(stat: os.stat_result) -> Stat:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


class Footers:
    """Footers by file below a folder.

    The index on disk is a memory, not a truth: an entry counts only while its file has the size, inode and time of
    change that it had. With it, a process that finds nothing new opens no file: 0.2 s instead of 9 s at 15,000 files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index = root / ".fingerprints.json"
        self._known: dict[Path, tuple[Stat, Footer]] | None = None
        self._changed = False

    def of(self, path: Path) -> Footer | None:
        """The footer of a file; None if it does not exist."""
        stat = stat_of(path)
        if stat is None:
            return None
        known = self._entries().get(path)
        if known is not None and known[0] == stat:
            return known[1]
        try:
            with path.open("rb") as file:
                stat = _identity(os.fstat(file.fileno()))  # whoever replaces it now replaces this as well
                metadata = pl.read_parquet_metadata(file)
        except FileNotFoundError:
            return None
        footer = metadata.get(FINGERPRINT, ""), metadata.get(VERSION, "")
        self._entries()[path] = stat, footer
        self._changed = True
        return footer

    def note(self, path: Path, stat: Stat | None, footer: Footer) -> None:
        """Remember the footer of a file that was just written.

        Its identity is taken before it is put in place: by now another process may have put its own there.
        """
        if stat is not None:
            self._entries()[path] = stat, footer
            self._changed = True

    def forget(self, path: Path) -> None:
        """A file is gone."""
        self._changed |= self._entries().pop(path, None) is not None

    def save(self) -> None:
        """Leave what is known for the next process."""
        if self._changed:
            entries = {
                str(p.relative_to(self._root)): (*stat, *footer) for p, (stat, footer) in self._entries().items()
            }
            write_text(self._index, json.dumps(entries, sort_keys=True))
            self._changed = False

    def _entries(self) -> dict[Path, tuple[Stat, Footer]]:
        if self._known is None:
            self._known = self._load()
        return self._known

    def _load(self) -> dict[Path, tuple[Stat, Footer]]:
        try:
            entries = json.loads(self._index.read_text(encoding="utf-8"))
            return {
                self._root / name: ((size, changed, inode), (made_from, version))
                for name, (size, changed, inode, made_from, version) in entries.items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # it is made again
