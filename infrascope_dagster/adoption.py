"""What lies in the data folder as materializations: for what is made, or was made, outside of its own asset's step.

What belongs here: the events, and which of them an instance lacks, because the command line made the product, or a run
that was killed.
"""

from collections.abc import Iterator, Sequence, Set

import dagster as dg
import polars as pl

from infrascope_core.contract import Table
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product
from infrascope_dagster import presentation
from infrascope_dagster.partitions import PARTITIONS, RUN_FILES, RUNS, keys_of, latest_records, rejected
from infrascope_dagster.versions import CONTENT, tags_of

Event = dg.AssetMaterialization | dg.AssetObservation


def of_run(
    graph: Graph,
    folder: DataFolder,
    product: Product,
    run_key: str,
    frames: Sequence[pl.DataFrame],
    *,
    batch: int,
    kept: bool = False,
) -> Iterator[dg.AssetMaterialization]:
    """A materialization of each table of a product of a run; `frames` and `batch` as in `presentation.of_run`."""
    shown = presentation.of_run(folder, product, run_key, frames, batch, pictures=False)
    tags = tags_of(graph, folder, product)
    for table in product.tables:
        metadata = {**shown[table.name], "kept": True} if kept else shown[table.name]
        yield dg.AssetMaterialization(table.name, partition=run_key, metadata=metadata, tags=tags)


def of_pooled(graph: Graph, folder: DataFolder, table: Table, frame: pl.DataFrame) -> dg.AssetMaterialization:
    """The materialization of a pooled product."""
    return dg.AssetMaterialization(
        table.name,
        metadata=presentation.of_pooled(folder, table, frame),
        tags={**tags_of(graph, folder, graph.product(table)), CONTENT: folder.lake.version(table) or ""},
    )


def unrecorded(
    instance: dg.DagsterInstance, folder: DataFolder, graph: Graph, *, thorough: bool = True
) -> Iterator[Event]:
    """Materializations of all products that are current in the data folder and unknown to the instance.

    Each holds its own partition's figures, as a run would have recorded them. A rejected file has its reason.

    Parameters
    ----------
    instance : dagster.DagsterInstance
        What is recorded.
    folder : DataFolder
        What is there.
    graph : Graph
        The products.
    thorough : bool
        Look also for what was recorded of another file of the same name, or as failed: some seconds at 1,200 runs.
    """
    yield from _unrecorded_per_run(instance, folder, graph, thorough)
    yield from _unrecorded_rejections(instance, folder, graph)
    for product in graph.order:
        table = product.tables[0]
        version = None if product.scope.per_run else folder.lake.version(table)
        if version is not None and version != _recorded_content(instance, table.name):
            yield of_pooled(graph, folder, table, folder.lake.read(table))


def _unrecorded_per_run(
    instance: dg.DagsterInstance, folder: DataFolder, graph: Graph, thorough: bool
) -> Iterator[dg.AssetMaterialization]:
    here = set(graph.runs(folder)["run_key"]) & set(keys_of(instance, RUNS))
    products = [product for product in graph.order if product.scope.per_run]
    missing = {p.name: here - instance.get_materialized_partitions(dg.AssetKey(p.name)) for p in products}
    if thorough:
        other = _of_another_file(instance, folder, here)
        missing = {p.name: missing[p.name] | other | _failed(instance, p, here) for p in products}
    if not any(missing.values()):
        return
    stale = graph.stale(folder, here & set(Inbox.of(folder).keys))
    for product in products:
        for key in sorted(missing[product.name] - stale[product.name]):
            yield from of_run(
                graph, folder, product, key, kept_frames(folder, product, key), batch=len(here), kept=True
            )


def _of_another_file(instance: dg.DagsterInstance, folder: DataFolder, keys: Set[str]) -> set[str]:
    """Those of the runs whose file was recorded with another hash."""
    recorded = {
        key: (record.asset_materialization.metadata.get(presentation.SHA256) if record.asset_materialization else None)
        for key, record in latest_records(instance.fetch_materializations, dg.AssetKey(tables.RUN_FILES.name)).items()
    }
    now = dict(folder.lake.read_all(tables.RUN_FILES).select("run_key", "sha256").iter_rows())
    hashes = {key: dg.MetadataValue.text(presentation.shown_hash(sha256 or "")) for key, sha256 in now.items()}
    return {key for key in keys & recorded.keys() if recorded[key] != hashes.get(key)}


def _failed(instance: dg.DagsterInstance, product: Product, keys: Set[str]) -> set[str]:
    """Those of the runs of which Dagster shows that the product failed."""
    partitions = PARTITIONS[product.scope]
    found: set[str] = set()
    for table in product.tables:
        states = instance.get_status_by_partition(dg.AssetKey(table.name), list(keys), partitions) or {}
        found |= {key for key, state in states.items() if state == dg.AssetPartitionStatus.FAILED}
    return found


def _unrecorded_rejections(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> Iterator[Event]:
    product = graph.product(tables.RUN_FILES)
    keys = sorted(rejected(folder, graph) & set(keys_of(instance, RUN_FILES)))
    if not keys:
        return
    of_these = dg.AssetRecordsFilter(dg.AssetKey(product.name), asset_partitions=keys)
    said = latest_records(instance.fetch_materializations, of_these)
    for key in keys:
        reason = why_rejected(folder, key) or ""
        last = said[key].asset_materialization if key in said else None
        if last is None or presentation.reason(reason).items() - last.metadata.items():
            yield from of_rejected(graph, folder, product, key, reason)


def of_rejected(graph: Graph, folder: DataFolder, product: Product, run_key: str, reason: str) -> Iterator[Event]:
    """A file that was rejected: its row in the first table is there, with the reason; the others have nothing."""
    first, *others = product.tables
    metadata = {"status": "rejected", **presentation.reason(reason)}
    yield dg.AssetMaterialization(
        first.name, partition=run_key, metadata=metadata, tags=tags_of(graph, folder, product)
    )
    yield from of_failed(others, run_key, reason)


def of_failed(made: Sequence[Table], run_key: str, reason: str) -> Iterator[dg.AssetObservation]:
    """Why a run has no product, for the pages of its partitions."""
    for table in made:
        yield dg.AssetObservation(table.name, partition=run_key, metadata=presentation.reason(reason))


def why_rejected(folder: DataFolder, run_key: str) -> str | None:
    """Why a run file was rejected; None if it was not, or is not read."""
    if not folder.lake.has(tables.RUN_FILES, run_key):
        return None
    status, reason = folder.lake.read(tables.RUN_FILES, run_key).select("status", "reason").row(0)
    return str(reason) if status == "rejected" else None


def kept_frames(folder: DataFolder, product: Product, run_key: str) -> list[pl.DataFrame]:
    """The tables of a product of a run as they lie in the lake, up to one that is too wide to be read for it."""
    frames = []
    for table in product.tables:
        if table.wide:
            break
        frames.append(folder.lake.read_cached(table, run_key))
    return frames


def _recorded_content(instance: dg.DagsterInstance, asset: str) -> str | None:
    event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    materialization = event.asset_materialization if event else None
    return (materialization.tags or {}).get(CONTENT) if materialization else None
