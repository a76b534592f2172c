"""Jobs: what a person starts by hand. Two of them bring the whole folder up to date, by the core's own refresh."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl

from infrascope_core.pipeline import refresh
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope
from infrascope_dagster import adoption, loading
from infrascope_dagster.partitions import register
from infrascope_dagster.resources import DataFolderResource


def per_run_assets(graph: Graph) -> list[str]:
    """Names of the assets per run, in order."""
    return [table.name for product in graph.order if product.scope.per_run for table in product.tables]


def _new_runs(graph: Graph) -> Any:
    return dg.define_asset_job(
        "new_runs",
        selection=dg.AssetSelection.assets(*per_run_assets(graph)),
        description="Everything per run, from the run file to the report, for chosen keys.",
    )


def _studies(graph: Graph) -> Any:
    studied = [product.name for product in graph.order if product.scope is Scope.STUDIED]
    return dg.define_asset_job(
        "studies",
        selection=dg.AssetSelection.assets(*studied),
        description="The paper's evaluations on the runs at hand: window lengths, similarity of runs, latency.",
    )


def bring_up_to_date(context: dg.OpExecutionContext, infrascope: DataFolderResource, graph: Graph, refit: bool) -> None:
    """Refresh the data folder in this step, and report each product on its asset as it was made."""
    folder = infrascope.folder()
    register(context.instance, Inbox.of(folder).keys)

    def on_made(product: Product, run_key: str | None, frames: Sequence[pl.DataFrame]) -> None:
        if run_key is None:
            context.log_event(adoption.of_pooled(folder, product.tables[0], frames[0]))
        elif (
            product.scope is not Scope.ARRIVING or frames[0]["status"][0] == "accepted"
        ):  # else it is in rejected_files
            for event in adoption.of_run(folder, product, run_key, frames):
                context.log_event(event)

    def on_progress(product: str, done: int, total: int) -> None:
        if done == total:
            context.log.info(f"{product}: {done} of {total}")

    refresh(folder, refit, on_progress, graph=graph, on_made=on_made)


def _refresh(graph: Graph, name: str, refit: bool, description: str) -> dg.JobDefinition:
    @dg.op(name=f"{name}_folder", description=description)
    def body(context: dg.OpExecutionContext, infrascope: DataFolderResource) -> None:
        bring_up_to_date(context, infrascope, graph, refit)

    @dg.job(name=name, description=description)
    def job() -> None:
        body()

    return job


@dg.definitions
def defs() -> dg.Definitions:
    """All jobs, on the graph that is being loaded."""
    graph = loading.project().graph
    return dg.Definitions(
        jobs=[
            _new_runs(graph),
            _studies(graph),
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
        ]
    )
