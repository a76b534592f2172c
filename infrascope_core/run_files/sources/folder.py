"""Files of this machine: finding them below files and folders."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from infrascope_core.errors import ChangingFileError, InfraScopeError, RunFileError
from infrascope_core.run_files.content import read_bounded, regular_file
from infrascope_core.run_files.name import (
    is_meta,
    is_recording,
    is_run_file,
    is_run_name,
    labels_path,
    run_key,
    types_path,
)
from infrascope_core.run_files.sources.archive import Archive, is_archive
from infrascope_core.run_files.sources.entry import Entry, Listing, Meta
from infrascope_core.store.lock import is_held

_YOUNG_S = 2.0
_WATCH_S = 1.0
"""A file that changed in the last two seconds is watched for one: if it changes again, somebody is writing it. Who
samples ten times a second writes at least that often; files that lie still cost nothing."""
MAX_META_BYTES = 16 * 2**20


@dataclass(frozen=True)
class LocalFile(Entry):
    """A file of this machine."""

    path: Path

    @property
    def size(self) -> int:
        """Bytes of the file; 0 if it is gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @property
    def fingerprint(self) -> str:
        """Name, size and time of change; a link that leads nowhere is there, though what it names is not.

        The path is spelled as it is: tables show it as `printable_path` does.
        """
        for look in (self.path.stat, self.path.lstat):
            try:
                stat = look()
            except OSError:
                continue
            return f"{self.path} {stat.st_size} {stat.st_mtime_ns}"
        return f"{self.path} none"

    @property
    def labels(self) -> Entry | None:
        """The file beside it that is named as its labels are."""
        beside = labels_path(self.path)
        return LocalFile(beside) if os.path.lexists(beside) else None

    @property
    def types(self) -> Entry | None:
        """The file beside it that is named as the types of its metrics are."""
        beside = types_path(self.path)
        return LocalFile(beside) if os.path.lexists(beside) else None

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The file, if it is a regular one."""
        return regular_file(self.path)


def list_paths(root: Path) -> Listing:
    """What lies at or below a path: run files, and those in archives.

    Links to folders are not followed, so a loop cannot trap the walk. A file given by name is taken whatever its ending
    is, and so are folders that are named as a run is, and recordings that were cut off: they are rejected by name and
    not overlooked. A file that is being written is left for a later look.

    Raises
    ------
    InfraScopeError
        The path does not exist.
    """
    entries: list[Entry] = []
    metas: list[Meta] = []
    notices: list[str] = []
    paths = [*_at_or_below(root)]
    unfinished = growing(paths)
    for path in paths:
        if path in unfinished:
            notices.append(f"{path}: is still being written; it is left for the next look")
        elif is_archive(path):
            archive = Archive.of_file(path)
            try:
                entries += archive.entries
                metas += archive.metas
            except ChangingFileError as error:
                notices.append(str(error))
        elif is_meta(path):
            metas.append(_meta(path))
        else:
            entries.append(LocalFile(path))
    if root.is_file() and is_archive(root):
        metas += [_meta(path) for path in sorted(root.absolute().parent.glob("meta*.csv")) if is_meta(path)]
    return Listing(str(root.absolute()), tuple(entries), tuple(entries), tuple(metas), tuple(notices))


def find_run_files(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Run files of this machine at or below the given paths, by run key; those in archives are left out.

    Raises
    ------
    InfraScopeError
        A path does not exist.
    """
    found: dict[str, dict[Path, None]] = {}
    for path in paths:
        for file in _at_or_below(path):
            if not is_archive(file) and not is_meta(file):
                found.setdefault(run_key(file), {})[file] = None
    return {key: sorted(found[key]) for key in sorted(found)}


def found_again(path: Path) -> Entry | None:
    """The file that a path names, on this machine or in an archive that lies here; None if it is gone."""
    try:
        path.stat()
    except OSError:  # gone, or behind a folder or a link that leads nowhere, or in an archive
        archive = next((parent for parent in path.parents if is_archive(parent) and parent.is_file()), None)
        entries = Archive.of_file(archive).entries if archive else ()
        return next((entry for entry in entries if entry.path == path), None)
    return LocalFile(path)


def growing(paths: Iterable[Path]) -> set[Path]:
    """Those of the files that somebody is writing: they changed just now, and do so again while they are watched."""
    now = time.time()
    young = {path: state for path in paths if (state := _state(path)) and abs(now - state[1] / 1e9) < _YOUNG_S}
    if not young or not _WATCH_S:
        return set()
    time.sleep(_WATCH_S)
    return {path for path, state in young.items() if _state(path) != state}


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _meta(path: Path) -> Meta:
    try:
        with regular_file(path) as stream:
            return Meta(path, read_bounded(path, stream, MAX_META_BYTES))
    except (RunFileError, ChangingFileError) as error:
        return Meta(path, b"", error.fault)


def _at_or_below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file.absolute() for file in _below(path))
    elif path.exists():
        yield path.absolute()
    else:
        raise InfraScopeError(f"{path}: no such file or folder")


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        paths = [Path(folder, name) for name in files]
        yield from (path for path in paths if is_run_file(path) or is_archive(path) or is_meta(path))
        yield from (path for path in paths if is_recording(path) and not is_held(path))
        yield from (
            path for path in (Path(folder, name) for name in folders) if is_run_file(path) and is_run_name(path)
        )
