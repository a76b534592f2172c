"""Where run files lie: finding them below files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.name import is_recording, is_run_file, is_run_name, run_key
from infrascope_core.store.lock import is_held


def find_run_files(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Run files at or below the given paths, by run key; several files may claim one key.

    Links to folders are not followed, so a loop cannot trap the walk. Files given by name are taken whatever
    their ending is, and so are folders that are named as a run is, and recordings that were cut off: they are rejected
    by name and not overlooked.

    Raises
    ------
    InfraScopeError
        A path does not exist.
    """
    found: dict[str, dict[Path, None]] = {}
    for path in paths:
        if path.is_dir():
            candidates = [*_below(path)]
        elif path.exists():
            candidates = [path]
        else:
            raise InfraScopeError(f"{path}: no such file or folder")
        for file in candidates:
            found.setdefault(run_key(file), {})[file.absolute()] = None
    return {key: sorted(found[key]) for key in sorted(found)}


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        paths = [Path(folder, name) for name in files]
        yield from filter(is_run_file, paths)
        yield from (path for path in paths if is_recording(path) and not is_held(path))
        yield from (
            path for path in (Path(folder, name) for name in folders) if is_run_file(path) and is_run_name(path)
        )
