"""The files that claim a run key: which they are, and whether they changed since they were read."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from infrascope_core.errors import ChangingFileError
from infrascope_core.run_files.name import labels_path, printable_path, types_path
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.sources.folder import found_again
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.lake import Lake, fingerprint


def candidate_files(key: str, entries: Sequence[Entry], lake: Lake) -> list[Entry]:
    """All files that claim a run key: those found now, and the one it was made from, if that still lies elsewhere.

    What was made from a data set of the Hub is not looked for there: that would take a listing.
    """
    row = lake.row(RUN_FILES, key)
    source = row["source"] if row is not None and row["status"] == "accepted" else None
    if source is not None and source not in (printable_path(entry.path) for entry in entries):
        with contextlib.suppress(ChangingFileError):  # an archive that is being written has no files yet
            elsewhere = found_again(Path(source))
            if elsewhere is not None:
                return [*entries, elsewhere]
    return list(entries)


def source_fingerprint(entries: Sequence[Entry]) -> str:
    """Fingerprint of files, their labels and types, as each source tells them apart; reads no content."""
    parts = []
    for entry in sorted(entries, key=lambda entry: entry.path):
        parts.append(entry.fingerprint)
        for beside, path_of in ((entry.labels, labels_path), (entry.types, types_path)):
            parts.append(beside.fingerprint if beside else f"{path_of(entry.path)} none")
    return fingerprint(*parts)
