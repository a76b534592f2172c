"""A data folder: the settings to fill it by, where its run files come from, and which of them were accepted.

What belongs here: what every step over the folder needs. The steps are in `steps`, `models` and `mining`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

from infrascope_core.errors import InfraScopeError
from infrascope_core.ingestion import Ingested, forget_absent, ingest, offer, reject_unknown_names
from infrascope_core.lake import Lake
from infrascope_core.recipes import Recipe, load_recipe
from infrascope_core.run_file.name import is_run_name
from infrascope_core.run_file.sources import find_run_files
from infrascope_core.settings import Settings
from infrascope_core.tables import REJECTED_FILES, RUN_FILES


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
            The recipe cannot be used, or a source does not exist.
        """
        _ = self.recipe
        for source in self.sources:
            if not source.exists():
                raise InfraScopeError(f"{source}: no such file or folder")

    def find(self) -> dict[str, list[Path]]:
        """Run files below the sources by run key, those with unknown names included."""
        return find_run_files(self.sources)

    def offers(self) -> dict[str, str]:
        """Fingerprint by run key of the files below the sources, less those with unknown names."""
        return {
            key: offer(paths, self.settings.reader)
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
        row = self.lake.read("run_files", key)
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

    def files(self, table: str, keys: Sequence[str]) -> list[Path]:
        """Files of a per-run table."""
        return self.lake.files(table, keys)

    def window_length(self, key: str) -> timedelta:
        """Length of a run's feature windows."""
        interval = self.run_file(key)["interval_s"]
        assert interval is None or isinstance(interval, float)
        return timedelta(seconds=self.settings.features.samples * (interval or 0.0))
