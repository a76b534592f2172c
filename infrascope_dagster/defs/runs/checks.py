"""Checks over all runs at once. They read the lake; validation of a single file is ingestion's."""

import dagster as dg
import polars as pl

from infrascope_core.checks import basket_gaps, level_drift, unjudged
from infrascope_dagster import metadata
from infrascope_dagster.automation import ON_THE_HOUR
from infrascope_dagster.partitions import RUN_FILES, RUN_FILES_NAME
from infrascope_dagster.resources import PipelineResource

DRIFT_LIMIT = 0.25
"""Population stability index above which a shift counts as significant (the convention of credit scoring)."""


def verdict(findings: pl.DataFrame, **more: object) -> dg.AssetCheckResult:
    """Passed if there are no findings; the first of them are shown."""
    return dg.AssetCheckResult(
        passed=findings.is_empty(),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"findings": findings.height, "first": metadata.preview(findings), **more},  # type: ignore[dict-item]
    )


@dg.asset_check(
    asset="telemetry",
    description="No run file was left behind by a failed ingest run.",
    automation_condition=ON_THE_HOUR,
)
def no_partition_left_failed(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """Ask the instance for keys whose last attempt failed."""
    instance = context.instance
    keys = instance.get_dynamic_partitions(RUN_FILES_NAME)
    status = instance.get_status_by_partition(dg.AssetKey("telemetry"), keys, RUN_FILES) or {}
    failed = [key for key, said in status.items() if said == dg.AssetPartitionStatus.FAILED]
    return verdict(pl.DataFrame({"run_key": failed}, schema={"run_key": pl.String}), runs=len(keys))


@dg.asset_check(
    asset="baskets",
    description="Every window value has a level, save those of groups without thresholds.",
    automation_condition=ON_THE_HOUR,
)
def baskets_complete(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Compare the baskets with group_windows, run by run."""
    return verdict(basket_gaps(infrascope.pipeline()))


@dg.asset_check(
    asset="group_windows",
    description="Window values still fall into the levels in the shares that the thresholds were fitted on.",
    automation_condition=ON_THE_HOUR,
)
def no_level_drift(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Population stability index per platform and metric group."""
    drift = level_drift(infrascope.pipeline())
    return verdict(drift.filter(pl.col("stability_index") > DRIFT_LIMIT), groups=drift.height)


@dg.asset_check(
    asset="anomaly_report",
    description="Every run could be judged; the findings say why not.",
    automation_condition=ON_THE_HOUR,
)
def every_run_judged(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Ask the reports for runs without a verdict."""
    return verdict(unjudged(infrascope.pipeline()))


CHECKS = [no_partition_left_failed, baskets_complete, no_level_drift, every_run_judged]
