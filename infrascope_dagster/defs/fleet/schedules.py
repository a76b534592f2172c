"""Jobs and schedules: what a person starts by hand, and what happens every day."""

from collections.abc import Iterator

import dagster as dg

from infrascope_dagster.defs.runs.ingest import ingest
from infrascope_dagster.defs.runs.products import PRODUCTS
from infrascope_dagster.in_process import bring_up_to_date
from infrascope_dagster.partitions import INGEST_BATCH, PRODUCT_BATCH, RUN_FILES_NAME, range_tags, stretches
from infrascope_dagster.resources import PipelineResource

_PRODUCT_KEYS = [product.key for product in PRODUCTS]

new_runs = dg.define_asset_job(
    "new_runs",
    selection=dg.AssetSelection.assets(ingest, *PRODUCTS),
    description="Everything per run, from the run file to the reasons for its anomalies, for chosen keys.",
)


@dg.op(description="Runs the whole graph in order, every model fitted anew.")
def refit_and_remine_all(context: dg.OpExecutionContext, infrascope: PipelineResource) -> None:
    """Refit in stages, each recorded as a run of its own on this instance."""

    def on_product(table: str, done: int, total: int) -> None:
        if done == total:
            context.log.info(f"{table}: {done} of {total}")

    bring_up_to_date(infrascope.pipeline(), refit=True, on_product=on_product, instance=context.instance)


@dg.job(
    description="Catalogue, thresholds and baselines anew from all runs; products that differ by them made anew; "
    "patterns mined again. On purpose only: no schedule starts it."
)
def refit_and_remine() -> None:
    """One step, because per-run products must be made again between the fits."""
    refit_and_remine_all()


@dg.schedule(
    job=new_runs,
    cron_schedule="0 6 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every morning: asks again for keys that have no telemetry, and for products that are missing.",
)
def fill_missing(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Batches of what was never materialized; two kinds, so that no product waits for a bad file."""
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    instance = context.instance
    registered = set(instance.get_dynamic_partitions(RUN_FILES_NAME))
    ingested = registered & instance.get_materialized_partitions(dg.AssetKey("telemetry"))
    complete = set.intersection(*(instance.get_materialized_partitions(key) for key in _PRODUCT_KEYS))
    batches: list[tuple[list[dg.AssetKey] | None, list[str]]] = [
        (None, batch) for batch in stretches(instance, registered - ingested, INGEST_BATCH)
    ]
    batches += [(_PRODUCT_KEYS, batch) for batch in stretches(instance, ingested - complete, PRODUCT_BATCH)]
    for selection, batch in batches:
        what = "products" if selection else "all"
        yield dg.RunRequest(run_key=f"{day} {what} {batch[0]}", asset_selection=selection, tags=range_tags(batch))
    if not batches:
        yield dg.SkipReason("every registered run file has all its products")
