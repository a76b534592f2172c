"""Where run files lie: finding them below files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.name import is_run_file, run_key


def find_run_files(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Run files at or below the given paths, by run key; several files may claim one key.

    Links to folders are not followed, so a loop cannot trap the walk. Files given by name are taken whatever
    their ending is, so that a wrong one is rejected by name and not overlooked.

    Raises
    ------
    InfraScopeError
        A path does not exist.
    """
    found: dict[str, dict[Path, None]] = {}
    for path in paths:
        if path.is_dir():
            files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
            candidates = [file for file in files if is_run_file(file)]
        elif path.exists():
            candidates = [path]
        else:
            raise InfraScopeError(f"{path}: no such file or folder")
        for file in candidates:
            found.setdefault(run_key(file), {})[file.absolute()] = None
    return {key: sorted(found[key]) for key in sorted(found)}
