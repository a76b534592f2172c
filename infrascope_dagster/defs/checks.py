"""Standing questions, asked every hour. They read the lake; validation of a single file is ingestion's."""

from collections.abc import Callable

import dagster as dg
import polars as pl

from infrascope_core import checks
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_dagster import loading, presentation
from infrascope_dagster.automation import ON_THE_HOUR
from infrascope_dagster.partitions import RUN_FILES, keys_of
from infrascope_dagster.resources import DataFolderResource

DRIFT_LIMIT = 0.25
"""Population stability index above which a shift counts as significant (the convention of credit scoring)."""

Findings = Callable[[DataFolder, Graph], pl.DataFrame]


def _drifted(folder: DataFolder, graph: Graph) -> pl.DataFrame:
    return checks.level_drift(folder).filter(pl.col("stability_index") > DRIFT_LIMIT)


QUESTIONS: dict[str, tuple[str, str, Findings]] = {
    "no_rejected_files": (
        "rejected_files",
        "Every file that lies in the sources could be used.",
        lambda folder, _: folder.lake.read(REJECTED_FILES).select("run_key", "reason", "path"),
    ),
    "no_degenerate_groups": (
        "thresholds",
        "The levels of every metric group tell windows apart; groups whose levels do not are not mined.",
        lambda folder, _: checks.degenerate_groups(folder),
    ),
    "baskets_complete": (
        "baskets",
        "Every window value has a level, save those of groups without thresholds.",
        lambda folder, _: checks.basket_gaps(folder),
    ),
    "no_level_drift": (
        "group_windows",
        "Window values still fall into the levels in the shares that the thresholds were fitted on.",
        _drifted,
    ),
    "every_run_judged": (
        "anomaly_report",
        "Every run could be judged; the findings say why not.",
        lambda folder, _: checks.unjudged(folder),
    ),
    "disk_has_room": (
        "telemetry",
        "Enough of the disk is free (`retention.least_free`); the findings say which tables take most. `infrascope "
        "prune` or `retention.days` drop the samples of old runs.",
        lambda folder, _: checks.disk_use(folder),
    ),
    "pooled_tables_complete": (
        "frequent_itemsets",
        "Catalogue, thresholds, baselines, patterns and comparisons cover what the lake holds.",
        checks.unpooled,
    ),
}
"""By name: the asset, what holds if nothing is found, and how it is found."""


def verdict(findings: pl.DataFrame, **more: int) -> dg.AssetCheckResult:
    """Passed if there are no findings; the first of them are shown."""
    return dg.AssetCheckResult(
        passed=findings.is_empty(),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"findings": findings.height, "first": presentation.preview(findings), **more},
    )


def question(graph: Graph, name: str) -> dg.AssetChecksDefinition:
    """The check of one question."""
    asset, description, find = QUESTIONS[name]

    @dg.asset_check(asset=asset, name=name, description=description, automation_condition=ON_THE_HOUR)
    def body(infrascope: DataFolderResource) -> dg.AssetCheckResult:
        return verdict(find(infrascope.folder(), graph))

    return body


@dg.asset_check(
    asset="source_files",  # a check of an asset runs with it, and is skipped if it fails: these are made by nobody
    description="No run file was left behind by a failed ingest run.",
    automation_condition=ON_THE_HOUR,
)
def no_partition_left_failed(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """Ask the instance for keys whose last attempt failed."""
    instance = context.instance
    keys = keys_of(instance, RUN_FILES)
    status = instance.get_status_by_partition(dg.AssetKey("telemetry"), keys, RUN_FILES) or {}
    failed = [key for key, state in status.items() if state == dg.AssetPartitionStatus.FAILED]
    return verdict(pl.DataFrame({"run_key": failed}, schema={"run_key": pl.String}), runs=len(keys))


@dg.definitions
def defs() -> dg.Definitions:
    """All checks, on the graph that is being loaded."""
    graph = loading.project().graph
    return dg.Definitions(asset_checks=[no_partition_left_failed, *(question(graph, name) for name in QUESTIONS)])
