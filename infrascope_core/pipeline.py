"""A data folder: the settings to fill it by, where its run files come from, and which of them were accepted.

What belongs here: what every step over the folder needs. The steps are in `steps`, `models` and `mining`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

from infrascope_core.errors import InfraScopeError
from infrascope_core.ingestion import Ingested, claimants, forget_absent, ingest, offer, reject_unknown_names
from infrascope_core.lake import Lake
from infrascope_core.recipes import Recipe, load_recipe
from infrascope_core.run_file.name import is_run_name
from infrascope_core.run_file.sources import find_run_files
from infrascope_core.settings import Settings, load_settings
from infrascope_core.tables import REJECTED_FILES, RUN_FILES

OnProduct = Callable[[str, int, int], None]
"""Told (table, done, total) while products are made."""

_SETTINGS = "settings.json"


@dataclass(frozen=True)
class Pipeline:
    """A data folder, the settings to fill it by, and where new run files lie.

    Attributes
    ----------
    data : Path
        Holds `lake/`, `models/` and `warehouse.duckdb`.
    sources : tuple of Path
        Files and folders in which run files are looked for.
    """

    data: Path
    settings: Settings = field(default_factory=Settings)
    sources: tuple[Path, ...] = ()

    @classmethod
    def as_last_run(cls, data: Path) -> Pipeline:
        """The pipeline over a data folder under the settings that it was last filled by.

        Raises
        ------
        InfraScopeError
            The folder was never filled.
        """
        if not (data / _SETTINGS).is_file():
            raise InfraScopeError(f"{data}: holds no lake yet; try `infrascope run PATH --data {data}`")
        return cls(data, load_settings(data / _SETTINGS))

    def remember_settings(self) -> None:
        """Leave the settings in the data folder, for who looks at it later."""
        (self.data / _SETTINGS).write_text(self.settings.model_dump_json(indent=1), encoding="utf-8")

    @cached_property
    def lake(self) -> Lake:
        """The Parquet files."""
        return Lake(self.data / "lake")

    @cached_property
    def recipe(self) -> Recipe:
        """The metric groups."""
        return load_recipe(self.settings.recipe)

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.data / "warehouse.duckdb"

    def check(self) -> None:
        """Look at what the caller gave before anything is made.

        Raises
        ------
        InfraScopeError
            The recipe cannot be used, a source does not exist, or the data folder cannot be written.
        """
        _ = self.recipe
        for source in self.sources:
            if not source.exists():
                raise InfraScopeError(f"{source}: no such file or folder")
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.data):
                pass
        except OSError as error:
            raise InfraScopeError(f"{self.data}: nothing can be written there ({error.strerror or error})") from None
        self.lake.sweep()

    def find(self) -> dict[str, list[Path]]:
        """Run files below the sources by run key, those with unknown names included."""
        return find_run_files(self.sources)

    def offers(self) -> dict[str, str]:
        """Fingerprint by run key of the files below the sources, less those with unknown names."""
        return {
            key: offer(claimants(key, paths, self.lake), self.settings.reader)
            for key, paths in self.find().items()
            if any(map(is_run_name, paths))
        }

    def is_ingested(self, key: str, offered: str) -> bool:
        """Whether the run key was ingested, or rejected, from just these files."""
        return self.lake.made_from("run_files", key) == offered

    def ingest(self, key: str, paths: Sequence[Path]) -> Ingested:
        """Read a run file into the lake; a bad one is rejected, not raised."""
        return ingest(key, paths, self.lake, self.settings.reader)

    def review_rejections(self) -> pl.DataFrame:
        """Reject files with unknown names, forget files that are gone; returns `rejected_files`."""
        present = [path for paths in self.find().values() for path in paths]
        reject_unknown_names(present, self.lake)
        return forget_absent(self.lake, present)

    def outcome(self) -> tuple[int, int]:
        """How many run keys below the sources are accepted, and how many files below them are rejected."""
        found = self.find()
        accepted = set(self.accepted()["run_key"]) & set(found)
        folders = {path.parent for paths in found.values() for path in paths}
        rejected = [path for path in map(Path, self.rejected_files()["path"]) if path.parent in folders]
        return len(accepted), len(rejected)

    def rejected_files(self) -> pl.DataFrame:
        """The table `rejected_files` as it stands."""
        files = self.lake.files("rejected_files", self.lake.keys("rejected_files"))
        return pl.read_parquet(files, glob=False).sort("path") if files else REJECTED_FILES.empty()

    def run_file(self, key: str) -> dict[str, object]:
        """The row of `run_files` of an accepted run.

        Raises
        ------
        InfraScopeError
            The run is unknown or was rejected.
        """
        row = self.lake.read_cached("run_files", key)
        if row.is_empty() or row["status"][0] != "accepted":
            raise InfraScopeError(f"{key}: no accepted run file of that name")
        return row.row(0, named=True)

    def platform(self, key: str) -> str:
        """Platform of an accepted run."""
        return str(self.run_file(key)["platform"])

    def accepted(self) -> pl.DataFrame:
        """Rows of `run_files` that were accepted, by run key."""
        files = self.lake.files("run_files", self.lake.keys("run_files"))
        if not files:
            return RUN_FILES.empty()
        return pl.read_parquet(files, glob=False).filter(pl.col("status") == "accepted").sort("run_key")

    def healthy(self) -> set[str]:
        """Keys of accepted runs whose label file holds no fault."""
        labelled = self.accepted().filter("labelled")["run_key"].to_list()
        return {key for key in labelled if self.lake.read_cached("faults", key).is_empty()}

    def window_length(self, key: str) -> timedelta:
        """Length of a run's feature windows."""
        return self._lasts(key, self.settings.features.samples)

    def stride(self, key: str) -> timedelta:
        """Time from one feature window of a run to the next."""
        return self._lasts(key, self.settings.features.stride)

    def _lasts(self, key: str, samples: int) -> timedelta:
        interval = self.run_file(key)["interval_s"]
        assert interval is None or isinstance(interval, float)
        return timedelta(seconds=samples * (interval or 0.0))
