"""A data folder with its own Dagster definitions and instance, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from infrascope_core.pipeline import GRAPH
from infrascope_core.store.graph import Graph
from infrascope_dagster.definitions import build_defs
from infrascope_dagster.defs.assets import assets_of
from infrascope_dagster.partitions import RUN_FILES, RUNS, keys_of, range_tags
from infrascope_dagster.resources import DataFolderResource


class Location:
    """A data folder with its own definitions and instance."""

    def __init__(
        self, place: Path, instance: dg.DagsterInstance, graph: Graph = GRAPH, runs: Path | None = None
    ) -> None:
        self.runs = runs or place / "runs"
        self.runs.mkdir(exist_ok=True)
        self.graph = graph
        self.resource = DataFolderResource(data=str(place / "data"), sources=[str(self.runs)])
        self.instance = instance

    @cached_property
    def defs(self) -> dg.Definitions:
        return build_defs(self.resource, self.graph)

    @cached_property
    def _assets(self) -> list[Any]:
        return assets_of(self.graph, self.resource)

    @property
    def folder(self):
        return self.resource.folder()

    def materialize(self, *assets: str, keys: Sequence[str] = (), **config: object):
        """One run of the named assets, as the UI would start it."""
        for partitions in (RUN_FILES, RUNS):
            known = set(keys_of(self.instance, partitions))
            self.instance.add_dynamic_partitions(str(partitions.name), [key for key in keys if key not in known])
        return dg.materialize(
            self._assets,
            selection=list(assets),
            resources={"infrascope": self.resource},
            instance=self.instance,
            tags=range_tags(list(keys)) if keys else {},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **config},
            raise_on_error=False,
        )

    def run_job(self, name: str):
        """One run of a job, as the UI would start it."""
        return self.defs.resolve_job_def(name).execute_in_process(instance=self.instance, raise_on_error=False)

    def materialized(self, asset: str) -> set[str]:
        return set(self.instance.get_materialized_partitions(dg.AssetKey(asset)))

    def unsynced(self) -> dict[tuple[str, str | None], str]:
        """What the UI marks as unsynced, and why."""
        graph = self.defs.get_repository_def().asset_graph
        loading = LoadingContextForTest(self.instance)
        resolver = CachingStaleStatusResolver(self.instance, graph, loading)
        found = {}
        for key in graph.materializable_asset_keys:
            named = getattr(graph.get(key).partitions_def, "name", None)
            for partition in self.instance.get_dynamic_partitions(named) if named else [None]:
                if resolver.get_status(key, partition) == StaleStatus.STALE:
                    causes = resolver.get_stale_causes(key, partition)
                    found[key.to_user_string(), partition] = "; ".join(
                        f"{cause.reason}: {cause.dependency_asset_key}" for cause in causes
                    )
        return found

    def metadata(self, asset: str, key: str | None = None) -> dict[str, dg.MetadataValue]:
        """What the latest materialization of an asset, or of one of its partitions, says."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[key] if key else None), limit=1
        ).records
        return dict(records[0].asset_materialization.metadata)
