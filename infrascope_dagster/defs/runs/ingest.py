"""Run files become telemetry: the only step that reads what operators deliver."""

from collections.abc import Iterator

import dagster as dg
import polars as pl

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.ingestion import CODE_VERSION
from infrascope_core.pipeline import TABLES
from infrascope_dagster import metadata
from infrascope_dagster.automation import AFTER_INPUTS
from infrascope_dagster.batches import each_key, fail_the_bad
from infrascope_dagster.partitions import INGEST_BATCH, RUN_FILES
from infrascope_dagster.resources import PipelineResource

source_files = dg.AssetSpec(
    "source_files",
    partitions_def=RUN_FILES,
    group_name="ingest",
    kinds={"file"},
    description="The run file as it lies on disk; the sensor reports new and changed ones.",
)

_MEANING = {name: TABLES[name].meaning for name in ("run_files", "faults")} | {
    "telemetry": "Typed samples under host-free metric names, one wide Parquet file per run."
}


def _spec(name: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        name,
        deps=[source_files],
        partitions_def=RUN_FILES,
        group_name="ingest",
        kinds={"polars", "parquet"},
        code_version=CODE_VERSION,
        description=_MEANING[name],
        metadata=metadata.column_schema(name) if name in TABLES else None,
        automation_condition=AFTER_INPUTS,
    )


_PRODUCTS = ("run_files", "telemetry", "faults")


@dg.multi_asset(
    name="ingest",
    specs=[_spec(name) for name in _PRODUCTS],
    backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=INGEST_BATCH),
)
def ingest(context: dg.AssetExecutionContext, infrascope: PipelineResource) -> Iterator[dg.MaterializeResult]:
    """Read each run file into the lake, or reject it."""
    pipeline = infrascope.pipeline()
    found = pipeline.find()
    rows = []

    def work(key: str) -> None:
        ingested = pipeline.ingest(key, found.get(key, []))
        rows.append(ingested.run_file)
        if not ingested.accepted:
            raise InfraScopeError(ingested.reason)

    good, bad = each_key(context, "telemetry", work)
    table = pl.concat(rows)
    said = metadata.of_table(
        table,
        samples=int(table["samples"].sum()),
        megabytes=round(float(table["bytes"].sum()) / 1e6, 3),
        rejected=len(bad),
    )
    fail_the_bad(context, _PRODUCTS, good, bad, said)
    for name in _PRODUCTS:
        yield dg.MaterializeResult(asset_key=name, metadata=said)
