"""The assets: one factory for products per run, one for pooled products. What they do stands in the core."""

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import dagster as dg
import polars as pl

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope
from infrascope_dagster import adoption, loading, presentation
from infrascope_dagster.automation import Staleness, condition_of
from infrascope_dagster.batches import MetadataByAsset, each_key, record
from infrascope_dagster.partitions import BATCH, PARTITIONS, RUN_FILES
from infrascope_dagster.resources import DataFolderResource, owners
from infrascope_dagster.versions import CONTENT, deps_of, tags_of, version_of

WAREHOUSE_POOL = "warehouse"
"""Pooled products are made one at a time: each reads all runs."""

source_files = dg.AssetSpec(
    "source_files",
    partitions_def=RUN_FILES,
    group_name="run_files",
    owners=owners(),
    kinds={"file"},
    description="The run file as it lies on disk; the sensor reports new and changed ones.",
)


class Fit(dg.Config):
    """Whether to make anew what is fitted already."""

    refit: bool = False


def specs_of(graph: Graph, product: Product, staleness: Staleness) -> list[dg.AssetSpec]:
    """One spec for each table of a product."""
    return [
        dg.AssetSpec(
            table.name,
            deps=deps_of(graph, product),
            partitions_def=PARTITIONS.get(product.scope),
            group_name=product.stage,
            owners=owners(),
            tags=presentation.tags(product, table),
            kinds={*product.libraries, *(["parquet"] if product.scope.per_run else [])},
            code_version=product.code_version,
            description=table.meaning,
            metadata=presentation.of_definition(graph, table),
            automation_condition=condition_of(graph, product, staleness),
        )
        for table in product.tables
    ]


def per_run(graph: Graph, product: Product, staleness: Staleness) -> dg.AssetsDefinition:
    """The asset, or assets, of a product per run.

    A key whose product is current is kept as it is: making is deterministic, so that a refit which changes nothing
    for a run costs it nothing.
    """

    @dg.multi_asset(
        name=product.name,
        specs=specs_of(graph, product, staleness),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=BATCH),
    )
    def body(context: dg.AssetExecutionContext, infrascope: DataFolderResource) -> Iterator[dg.MaterializeResult]:
        folder, batch = infrascope.folder(), len(context.partition_keys)
        for model in graph.models_to_visit(folder, product):
            visit(context, infrascope, graph, model)

        def work(key: str) -> MetadataByAsset:
            kept = graph.is_current(folder, product.name, key)
            if kept:
                frames = adoption.kept_frames(folder, product, key)
            else:
                frames = list(graph.make(folder, product.name, key))
            if product.scope is Scope.ARRIVING and (reason := adoption.why_rejected(folder, key)) is not None:
                raise InfraScopeError(reason)
            shown = presentation.of_run(folder, product, key, frames, batch)
            was_kept = {"kept": True} if kept else {}
            return {table.name: shown.get(table.name, {}) | was_kept for table in product.tables}

        with fetched_ahead(graph, folder, product, context.partition_keys):
            good, bad = each_key(context, context.partition_keys, work)
        bad_later: dict[str, str] = {}
        if product.scope is Scope.PER_RUN:
            for key in [key for key in bad if overtaken(context, folder, key)]:
                context.log.info(f"{key}: its file was read again meanwhile ({bad.pop(key)}); it is asked for again")
            bad_later = finish(context, infrascope, graph, product, good.keys()) if bad else {}
        if good:
            folder.lake.save_index()
            infrascope.publish(graph)

        def why(key: str, reason: str) -> Iterator[adoption.Event]:
            if product.scope is Scope.ARRIVING and adoption.why_rejected(folder, key) is not None:
                return adoption.of_rejected(graph, folder, product, key, reason)
            return adoption.of_failed(product.tables, key, reason)

        record(context, good, bad, tags=tags_of(graph, folder, product), why=why, bad_later=bad_later)
        for table in product.tables:
            yield dg.MaterializeResult(asset_key=table.name, data_version=version_of(graph, product))

    return body


@contextmanager
def fetched_ahead(graph: Graph, folder: DataFolder, product: Product, keys: Sequence[str]) -> Iterator[None]:
    """While the block runs, run files that lie far away are fetched a few before the one that is read."""
    with ExitStack() as stack:
        if product.scope is Scope.ARRIVING:
            with suppress(InfraScopeError):  # a source is missing: each key says so itself
                stale = [key for key in keys if not graph.is_current(folder, product.name, key)]
                stack.enter_context(Inbox.of(folder).ahead(stale))
        yield


