"""The per-run products after telemetry. All have one body: make each key's product by the core's step."""

from collections.abc import Callable, Sequence

import dagster as dg
import polars as pl
from matplotlib.figure import Figure

from infrascope_core.store.folder import Pipeline
from infrascope_core.steps import STEPS, is_current, make, report_files
from infrascope_core.pipeline import TABLES
from infrascope_dagster import metadata
from infrascope_dagster.automation import AFTER_INPUTS, WITH_INPUTS
from infrascope_dagster.batches import each_key, fail_the_bad
from infrascope_dagster.partitions import PRODUCT_BATCH, RUN_FILES
from infrascope_dagster.resources import PipelineResource

_RUNS_IN_PICTURE = 12
"""Runs that a picture shows at most; a batch may hold more."""
_REPORTS_SHOWN = 3


def product(
    table: str,
    *,
    group: str,
    deps: Sequence[str],
    kinds: set[str],
    condition: dg.AutomationCondition,
    draw: Callable[[pl.DataFrame], Figure] | None = None,
    write: Callable[[Pipeline, Sequence[str]], str] | None = None,
) -> dg.AssetsDefinition:
    """The asset of a per-run product.

    A key whose product was made from just these inputs is kept as it is: the steps are deterministic, so that
    a refit which changes nothing for a run costs it nothing.
    """

    @dg.asset(
        name=table,
        group_name=group,
        deps=deps,
        kinds=kinds,
        partitions_def=RUN_FILES,
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=PRODUCT_BATCH),
        code_version=STEPS[table].code_version,
        description=TABLES[table].meaning,
        metadata=metadata.column_schema(table),
        automation_condition=condition,
    )
    def body(context: dg.AssetExecutionContext, infrascope: PipelineResource) -> dg.MaterializeResult:
        pipeline = infrascope.pipeline()
        shown: list[pl.DataFrame] = []
        made: list[int] = []

        def work(key: str) -> None:
            if not is_current(pipeline, table, key):
                frame = make(pipeline, table, key)
                made.append(frame.height)
                if len(shown) < (_RUNS_IN_PICTURE if draw else 1):
                    shown.append(frame)

        good, bad = each_key(context, table, work)
        frame = pl.concat(shown) if shown else TABLES[table].empty()
        said = {
            "dagster/row_count": sum(made),
            "runs": len(good),
            "kept": len(good) - len(made),
            "preview": metadata.preview(frame),
        }
        if draw and frame.height:
            said["picture"] = metadata.picture(draw(frame))
        if write:
            said["text"] = dg.MetadataValue.md(write(pipeline, good))
        fail_the_bad(context, [table], good, bad, said)
        return dg.MaterializeResult(metadata=said)

    return body


def _reports(pipeline: Pipeline, keys: Sequence[str]) -> str:
    """The first reports of a batch, those of anomalous runs before the others."""
    verdicts = {key: pipeline.lake.read("anomaly_report", key, ["verdict"])["verdict"].to_list() for key in keys}
    chosen = sorted(keys, key=lambda key: (verdicts[key] != ["anomalous"], key))[:_REPORTS_SHOWN]
    return "\n---\n\n".join(report_files(pipeline, key)[0].read_text(encoding="utf-8") for key in chosen)


quality_metrics = product(
    "quality_metrics",
    group="quality",
    deps=["telemetry"],
    kinds={"polars", "parquet"},
    condition=AFTER_INPUTS,
)
curated_metrics = product(
    "curated_metrics",
    group="symbols",
    # quality comes first, so that the catalogue of a platform that is new has been filled
    deps=["telemetry", "quality_metrics", "metric_catalog"],
    kinds={"polars", "parquet"},
    condition=AFTER_INPUTS,
)
group_windows = product(
    "group_windows",
    group="symbols",
    deps=["curated_metrics"],
    kinds={"duckdb", "parquet"},
    condition=WITH_INPUTS,
)
baskets = product(
    "baskets",
    group="symbols",
    deps=["group_windows", "thresholds"],
    kinds={"duckdb", "parquet"},
    condition=AFTER_INPUTS,
    draw=metadata.level_shares,
)
window_features = product(
    "window_features",
    group="anomalies",
    deps=["telemetry", "quality_metrics", "metric_catalog"],
    kinds={"numpy", "parquet"},
    condition=AFTER_INPUTS,
)
anomaly_scores = product(
    "anomaly_scores",
    group="anomalies",
    deps=["window_features", "baselines"],
    kinds={"scikitlearn", "parquet"},
    condition=AFTER_INPUTS,
    draw=metadata.timeline,
)
anomaly_reasons = product(
    "anomaly_reasons",
    group="anomalies",
    deps=["window_features", "anomaly_scores", "baselines"],
    kinds={"numpy", "parquet"},
    condition=WITH_INPUTS,
)
anomaly_episodes = product(
    "anomaly_episodes",
    group="anomalies",
    deps=["anomaly_scores", "anomaly_reasons", "baskets", "association_rules"],
    kinds={"polars", "parquet"},
    condition=WITH_INPUTS,
)
anomaly_report = product(
    "anomaly_report",
    group="anomalies",
    deps=[
        "quality_metrics",
        "window_features",
        "anomaly_scores",
        "anomaly_reasons",
        "anomaly_episodes",
        "baselines",
        "host_deviations",
    ],
    kinds={"markdown", "json"},
    condition=WITH_INPUTS,
    write=_reports,
)

PRODUCTS = [
    quality_metrics,
    curated_metrics,
    group_windows,
    baskets,
    window_features,
    anomaly_scores,
    anomaly_reasons,
    anomaly_episodes,
    anomaly_report,
]
