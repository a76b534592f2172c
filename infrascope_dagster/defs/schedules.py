"""Schedules: what happens every day."""

from collections.abc import Iterator

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope
from infrascope_dagster import loading
from infrascope_dagster.partitions import INGEST_BATCH, PRODUCT_BATCH, range_tags, stretches
from infrascope_dagster.resources import DataFolderResource


def fill_missing(graph: Graph) -> dg.ScheduleDefinition:
    """Ask every morning for what is missing or stale, whatever became of it before."""
    products = [t.name for product in graph.order if product.scope is Scope.PER_RUN for t in product.tables]
    product_keys = [dg.AssetKey(name) for name in products]

    @dg.schedule(
        name="fill_missing",
        job_name="new_runs",
        cron_schedule="0 6 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Every morning: asks for run files that were not read, and for products that are missing or stale.",
    )
    def body(
        context: dg.ScheduleEvaluationContext, infrascope: DataFolderResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        # batches of two kinds, so that no product waits for a bad file
        day = context.scheduled_execution_time.strftime("%Y-%m-%d")
        instance, folder = context.instance, infrascope.folder()
        try:
            stale = graph.stale(folder, Inbox.of(folder).keys)
        except InfraScopeError as error:  # a source is missing
            yield dg.SkipReason(str(error))
            return
        unread = set().union(*(stale[p.name] for p in graph.order if p.scope is Scope.ARRIVING))
        unmade = set().union(*(stale[p.name] for p in graph.order if p.scope is Scope.PER_RUN))
        batches: list[tuple[list[dg.AssetKey] | None, list[str]]] = [
            (None, batch) for batch in stretches(instance, unread, INGEST_BATCH)
        ]
        batches += [(product_keys, batch) for batch in stretches(instance, unmade, PRODUCT_BATCH)]
        for selection, batch in batches:
            what = "products" if selection else "all"
            yield dg.RunRequest(run_key=f"{day} {what} {batch[0]}", asset_selection=selection, tags=range_tags(batch))
        if not batches:
            yield dg.SkipReason("every registered run file has all its products, and all of them are current")

    return body


@dg.definitions
def defs() -> dg.Definitions:
    """All schedules, on the graph that is being loaded."""
    return dg.Definitions(schedules=[fill_missing(loading.project().graph)])
