"""What the footers of Parquet files record about their origin, remembered from one process to the next."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import polars as pl

from infrascope_core.store.atomic import write_text

_log = logging.getLogger(__name__)

FINGERPRINT = "infrascope.fingerprint"
"""Key, in a file's metadata, of what the product was made from."""
VERSION = "infrascope.version"
"""Key of the hash of a pooled table's content."""

Stat = tuple[int, int, int]
Footer = tuple[str, str]
"""Fingerprint and version."""


def stat_of(path: Path | str) -> Stat | None:
    """Size, time of change and inode of a file, which tell whether it was replaced; None if it does not exist.

    An empty file does not count: it is what a loss of power leaves of one that was just written.
    """
    try:
        stat = os.stat(path)  # noqa: PTH116 - takes text, of which thousands are looked up
    except FileNotFoundError:
        return None
    return _identity(stat) if stat.st_size else None


def stats_in(folder: Path, ending: str) -> dict[str, Stat]:
    """The same for every file of a folder with this ending, by its name without it; hidden files are left out."""
    try:
        with os.scandir(folder) as entries:
            found = ((entry.name, entry) for entry in entries)
            shown = ((name, entry) for name, entry in found if name.endswith(ending) and not name.startswith("."))
            stats = ((name, entry.stat()) for name, entry in shown)
            return {name[: -len(ending)]: _identity(stat) for name, stat in stats if stat.st_size}
    except FileNotFoundError:
        return {}


def _identity(stat: os.stat_result) -> Stat:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def put_aside(path: str, stat: Stat, error: Exception) -> None:
    """Rename a file that is not Parquet, unless it was replaced since: what is missing is made again."""
    target = Path(path).with_name(f".{Path(path).name}.damaged")
    if stat_of(path) == stat:
        os.replace(path, target)  # noqa: PTH105 - as above
        _log.warning("%s is damaged (%s): it is put aside as %s, and made again", path, str(error).strip(), target.name)


class Footers:
    """Footers by file below a folder.

    The index on disk is a memory, not a truth: an entry counts only while its file has the size, inode and time of
    change that it had. With it, a process that finds nothing new opens no file: 0.2 s instead of 9 s at 15,000 files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index = root / ".fingerprints.json"
        self._known: dict[str, tuple[Stat, Footer]] | None = None
        self._changed = False

    def of(self, path: str) -> Footer | None:
        """The footer of a file; None if it does not exist. A damaged file is put aside."""
        stat = stat_of(path)
        if stat is None:
            return None
        known = self._entries().get(path)
        if known is not None and known[0] == stat:
            return known[1]
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                stat = _identity(os.fstat(file.fileno()))  # whoever replaces it now replaces this as well
                metadata = pl.read_parquet_metadata(file)
        except FileNotFoundError:
            return None
        except pl.exceptions.PolarsError as error:
            put_aside(path, stat, error)
            return None
        footer = metadata.get(FINGERPRINT, ""), metadata.get(VERSION, "")
        self._entries()[path] = stat, footer
        self._changed = True
        return footer

    def note(self, path: str, stat: Stat | None, footer: Footer) -> None:
        """Remember the footer of a file that was just written.

        Its identity is taken before it is put in place: by now another process may have put its own there.
        """
        if stat is not None:
            self._entries()[path] = stat, footer
            self._changed = True

    def forget(self, path: str) -> None:
        """A file is gone."""
        self._changed |= self._entries().pop(path, None) is not None

    def save(self) -> None:
        """Leave what is known for the next process."""
        if self._changed:
            start = len(str(self._root)) + 1
            entries = {path[start:]: (*stat, *footer) for path, (stat, footer) in self._entries().items()}
            write_text(self._index, json.dumps(entries, sort_keys=True))
            self._changed = False

    def _entries(self) -> dict[str, tuple[Stat, Footer]]:
        if self._known is None:
            self._known = self._load()
        return self._known

    def _load(self) -> dict[str, tuple[Stat, Footer]]:
        try:
            entries = json.loads(self._index.read_text(encoding="utf-8"))
            return {
                f"{self._root}/{name}": ((size, changed, inode), (made_from, version))
                for name, (size, changed, inode, made_from, version) in entries.items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # it is made again
