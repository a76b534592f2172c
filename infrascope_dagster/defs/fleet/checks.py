"""Checks of the pooled products."""

import dagster as dg

from infrascope_core.checks import degenerate_groups, unpooled
from infrascope_dagster.automation import ON_THE_HOUR
from infrascope_dagster.defs.runs.checks import verdict
from infrascope_dagster.resources import PipelineResource


@dg.asset_check(asset="rejected_files", description="Every file that lies in the sources could be used.")
def no_rejected_files(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Show the rejected files and why."""
    return verdict(infrascope.pipeline().rejected_files().select("run_key", "reason", "path"))


@dg.asset_check(asset="thresholds", description="The levels of every metric group tell windows apart.")
def no_degenerate_groups(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Show groups whose windows all fall into one level; they are not mined."""
    return verdict(degenerate_groups(infrascope.pipeline()))


@dg.asset_check(
    asset="frequent_itemsets",
    description="Catalogue, thresholds, baselines and patterns cover what the lake holds.",
    automation_condition=ON_THE_HOUR,
)
def pooled_tables_complete(infrascope: PipelineResource) -> dg.AssetCheckResult:
    """Show platforms, groups, workloads and baskets that no pooled product has taken in."""
    return verdict(unpooled(infrascope.pipeline()))


CHECKS = [no_rejected_files, no_degenerate_groups, pooled_tables_complete]
