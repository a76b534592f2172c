"""The files that claim a run key: which they are, and whether they changed since they were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infrascope_core.run_files.labels import labels_path
from infrascope_core.run_files.metric_types import types_path
from infrascope_core.run_files.name import printable_path
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.lake import Lake, fingerprint


def candidate_files(key: str, paths: Sequence[Path], lake: Lake) -> list[Path]:
    """All files that claim a run key: those found now, and the one it was made from, if that still lies elsewhere."""
    row = lake.row(RUN_FILES, key)
    source = row["source"] if row is not None and row["status"] == "accepted" else None
    if source is not None and source not in map(printable_path, paths) and _is_there(Path(source)):
        return [*paths, Path(source)]
    return list(paths)


def source_fingerprint(paths: Sequence[Path]) -> str:
    """Fingerprint of files, their labels and types, by name, size and time of change; reads no content."""
    beside = (labels_path, types_path)
    return fingerprint(*(_state(file) for path in sorted(paths) for file in (path, *(of(path) for of in beside))))


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except OSError:  # gone, or behind a folder or a link that leads nowhere
        return False
    return True


def _state(file: Path) -> str:
    """What a file looks like from outside; a link that leads nowhere is there, though what it names is not."""
    for look in (file.stat, file.lstat):
        try:
            stat = look()
        except OSError:
            continue
        return f"{file} {stat.st_size} {stat.st_mtime_ns}"
    return f"{file} none"
