"""Rejections: why a file cannot be used, one entry per path, from which the table `rejected_files` is gathered."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.name import parse_run_name, printable_path, run_key
from infrascope_core.run_files.sources.archive import is_archive
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import is_remote
from infrascope_core.store.lake import Lake, fingerprint

_REJECTIONS = "rejections"
"""Folder of the lake with one file per rejected path."""


def reject(path: Path, key: str, fault: str, lake: Lake, around: str = "") -> None:
    """Note why a file cannot be used, and what it was rejected in (`Entry.around`)."""
    now = datetime.now(UTC).replace(tzinfo=None)
    row = (*map(printable_path, (path, key, fault)), now)
    lake.write(pl.DataFrame([row], schema=REJECTED_FILES.schema, orient="row"), _REJECTIONS, _entry(path), around)


def rejected_within(path: Path, lake: Lake) -> str | None:
    """What a file was rejected in; None if it is not rejected."""
    return lake.made_from(_REJECTIONS, _entry(path))


def withdraw(path: Path, lake: Lake) -> None:
    """Forget the rejection of a file that can be used, or is gone."""
    lake.drop(_REJECTIONS, _entry(path))


def reject_unknown_names(entries: Iterable[Entry], lake: Lake) -> None:
    """Reject the files whose names follow no grammar, and archives that cannot be read."""
    for entry in entries:
        try:
            parse_run_name(entry.path)
        except RunFileError as error:
            reject(entry.path, run_key(entry.path), entry.refusal or error.fault, lake)


def rejected_paths(lake: Lake, present: Iterable[Path] = (), searched: Sequence[Path] = ()) -> list[str]:
    """What `forget_absent` would leave: paths of the rejections whose files are still there, sorted."""
    there = {_entry(path) for path in present}
    paths = ((entry, str(row["path"][0])) for entry, row in _all(lake))
    return sorted(path for entry, path in paths if entry in there or _lies_there(Path(path), searched))


def forget_absent(lake: Lake, present: Iterable[Path] = (), searched: Sequence[Path] = ()) -> pl.DataFrame:
    """Drop rejections of files that are gone, and return the rest: the table `rejected_files`.

    Parameters
    ----------
    lake : Lake
        Where the rejections are.
    present : iterable of Path
        Files that are known to be there, under names that the table may not be able to spell.
    searched : sequence of Path
        Absolute paths of what was searched: an archive there that is not present any more as a file of its own can be
        read by now.
    """
    there = {_entry(path) for path in present}
    rows = [REJECTED_FILES.empty()]
    for entry, row in _all(lake):
        if entry in there or _lies_there(Path(str(row["path"][0])), searched):
            rows.append(row)
        else:
            lake.drop(_REJECTIONS, entry)
    return pl.concat(rows).sort("path")


def _all(lake: Lake) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each entry with its row; one that another process forgets meanwhile is left out."""
    for entry in lake.keys(_REJECTIONS):
        with contextlib.suppress(FileNotFoundError):
            yield entry, lake.read_cached(_REJECTIONS, entry)


def _lies_there(path: Path, searched: Sequence[Path]) -> bool:
    """Whether a file is there, or the archive that it was in, or may be there: the Hub is not asked."""
    if is_archive(path) and any(root == path or root in path.parents for root in searched):
        return False
    return os.path.lexists(path) or is_remote(path) or any(is_archive(p) and p.is_file() for p in path.parents)


def _entry(path: Path) -> str:
    return fingerprint(str(path))
