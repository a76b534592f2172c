"""The inbox: the run files that lie in a data folder's sources, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from infrascope_core.run_files.candidates import candidate_files, source_fingerprint
from infrascope_core.run_files.ingestion import Ingested, ingest
from infrascope_core.run_files.name import is_run_name
from infrascope_core.run_files.rejections import forget_absent, reject_unknown_names, rejected_paths
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.folder import find_run_files
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder


@dataclass(frozen=True)
class Inbox:
    """What lies in the sources of a data folder, as it was found when this object was first asked."""

    folder: DataFolder

    @classmethod
    def of(cls, folder: DataFolder) -> Inbox:
        """The inbox of a folder; one listing of the sources serves as long as the folder object lives."""
        return folder.once("inbox", lambda: cls(folder))

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """Files below the sources by run key, those with unknown names included."""
        return find_run_files(self.folder.sources)

    @cached_property
    def keys(self) -> list[str]:
        """Run keys of the files whose names follow the grammar."""
        return [key for key, paths in self.files.items() if any(map(is_run_name, paths))]

    def fingerprint(self, key: str) -> str:
        """Fingerprint of the files that claim a run key, by name, size and time of change."""
        files = candidate_files(key, self.files.get(key, []), self.folder.lake)
        return source_fingerprint(files)

    def ingest(self, key: str) -> Ingested:
        """Read a run file into the lake; a bad one is rejected, not raised."""
        return ingest(key, self.files.get(key, []), self.folder.lake, self.folder.settings.reader)

    def rejections(self) -> list[str]:
        """Paths that `review_rejections` would list, and those with unknown names, sorted."""
        present = [path for paths in self.files.values() for path in paths]
        unknown = [str(path) for path in present if not is_run_name(path)]
        return sorted({*rejected_paths(self.folder.lake, present), *unknown})

    def review_rejections(self) -> pl.DataFrame:
        """Reject files with unknown names, forget files that are gone; returns `rejected_files`."""
        present = [path for paths in self.files.values() for path in paths]
        reject_unknown_names(present, self.folder.lake)
        return forget_absent(self.folder.lake, present)

    def outcome(self) -> tuple[int, int]:
        """How many run keys below the sources are accepted, and how many files below them are rejected."""
        used = set(accepted(self.folder)["run_key"]) & set(self.files)
        folders = {path.parent for paths in self.files.values() for path in paths}
        rejected = [path for path in map(Path, self.folder.lake.read(REJECTED_FILES)["path"]) if path.parent in folders]
        return len(used), len(rejected)
