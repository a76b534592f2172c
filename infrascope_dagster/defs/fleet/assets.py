"""Pooled assets: fitted models, mined patterns, rejected files. One at a time: they all publish the warehouse."""

from typing import Any

import dagster as dg
import polars as pl

from infrascope_core.patterns import mining
from infrascope_core import models
from infrascope_core.store.lake import fingerprint
from infrascope_core.patterns.rules import strongest
from infrascope_core.pipeline import TABLES
from infrascope_dagster import metadata
from infrascope_dagster.automation import FILL, MINE, REVIEW
from infrascope_dagster.progress import tell
from infrascope_dagster.resources import PipelineResource

POOL = "warehouse"


class Fit(dg.Config):
    """Whether to fit anew what is fitted already."""

    refit: bool = False


def common(table: str, group: str, condition: dg.AutomationCondition) -> dict[str, Any]:
    """What all pooled assets have in common."""
    return {
        "name": table,
        "group_name": group,
        "pool": POOL,
        "code_version": "1",
        "description": TABLES[table].meaning,
        "metadata": metadata.column_schema(table),
        "automation_condition": condition,
    }


def done(infrascope: PipelineResource, table: str, frame: pl.DataFrame, **more: Any) -> dict[str, Any]:
    """Show the warehouse anew, and say what was made."""
    infrascope.publish()
    tell(table, 1, 1)
    return dict(metadata.of_table(frame, **more))


@dg.asset(deps=["quality_metrics"], kinds={"duckdb"}, **common("metric_catalog", "quality", FILL))
def metric_catalog(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Judge metrics of platforms that were not judged yet, or of all."""
    catalog = models.fit_metric_catalog(infrascope.pipeline(), config.refit)
    counts = {f"metrics {status}": n for status, n in catalog["status"].value_counts(sort=True).iter_rows()}
    classes = catalog["metric_class"].drop_nulls().value_counts(sort=True).iter_rows()
    counts["classes"] = ", ".join(f"{n} {metric_class}" for metric_class, n in classes)
    return dg.MaterializeResult(
        metadata=done(infrascope, "metric_catalog", catalog, **counts),
        data_version=dg.DataVersion(fingerprint(catalog.write_json())),
    )


# of telemetry it reads what the catalogue was fitted on, so it follows that
@dg.asset(deps=["metric_catalog"], kinds={"numpy"}, **common("pruning_curve", "quality", FILL))
def pruning_curve(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Draw the curves of workloads that have none yet, or of all."""
    pipeline = infrascope.pipeline()
    curve = models.fit_pruning_curve(pipeline, config.refit)
    said = done(infrascope, "pruning_curve", curve, workloads=curve.select("platform", "phase", "workload").n_unique())
    if curve.height:
        said["picture"] = metadata.picture(metadata.pruning(curve, pipeline.settings.selection.max_correlation))
    return dg.MaterializeResult(metadata=said, data_version=dg.DataVersion(fingerprint(curve.write_json())))


@dg.asset(
    deps=["curated_metrics", "group_windows", "metric_catalog"],
    kinds={"duckdb"},
    **common("thresholds", "symbols", FILL),
)
def thresholds(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Fit levels of groups that have none yet, or of all."""
    fitted = models.fit_thresholds(infrascope.pipeline(), config.refit)
    versions = fitted["version"].unique().sort().to_list()
    return dg.MaterializeResult(
        metadata=done(infrascope, "thresholds", fitted, degenerate=int(fitted["degenerate"].sum())),
        data_version=dg.DataVersion(fingerprint(*versions)),
    )


@dg.asset(
    deps=["window_features", "metric_catalog"],
    kinds={"scikitlearn"},
    **common("baselines", "anomalies", FILL),
)
def baselines(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Fit baselines of workloads that have none yet, or of all."""
    fitted = models.fit_baselines(infrascope.pipeline(), config.refit)
    return dg.MaterializeResult(
        metadata=done(infrascope, "baselines", fitted, windows=int(fitted["windows"].sum())),
        data_version=dg.DataVersion(fingerprint(*fitted["version"])),
    )


@dg.asset(deps=["baskets", "thresholds"], kinds={"numpy"}, **common("frequent_itemsets", "patterns", MINE))
def frequent_itemsets(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Mine the itemsets of every scope."""
    pipeline = infrascope.pipeline()
    itemsets = mining.mine_itemsets(pipeline)
    said = done(infrascope, "frequent_itemsets", itemsets, scopes=itemsets["scope"].n_unique())
    if itemsets.height:
        widest = next(scope for scope in mining.scopes(pipeline.accepted()) if scope in itemsets["scope"])
        said["picture"] = metadata.picture(metadata.cooccurrence(itemsets, widest))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["frequent_itemsets"], kinds={"numpy"}, **common("association_rules", "patterns", MINE))
def association_rules(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Draw the rules of every scope."""
    rules = mining.mine_rules(infrascope.pipeline())
    best = strongest(rules, metadata.PREVIEW_ROWS)
    said = done(infrascope, "association_rules", rules, strongest=metadata.preview(best))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["source_files", "run_files"], kinds={"parquet"}, **common("rejected_files", "ingest", REVIEW))
def rejected_files(infrascope: PipelineResource) -> dg.MaterializeResult:
    """List what could not be used, files with unknown names included."""
    rejected = infrascope.pipeline().review_rejections()
    return dg.MaterializeResult(metadata=done(infrascope, "rejected_files", rejected))


FLEET = [metric_catalog, pruning_curve, thresholds, baselines, frequent_itemsets, association_rules, rejected_files]
