"""The one resource: a data folder, the settings to fill it by, and where run files lie."""

from contextlib import AbstractContextManager
from pathlib import Path

import dagster as dg
import duckdb
from dagster_duckdb import DuckDBResource
from pydantic import Field

from infrascope_core.store.folder import Pipeline
from infrascope_core.settings import Settings
from infrascope_core.store.warehouse import publish


class PipelineResource(dg.ConfigurableResource):
    """What every asset needs."""

    data: str = Field(description="Folder of the lake, the models and warehouse.duckdb.")
    sources: list[str] = Field(description="Files and folders in which run files are looked for.")
    settings: str = Field(default="{}", description="Settings as JSON; what is left out has its default.")

    def pipeline(self) -> Pipeline:
        """The core's pipeline over this data folder."""
        settings = Settings.model_validate_json(self.settings)
        return Pipeline(Path(self.data), settings, tuple(Path(source) for source in self.sources))

    def publish(self) -> None:
        """Show the lake's present state in the warehouse file (built aside, then renamed)."""
        pipeline = self.pipeline()
        publish(pipeline.lake, pipeline.warehouse, _connect)


def of(pipeline: Pipeline) -> PipelineResource:
    """The resource that gives back a pipeline."""
    return PipelineResource(
        data=str(pipeline.data),
        sources=[str(source) for source in pipeline.sources],
        settings=pipeline.settings.model_dump_json(),
    )


def _connect(path: str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return DuckDBResource(database=path).get_connection()
