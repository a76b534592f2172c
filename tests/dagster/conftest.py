from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from infrascope_core.run_files.tables import RUN_FILES
from infrascope_dagster.definitions import build_defs
from infrascope_dagster.in_process import ASSETS
from infrascope_dagster.partitions import RUN_FILES, range_tags
from infrascope_dagster.resources import PipelineResource


class Location:
    """A data folder with its own definitions and instance."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.resource = PipelineResource(data=str(folder / "data"), sources=[str(self.runs)])
        self.defs = build_defs(self.resource)
        self.instance = instance

    @property
    def folder(self):
        return self.resource.pipeline()

    def materialize(self, *assets: str, keys: list[str] = (), **config: object):
        """One run of the named assets, as the UI would start it."""
        known = self.instance.get_dynamic_partitions(RUN_FILES.name)
        self.instance.add_dynamic_partitions(RUN_FILES.name, [k for k in keys if k not in known])
        return dg.materialize(
            ASSETS,
            selection=list(assets),
            resources={"infrascope": self.resource},
            instance=self.instance,
            tags=range_tags(list(keys)) if keys else {},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **config},
            raise_on_error=False,
        )

    def materialized(self, asset: str) -> set[str]:
        return set(self.instance.get_materialized_partitions(dg.AssetKey(asset)))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def location(tmp_path, instance):
    return Location(tmp_path, instance)
