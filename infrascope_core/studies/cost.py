"""`detector_latency`: what a window of the longest runs costs on this machine."""

from __future__ import annotations

import polars as pl

from infrascope_core.anomalies.reference_runs import baseline_of
from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.quality.trust import plan_of_platform
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.telemetry import metric_names
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Tick
from infrascope_core.studies import latency
from infrascope_core.studies.tables import DETECTOR_LATENCY


def measure_latency(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Time features, detectors and reasons on the longest run of each platform that has a baseline."""
    parts = [DETECTOR_LATENCY.empty()]
    runs = accepted(folder).sort("platform", "samples", "run_key", descending=[False, True, False])
    for (platform,), own in runs.group_by("platform", maintain_order=True):
        judged = ((str(key), baseline_of(folder, str(key))) for key in own["run_key"])
        key, baseline = next((pair for pair in judged if pair[1] is not None), ("", None))
        if baseline is None:
            continue
        host, telemetry = next(reanalysed_hosts(folder, key, {metric for metric, _ in baseline.names}))
        watched = plan_of_platform(folder, str(platform)).of_host(metric_names(telemetry), host)
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(latency.detector_latency(telemetry, baseline, folder.settings, classes=classes))
        tick(len(parts) - 1, runs["platform"].n_unique())
    return pl.concat(parts)
