"""The one resource: a data folder, the settings to fill it by, and where run files lie."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

import dagster as dg
import duckdb
from dagster_duckdb import DuckDBResource
from pydantic import Field

from infrascope_core.settings import load_settings
from infrascope_core.store.folder import REMOTE, DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.warehouse import is_published, publish
from infrascope_dagster.config import SettingsConfig, config_of, settings_of


class DataFolderResource(dg.ConfigurableResource):
    """What every asset needs."""

    data: str = Field(description="Folder of the lake, the models, the reports and warehouse.duckdb.")
    sources: list[str] = Field(
        description="Files, folders and zip archives in which run files are looked for, and data sets of the Hugging "
        "Face Hub as hub:OWNER/NAME, perhaps with @REVISION and ?workload=…&phase=…&runs=… (docs/sources.md); YAML "
        "files that say what telemetry is imported (docs/importing.md)."
    )
    settings: SettingsConfig = Field(default_factory=SettingsConfig, description="What differs from the defaults.")  # type: ignore[valid-type]

    def folder(self) -> DataFolder:
        """The core's data folder."""
        sources = tuple(Path(source) for source in self.sources)
        return DataFolder(Path(self.data), settings_of(self.settings), sources)

    def publish(self, graph: Graph) -> None:
        """Show the lake's present state in the warehouse file (built aside, then renamed), if it does not show it."""
        folder = self.folder()
        if not is_published(folder, graph):
            publish(folder, graph, _connect)


def of_folder(folder: DataFolder) -> DataFolderResource:
    """The resource that gives back a data folder."""
    sources = [str(source) for source in folder.sources]
    return DataFolderResource(data=str(folder.root), sources=sources, settings=config_of(folder.settings))


def from_environment() -> DataFolderResource:
    """INFRASCOPE_DATA, INFRASCOPE_RUNS (sources, separated as in PATH) and INFRASCOPE_SETTINGS (a YAML file)."""
    settings = load_settings(os.environ.get("INFRASCOPE_SETTINGS"))
    return DataFolderResource(
        data=os.environ.get("INFRASCOPE_DATA", "data"),
        sources=sources_of(os.environ.get("INFRASCOPE_RUNS", "data/sample")),
        settings=config_of(settings),
    )


def sources_of(text: str) -> list[str]:
    """The sources that a variable names, separated as in PATH; the colon in `hub:OWNER/NAME` separates nothing."""
    found: list[str] = []
    for part in text.split(os.pathsep):
        if found and found[-1] + os.pathsep == REMOTE:
            found[-1] = REMOTE + part
        else:
            found.append(part)
    return found


def owners() -> list[str]:
    """INFRASCOPE_OWNERS (addresses, or `team:NAME`, separated by commas): who is asked when an asset is red."""
    return os.environ.get("INFRASCOPE_OWNERS", "team:infrascope").split(",")


def _connect(path: str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return DuckDBResource(database=path).get_connection()
