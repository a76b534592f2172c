"""The inbox: the run files that lie in a data folder's sources, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from infrascope_core.run_files.candidates import candidate_files, source_fingerprint
from infrascope_core.run_files.ingestion import Ingested, ingest
from infrascope_core.run_files.inventory import compared, inventory
from infrascope_core.run_files.meta import read_metas
from infrascope_core.run_files.name import is_run_name, run_key
from infrascope_core.run_files.rejections import forget_absent, reject_unknown_names, rejected_paths, rejected_within
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.entry import Entry, Listing
from infrascope_core.run_files.sources.imported import import_folder, is_import
from infrascope_core.run_files.sources.listing import list_source
from infrascope_core.run_files.tables import REJECTED_FILES, RUN_INVENTORY
from infrascope_core.store.folder import DataFolder, is_remote


@dataclass(frozen=True)
class Inbox:
    """What lies in the sources of a data folder, as it was found when this object was first asked."""

    folder: DataFolder

    @classmethod
    def of(cls, folder: DataFolder) -> Inbox:
        """The inbox of a folder; one listing of the sources serves as long as the folder object lives."""
        return folder.once("inbox", lambda: cls(folder))

    @cached_property
    def listings(self) -> list[Listing]:
        """What lies in each source."""
        return [list_source(source, kept_of(self.folder)) for source in self.folder.sources]

    @cached_property
    def files(self) -> dict[str, list[Entry]]:
        """Files in the sources by run key, those with unknown names included; a file in two sources counts once."""
        found: dict[str, dict[Path, Entry]] = {}
        for listing in self.listings:
            for entry in listing.wanted:
                found.setdefault(run_key(entry.path), {}).setdefault(entry.path, entry)
        return {key: [found[key][path] for path in sorted(found[key])] for key in sorted(found)}

    @cached_property
    def keys(self) -> list[str]:
        """Run keys of the files whose names follow the grammar."""
        return [key for key, entries in self.files.items() if any(is_run_name(entry.path) for entry in entries)]

    @property
    def notices(self) -> list[str]:
        """What a person should know about the sources: a sentence each."""
        return [notice for listing in self.listings for notice in (*listing.notices, *read_metas(listing.metas)[1])]

    def fingerprint(self, key: str) -> str:
        """Fingerprint of the files that claim a run key, by name, size and time of change or checksum."""
        return source_fingerprint(candidate_files(key, self.files.get(key, []), self.folder.lake))

    def is_refuted(self, key: str) -> bool:
        """Whether a file that claims a run key was rejected for what may have been mended: see `Entry.around`."""
        entries = [entry for entry in self.files.get(key, []) if entry.around]
        read = [each for entry in entries for each in (entry, entry.labels, entry.types) if each is not None]
        return any(rejected_within(each.path, self.folder.lake) not in (None, each.around) for each in read)

    def ingest(self, key: str) -> Ingested:
        """Read a run file into the lake; a bad one is rejected, not raised."""
        return ingest(key, self.files.get(key, []), self.folder.lake, self.folder.settings.reader)

    @contextmanager
    def ahead(self, keys: Iterable[str]) -> Iterator[None]:
        """While the block runs, these keys will be read, in this order: what is far away is fetched meanwhile."""
        entries = [entries[0] for key in keys if (entries := self.files.get(key))]
        with ExitStack() as stack:
            for listing in self.listings:
                stack.enter_context(listing.ahead(entries))
            yield

    def rejections(self) -> list[str]:
        """Paths that `review_rejections` would list, and those with unknown names, sorted."""
        present = [entry for entries in self.files.values() for entry in entries]
        unknown = [str(entry.path) for entry in present if not is_run_name(entry.path)]
        known = rejected_paths(self.folder.lake, [entry.path for entry in present], self._searched)
        return sorted({*known, *unknown})

    def review_rejections(self) -> pl.DataFrame:
        """Reject files with unknown names, forget files that are gone; returns `rejected_files`."""
        present = [entry for entries in self.files.values() for entry in entries]
        reject_unknown_names(present, self.folder.lake)
        return forget_absent(self.folder.lake, [entry.path for entry in present], self._searched)

    @property
    def _searched(self) -> list[Path]:
        kept = kept_of(self.folder)
        local = [source for source in self.folder.sources if not is_remote(source)]
        return [(import_folder(each, kept) if is_import(each) else each).absolute() for each in local]

    def inventory(self) -> pl.DataFrame:
        """The table `run_inventory`: anew for the sources that are listed, and as it was for those that still exist."""
        lake = self.folder.lake
        listed = {listing.source for listing in self.listings}
        held = lake.read(RUN_INVENTORY) if lake.has(RUN_INVENTORY) else RUN_INVENTORY.empty()
        others = [s for s in held["source"].unique() if s not in listed and _is_there(Path(s))]
        parts = [held.filter(pl.col("source").is_in(others))]
        return compared(pl.concat([*parts, *self._listed]), accepted(self.folder))

    @cached_property
    def _listed(self) -> list[pl.DataFrame]:
        return [inventory(listing, read_metas(listing.metas)[0]) for listing in self.listings]

    def outcome(self) -> tuple[int, int]:
        """How many run keys of the sources are accepted, and how many files in them are rejected; of all, without."""
        keys, rejected = accepted(self.folder)["run_key"], self.folder.lake.read(REJECTED_FILES)["path"]
        if not self.folder.sources:
            return len(keys), len(rejected)
        folders = {entry.path.parent for entries in self.files.values() for entry in entries}
        return len(set(keys) & set(self.files)), sum(path.parent in folders for path in map(Path, rejected))


def _is_there(source: Path) -> bool:
    """Whether a source of an earlier call may still be there; relative paths are of an earlier version."""
    return is_remote(source) or (source.is_absolute() and source.exists())


def kept_of(folder: DataFolder) -> Path:
    """Where a data folder keeps what belongs to its sources: commits of data sets, and imported run files."""
    return folder.root / "sources"
