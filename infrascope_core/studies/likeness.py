"""`run_similarity`: the runs of every workload compared with their median trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import polars as pl

from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.run_files.runs import workloads
from infrascope_core.run_files.telemetry import metric_names
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Tick
from infrascope_core.studies import similarity
from infrascope_core.studies.choice import chosen
from infrascope_core.studies.tables import RUN_SIMILARITY

_LEAST_SAMPLES = 8
"""A shorter run has no course to compare."""


def compare_runs(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Compare the runs of every workload with their median trace, over the metrics that have features."""
    settings = folder.settings.similarity
    rows: list[dict[str, object]] = []
    found_workloads = workloads(folder)
    for done, ((platform, phase, workload), runs) in enumerate(found_workloads):
        tick(done, len(found_workloads))
        keys = chosen(runs.filter(pl.col("samples") >= _LEAST_SAMPLES), settings.max_runs, settings.random_state)
        points = min([settings.points, *runs.filter(pl.col("run_key").is_in(keys))["samples"]])
        of_run = [(key, trace) for key in keys for trace in _traces(folder, key, points)]
        metrics = sorted({metric for _, trace in of_run for metric in trace})
        unknown = np.full(points, np.nan)
        for metric in metrics:
            found = similarity.similarity(np.stack([trace.get(metric, unknown) for _, trace in of_run]), settings)
            if found is not None:
                rows.append(
                    {
                        "platform": platform,
                        "phase": phase,
                        "workload": workload,
                        "metric": metric,
                        **asdict(found),
                        "farthest_run": of_run[found.farthest][0],
                    }
                )
    return pl.DataFrame([{k: v for k, v in row.items() if k != "farthest"} for row in rows], RUN_SIMILARITY.schema)


def _traces(folder: DataFolder, key: str, points: int) -> Iterator[dict[str, similarity.Array]]:
    """Resampled metrics of each host of a run, those that have features."""
    watched = set(folder.lake.read(WINDOW_FEATURES, key, ["metric"])["metric"].unique())
    for _, telemetry in reanalysed_hosts(folder, key, watched):
        names = [name for name in metric_names(telemetry) if name in watched]
        values = telemetry.select(pl.col(names).cast(pl.Float64)).to_numpy() if names else np.empty((0, 0))
        if len(values):
            yield dict(zip(names, similarity.resampled(values, points).T, strict=True))
