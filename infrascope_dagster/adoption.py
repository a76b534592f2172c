"""What the data folder holds and Dagster has no record of: made by the command line, or by a run that was killed."""

from collections.abc import Iterator

import dagster as dg

from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product
from infrascope_dagster import presentation
from infrascope_dagster.partitions import RUN_FILES_NAME

_MANY = 10**9
"""No pictures are drawn of runs that are adopted: the sensor has seconds, not minutes."""


def unrecorded(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> Iterator[dg.AssetMaterialization]:
    """Materializations of all products that are current in the data folder and unknown to the instance.

    Each holds its own partition's figures, as a run would have recorded them.
    """
    yield from _per_run(instance, folder, graph)
    yield from _pooled(instance, folder, graph)


def _per_run(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> Iterator[dg.AssetMaterialization]:
    here = set(graph.runs(folder)["run_key"]) & set(instance.get_dynamic_partitions(RUN_FILES_NAME))
    products = [product for product in graph.order if product.scope.per_run]
    missing = {p.name: here - instance.get_materialized_partitions(dg.AssetKey(p.name)) for p in products}
    if not any(missing.values()):
        return
    stale = graph.stale(folder, here & set(Inbox.of(folder).keys))
    for product in products:
        for key in sorted(missing[product.name] - stale[product.name]):
            yield from record_of_run(folder, product, key)


def record_of_run(folder: DataFolder, product: Product, key: str) -> Iterator[dg.AssetMaterialization]:
    """The materializations of a product of one run, read from the lake."""
    frames = [folder.lake.read(table, key) for table in product.tables if not table.wide]
    frames = frames if len(frames) == len(product.tables) else frames[:1]
    shown = presentation.of_run(folder, product, key, frames, batch=_MANY)
    for table in product.tables:
        yield dg.AssetMaterialization(table.name, partition=key, metadata={**shown[table.name], "kept": True})


def _pooled(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> Iterator[dg.AssetMaterialization]:
    for product in graph.order:
        table = product.tables[0]
        version = None if product.scope.per_run else folder.lake.version(table)
        if version is not None and version != _recorded_version(instance, table.name):
            yield dg.AssetMaterialization(
                table.name,
                metadata=presentation.of_pooled(folder, table, folder.lake.read(table)),
                tags={"dagster/data_version": version},
            )


def _recorded_version(instance: dg.DagsterInstance, asset: str) -> str | None:
    event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    materialization = event.asset_materialization if event else None
    return (materialization.tags or {}).get("dagster/data_version") if materialization else None