def overtaken(context: dg.AssetExecutionContext, folder: DataFolder, key: str) -> bool:
    """Whether a file was read, perhaps rejected, since this run began: what is made of it is stale, and no fault."""
    path, record = folder.lake.path(tables.RUN_FILES, key), context.instance.get_run_record_by_id(context.run.run_id)
    if record is None or record.start_time is None or not path.exists():
        return False
    return bool(path.stat().st_mtime > record.start_time)


def finish(
    context: dg.AssetExecutionContext, infrascope: DataFolderResource, graph: Graph, product: Product, keys: Set[str]
) -> dict[str, str]:
    """Make what else the run was to make of the good keys of a step that is about to fail; returns reasons by bad key.

    Dagster skips what comes after a failed step for all keys, and shows all of it as failed.
    """
    folder, bad = infrascope.folder(), dict[str, str]()
    asked = context.job_def.asset_layer.selected_asset_keys
    for later in graph.order[graph.order.index(product) + 1 :]:
        if later.scope is not Scope.PER_RUN or dg.AssetKey(later.name) not in asked:
            continue

        def work(key: str, later: Product = later) -> MetadataByAsset:
            for model in graph.models_to_visit(folder, later):
                visit(context, infrascope, graph, model)
            if not graph.is_current(folder, later.name, key):
                frames = list(graph.make(folder, later.name, key))
                for event in adoption.of_run(graph, folder, later, key, frames, batch=len(keys)):
                    context.log_event(event)
            return {}

        _, failed = each_key(context, sorted(keys - bad.keys()), work)
        for key, reason in failed.items():
            for event in adoption.of_failed(later.tables, key, reason):
                context.log_event(event)
        bad |= failed
    return bad


def visit(context: dg.AssetExecutionContext, infrascope: DataFolderResource, graph: Graph, model: Product) -> None:
    """Let a model fill what it lacks, on the runs that are there, and report it on its asset if it changed.

    A run that makes products per run cannot wait for an asset outside of it.
    """
    folder, table = infrascope.folder(), model.tables[0]
    before = folder.lake.version(table)
    frame = make_pooled(graph, folder, model)
    if folder.lake.version(table) != before:
        context.log.info(f"{table.name}: fitted what it lacked, on the runs at hand")
        context.log_event(adoption.of_pooled(graph, folder, table, frame))
        # Dagster looked up the versions of this step's inputs before it began: this one is younger
        context.get_step_execution_context().wipe_input_asset_version_info(dg.AssetKey(table.name))


def make_pooled(graph: Graph, folder: DataFolder, product: Product, refit: bool = False) -> pl.DataFrame:
    """Make a pooled product; what is fitted, not on half of the runs that a refresh of the folder is reading."""
    with folder.lock("refresh") if product.scope is Scope.FITTED else nullcontext():
        return graph.make_pooled(folder, product.name, refit=refit)


def pooled(graph: Graph, product: Product, staleness: Staleness) -> dg.AssetsDefinition:
    """The asset of a pooled product."""
    table = product.tables[0]

    @dg.multi_asset(name=product.name, specs=specs_of(graph, product, staleness), pool=WAREHOUSE_POOL)
    def body(config: Fit, infrascope: DataFolderResource) -> dg.MaterializeResult:
        folder = infrascope.folder()
        # what is measured or listed is measured and listed when somebody asks
        keep = product.scope in (Scope.FITTED, Scope.MINED, Scope.COMPARED) and not config.refit
        if keep and graph.is_current(folder, table):
            frame = folder.lake.read(table)
        else:
            frame = make_pooled(graph, folder, product, refit=config.refit)
            infrascope.publish(graph)
        return dg.MaterializeResult(
            asset_key=table.name,
            metadata=presentation.of_pooled(folder, table, frame),
            data_version=version_of(graph, product),
            tags={CONTENT: folder.lake.version(table) or ""},
        )

    return body


def assets_of(graph: Graph, infrascope: DataFolderResource) -> list[Any]:
    """All assets of a graph, for one data folder."""
    staleness = Staleness(graph, infrascope.folder)
    return [
        source_files,
        *((per_run if product.scope.per_run else pooled)(graph, product, staleness) for product in graph.order),
    ]


@dg.definitions
def defs() -> dg.Definitions:
    """The assets of the project that is being loaded."""
    project = loading.project()
    return dg.Definitions(assets=assets_of(project.graph, project.infrascope))
