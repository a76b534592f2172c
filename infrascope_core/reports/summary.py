"""What a person wants to know first about a data folder: small frames, ready to be printed or stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import polars as pl

from infrascope_core.patterns.rules import strongest
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.reports.products import stride_of
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import THRESHOLDS

_EPISODES_PER_RUN = 2
"""Most episodes of one run in the summary, so that one bad run does not hide the others."""


@dataclass(frozen=True)
class Summary:
    """The state of a data folder in a few small frames.

    Attributes
    ----------
    runs : pl.DataFrame
        platform, phase, workload, runs, hosts, hours.
    accepted : int
        Runs that could be used.
    rejected : pl.DataFrame
        The table `rejected_files`.
    exclusions : pl.DataFrame
        platform, status, metrics: how many metrics of a platform have each status.
    degenerate : pl.DataFrame
        platform, metric_group: groups whose levels say nothing, which are not mined.
    rules : pl.DataFrame
        The strongest rules of each platform across subsystems: rows of `association_rules`.
    episodes : pl.DataFrame
        The most abnormal episodes, with `fault`: the labels that overlap them, if any.
    warehouse : Path
        Where to look further.
    """

    runs: pl.DataFrame
    accepted: int
    rejected: pl.DataFrame
    exclusions: pl.DataFrame
    degenerate: pl.DataFrame
    rules: pl.DataFrame
    episodes: pl.DataFrame
    warehouse: Path


def summarize(folder: DataFolder, rules: int = 6, episodes: int = 8) -> Summary:
    """Summarize what the lake holds now.

    Parameters
    ----------
    folder : DataFolder
        The data folder.
    rules, episodes : int
        Most rows of each.
    """
    runs = accepted(folder)
    lake = folder.lake
    thresholds = lake.read(THRESHOLDS)
    return Summary(
        runs=runs.group_by("platform", "phase", "workload")
        .agg(
            runs=pl.len(),
            hosts=pl.col("host").n_unique(),
            hours=(pl.col("samples") * pl.col("interval_s")).sum() / 3600,
        )
        .sort("platform", "phase", "workload"),
        accepted=runs.height,
        rejected=lake.read(REJECTED_FILES),
        exclusions=lake.read(METRIC_CATALOG)
        .group_by("platform", "status")
        .agg(metrics=pl.len())
        .sort("platform", "status"),
        degenerate=thresholds.filter("degenerate").select("platform", "metric_group"),
        rules=strongest(lake.read(ASSOCIATION_RULES).filter(~pl.col("scope").str.contains("/")), rules),
        episodes=worst_episodes(folder, runs["run_key"].to_list(), episodes),
        warehouse=folder.warehouse,
    )


def worst_episodes(folder: DataFolder, keys: list[str], limit: int) -> pl.DataFrame:
    """The most abnormal episodes of the given runs, with the labelled faults that share a stride of their time.

    Returns
    -------
    pl.DataFrame
        Table `anomaly_episodes` and `fault`; by falling total surprisal, then severity.
    """
    parts = []
    for key in keys:
        found = _worst_first(folder.lake.read(ANOMALY_EPISODES, key)).head(_EPISODES_PER_RUN)
        parts.append(_with_faults(found, folder.lake.read(FAULTS, key), stride_of(folder, key)))
    if not parts:
        return pl.DataFrame(schema={**ANOMALY_EPISODES.schema, "fault": pl.String})
    return _worst_first(pl.concat(parts)).head(limit)


def _worst_first(episodes: pl.DataFrame) -> pl.DataFrame:
    order = ["total_surprisal", "severity", "run_key", "host", "first_window"]
    return episodes.sort(order, descending=[True, True, False, False, False], nulls_last=True)


def _with_faults(found: pl.DataFrame, faults: pl.DataFrame, least: timedelta) -> pl.DataFrame:
    names = []
    for start, end in found.select("start_ts", "end_ts").iter_rows():
        shared = pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start))
        known = pl.min_horizontal(pl.lit(least), pl.col("end") - pl.col("start"))
        names.append(", ".join(faults.filter(shared >= known)["fault"]))
    return found.with_columns(fault=pl.Series(names, dtype=pl.String))
