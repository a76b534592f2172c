"""Pooled assets: fitted models, mined patterns, rejected files. One at a time: they all publish the warehouse."""

from typing import Any

import dagster as dg
import polars as pl

from infrascope_core import mining, models
from infrascope_core.lake import fingerprint
from infrascope_core.patterns.rules import strongest
from infrascope_core.tables import TABLES
from infrascope_dagster import metadata
from infrascope_dagster.automation import FILL, MINE, REVIEW
from infrascope_dagster.progress import tell
from infrascope_dagster.resources import PipelineResource

POOL = "warehouse"


class Fit(dg.Config):
    """Whether to fit anew what is fitted already."""

    refit: bool = False


def _common(table: str, group: str, condition: dg.AutomationCondition) -> dict[str, Any]:
    return {
        "name": table,
        "group_name": group,
        "pool": POOL,
        "code_version": "1",
        "description": TABLES[table].meaning,
        "metadata": metadata.column_schema(table),
        "automation_condition": condition,
    }


def _done(infrascope: PipelineResource, table: str, frame: pl.DataFrame, **more: Any) -> dict[str, Any]:
    infrascope.publish()
    tell(table, 1, 1)
    return dict(metadata.of_table(frame, **more))


@dg.asset(deps=["quality_metrics"], kinds={"duckdb"}, **_common("metric_catalog", "quality", FILL))
def metric_catalog(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Judge metrics of platforms that were not judged yet, or of all."""
    catalog = models.fit_metric_catalog(infrascope.pipeline(), config.refit)
    counts = {f"metrics {status}": n for status, n in catalog["status"].value_counts(sort=True).iter_rows()}
    return dg.MaterializeResult(
        metadata=_done(infrascope, "metric_catalog", catalog, **counts),
        data_version=dg.DataVersion(fingerprint(catalog.write_json())),
    )


@dg.asset(
    deps=["curated_metrics", "group_windows", "metric_catalog"],
    kinds={"duckdb"},
    **_common("thresholds", "symbols", FILL),
)
def thresholds(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Fit levels of groups that have none yet, or of all."""
    fitted = models.fit_thresholds(infrascope.pipeline(), config.refit)
    versions = fitted["version"].unique().sort().to_list()
    return dg.MaterializeResult(
        metadata=_done(infrascope, "thresholds", fitted, degenerate=int(fitted["degenerate"].sum())),
        data_version=dg.DataVersion(fingerprint(*versions)),
    )


@dg.asset(
    deps=["window_features", "metric_catalog"],
    kinds={"scikitlearn"},
    **_common("baselines", "anomalies", FILL),
)
def baselines(config: Fit, infrascope: PipelineResource) -> dg.MaterializeResult:
    """Fit baselines of workloads that have none yet, or of all."""
    fitted = models.fit_baselines(infrascope.pipeline(), config.refit)
    return dg.MaterializeResult(
        metadata=_done(infrascope, "baselines", fitted, windows=int(fitted["windows"].sum())),
        data_version=dg.DataVersion(fingerprint(*fitted["version"])),
    )


@dg.asset(deps=["baskets", "thresholds"], kinds={"numpy"}, **_common("frequent_itemsets", "patterns", MINE))
def frequent_itemsets(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Mine the itemsets of every scope."""
    pipeline = infrascope.pipeline()
    itemsets = mining.mine_itemsets(pipeline)
    said = _done(infrascope, "frequent_itemsets", itemsets, scopes=itemsets["scope"].n_unique())
    if itemsets.height:
        widest = next(scope for scope in mining.scopes(pipeline.accepted()) if scope in itemsets["scope"])
        said["picture"] = metadata.picture(metadata.cooccurrence(itemsets, widest))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["frequent_itemsets"], kinds={"numpy"}, **_common("association_rules", "patterns", MINE))
def association_rules(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Draw the rules of every scope."""
    rules = mining.mine_rules(infrascope.pipeline())
    best = strongest(rules, metadata.PREVIEW_ROWS)
    said = _done(infrascope, "association_rules", rules, strongest=metadata.preview(best))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["source_files", "run_files"], kinds={"parquet"}, **_common("rejected_files", "ingest", REVIEW))
def rejected_files(infrascope: PipelineResource) -> dg.MaterializeResult:
    """List what could not be used, files with unknown names included."""
    rejected = infrascope.pipeline().review_rejections()
    return dg.MaterializeResult(metadata=_done(infrascope, "rejected_files", rejected))


FLEET = [metric_catalog, thresholds, baselines, frequent_itemsets, association_rules, rejected_files]
