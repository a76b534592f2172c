"""Window features of a run, as the folder's catalogue wants them: reanalysed, and by the class of each metric."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import polars as pl

from infrascope_core.anomalies.features import window_features
from infrascope_core.anomalies.structure import structural_changes
from infrascope_core.quality import reanalysis
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import plan_of_platform
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.runs import platform_of, run_file
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.run_files.telemetry import KEY_COLUMNS, metrics_by_host, split_hosts
from infrascope_core.store.folder import DataFolder


def features_of_run(folder: DataFolder, key: str) -> pl.DataFrame:
    """The table `window_features` of a run."""
    plan, settings = plan_of_platform(folder, platform_of(folder, key)), folder.settings.features
    parts = [window_features(pl.DataFrame(), settings)]
    for host, metrics in metrics_by_host(folder.lake, key):
        derivable = reanalysis.derivations(metrics)
        watched = plan.of_host([*metrics, *(d.metric for d in derivable)], host)
        telemetry = folder.lake.read(TELEMETRY, key, [*KEY_COLUMNS, *reanalysis.needed(metrics, watched)])
        reanalysed = reanalysis.reanalyse(
            telemetry.filter(pl.col("host") == host),
            reanalysis.Plan(plan.rates, plan.names),
            [d for d in derivable if d.metric in watched],
        )
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(window_features(reanalysed, settings, list(watched), classes))
    return pl.concat(parts)


def structure_of_run(folder: DataFolder, key: str) -> pl.DataFrame:
    """The table `structural_changes` of a run: of all its metrics, also those that are not watched."""
    return structural_changes(folder.lake.read(TELEMETRY, key), folder.settings.features)


def window_length(folder: DataFolder, key: str) -> timedelta:
    """Length of a run's feature windows; 0 where its sampling interval is not known."""
    return _duration(folder, key, folder.settings.features.samples)


def window_stride(folder: DataFolder, key: str) -> timedelta:
    """Time from one feature window of a run to the next; 0 where its sampling interval is not known."""
    return _duration(folder, key, folder.settings.features.stride)


def _duration(folder: DataFolder, key: str, samples: int) -> timedelta:
    return timedelta(seconds=samples * (run_file(folder, key)["interval_s"] or 0.0))


def counters_of_platform(folder: DataFolder, platform: str) -> reanalysis.Plan:
    """Which metrics of a platform are cumulative counters; none before the catalogue is fitted."""
    catalog = folder.lake.read_cached(METRIC_CATALOG).filter(platform=platform, treatment="rate")
    return reanalysis.Plan(frozenset(catalog["metric"]), recipe_of(folder).names)


def reanalysed_hosts(
    folder: DataFolder, key: str, metrics: set[str] | None = None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each host of a run with its reanalysed telemetry: all metrics, or those named."""
    plan = counters_of_platform(folder, platform_of(folder, key))
    columns = None
    if metrics is not None:
        there = [name for name in folder.lake.columns(TELEMETRY, key) if name not in KEY_COLUMNS]
        columns = [*KEY_COLUMNS, *reanalysis.needed(there, metrics)]
    for part in split_hosts(folder.lake.read(TELEMETRY, key, columns)):
        yield str(part["host"][0]), reanalysis.reanalyse(part, plan)
