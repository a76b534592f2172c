"""What the comparisons read: telemetry as features see it, and runs by workload."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from infrascope_core.pipeline import Pipeline
from infrascope_core.reanalysis import Plan, needed, reanalyse
from infrascope_core.tables import METRIC_CATALOG
from infrascope_core.telemetry import KEY_COLUMNS, split_hosts

WORKLOAD = ["platform", "phase", "workload"]


def cumulative(pipeline: Pipeline, platform: str) -> Plan:
    """Which metrics of a platform are cumulative; none before the catalogue is fitted."""
    catalog = pipeline.lake.read_cached(METRIC_CATALOG.name).filter(platform=platform, treatment="rate")
    return Plan(frozenset(catalog["metric"]), pipeline.recipe.names)


def reanalysed(pipeline: Pipeline, key: str, metrics: set[str] | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each host of a run with its reanalysed telemetry: all metrics, or those named."""
    plan = cumulative(pipeline, pipeline.platform(key))
    columns = None
    if metrics is not None:
        there = [name for name in pipeline.lake.columns("telemetry", key) if name not in KEY_COLUMNS]
        columns = [*KEY_COLUMNS, *needed(there, metrics)]
    for part in split_hosts(pipeline.lake.read("telemetry", key, columns)):
        yield str(part["host"][0]), reanalyse(part, plan)


def workloads(pipeline: Pipeline) -> Iterator[tuple[tuple[str, str, str], pl.DataFrame]]:
    """Each platform, phase and workload with its accepted runs."""
    for (platform, phase, workload), runs in sorted(pipeline.accepted().partition_by(WORKLOAD, as_dict=True).items()):
        yield (str(platform), str(phase), str(workload)), runs


def chosen(runs: pl.DataFrame, at_most: int, random_state: int) -> list[str]:
    """At most so many run keys, a seeded choice."""
    keys = np.array(runs["run_key"].sort())
    if len(keys) > at_most:
        keys = np.sort(np.random.default_rng(random_state).choice(keys, at_most, replace=False))
    return [str(key) for key in keys]
