"""Jobs: what a person starts by hand. Two of them bring the whole folder up to date, by the core's own refresh."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import polars as pl

from infrascope_core.importers.sources import import_sources
from infrascope_core.pipeline import prune, refresh
from infrascope_core.quantities import quantity
from infrascope_core.reports.wording import count
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope
from infrascope_dagster import adoption, loading
from infrascope_dagster.partitions import RUNS, align, keys_of
from infrascope_dagster.resources import DataFolderResource

READ = "read_run_files"
MAKE = "make_products"
STUDIES = "studies"
PRUNE = "prune_old_runs"
IMPORT = "import_telemetry"
BY_SCOPE = {
    READ: (Scope.ARRIVING, "Reads chosen run files into the lake, or rejects them."),
    MAKE: (Scope.PER_RUN, "Everything per run, from quality to the report, for chosen runs."),
    STUDIES: (
        Scope.STUDIED,
        "The paper's evaluations on the runs at hand: window lengths, similarity of runs, latency.",
    ),
}
"""Jobs of all assets of one scope, with what they are for."""


def _of_scope(graph: Graph, name: str, scope: Scope, description: str) -> Any:
    assets = [table.name for product in graph.order if product.scope is scope for table in product.tables]
    return dg.define_asset_job(name, selection=dg.AssetSelection.assets(*assets), description=description)


def bring_up_to_date(context: dg.OpExecutionContext, infrascope: DataFolderResource, graph: Graph, refit: bool) -> None:
    """Refresh the data folder in this step, and report each product on its asset as it was made."""
    folder = infrascope.folder()
    align(context.instance, folder, graph)
    batch = len(keys_of(context.instance, RUNS))

    def on_made(product: Product, run_key: str | None, frames: Sequence[pl.DataFrame]) -> None:
        if run_key is None:
            context.log_event(adoption.of_pooled(graph, folder, product.tables[0], frames[0]))
            return
        reason = adoption.why_rejected(folder, run_key) if product.scope is Scope.ARRIVING else None
        events: Iterable[adoption.Event] = (
            adoption.of_run(graph, folder, product, run_key, frames, batch=batch)
            if reason is None
            else adoption.of_rejected(graph, folder, product, run_key, reason)
        )
        for event in events:
            context.log_event(event)

    def on_progress(product: str, done: int, total: int) -> None:
        if done == total:
            context.log.info(f"{product}: {done} of {total}")

    refresh(folder, refit, on_progress, graph=graph, on_made=on_made)
    align(context.instance, infrascope.folder(), graph)


def _refresh(graph: Graph, name: str, refit: bool, description: str) -> dg.JobDefinition:
    @dg.op(name=f"{name}_folder", description=description)
    def body(context: dg.OpExecutionContext, infrascope: DataFolderResource) -> None:
        bring_up_to_date(context, infrascope, graph, refit)

    @dg.job(name=name, description=description)
    def job() -> None:
        body()

    return job


def _prune(graph: Graph) -> dg.JobDefinition:
    @dg.op(name="prune_old_runs_of_folder", description="Drops samples and features of old runs (`retention.days`).")
    def body(context: dg.OpExecutionContext, infrascope: DataFolderResource) -> None:
        folder = infrascope.folder()
        if folder.settings.retention.days is None:
            context.log.info("retention.days is not set: everything is kept")
            return
        before = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=folder.settings.retention.days)
        done = prune(folder, before, graph=graph)
        context.log.info(f"{count(len(done.runs), 'run')} pruned, {quantity(done.bytes, 'bytes')} free")

    @dg.job(name=PRUNE, description="Drops samples and features of old runs, and keeps all that was made of them.")
    def job() -> None:
        body()

    return job


@dg.op(name="import_telemetry_of_sources", description="Makes run files of what is new in sources that are telemetry.")
def _import_telemetry(context: dg.OpExecutionContext, infrascope: DataFolderResource) -> None:
    def on_progress(what: str, done: int, total: int) -> None:
        context.log.info(f"{what}: {done}")

    import_sources(infrascope.folder(), on_progress)


@dg.job(name=IMPORT, description="Makes run files of what is new in sources that are telemetry (docs/importing.md).")
def _import_job() -> None:
    _import_telemetry()


@dg.definitions
def defs() -> dg.Definitions:
    """All jobs, on the graph that is being loaded."""
    graph = loading.project().graph
    return dg.Definitions(
        jobs=[
            *(_of_scope(graph, name, *of) for name, of in BY_SCOPE.items()),
            _refresh(
                graph,
                "refresh",
                False,
                "The first load, or whatever is new: every product that is not current, in order, in one run.",
            ),
            _refresh(
                graph,
                "refit_and_remine",
                True,
                "Catalogue, thresholds and baselines anew from all runs; what differs by them made anew; patterns "
                "mined again. On purpose only: no schedule starts it.",
            ),
            _prune(graph),
            _import_job,
        ]
    )
