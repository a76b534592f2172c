"""`detector_latency`: what a window of the longest runs costs on this machine."""

from __future__ import annotations

import polars as pl

from infrascope_core import latency
from infrascope_core.curation import feature_plan
from infrascope_core.fleet_comparisons.reading import reanalysed
from infrascope_core.models import baseline_of
from infrascope_core.pipeline import Pipeline
from infrascope_core.run_file.columns import subsystem
from infrascope_core.tables import DETECTOR_LATENCY, METRIC_CATALOG
from infrascope_core.telemetry import metric_names


def detector_latency(pipeline: Pipeline) -> pl.DataFrame:
    """Time features, detectors and reasons on the longest run of each platform that has a baseline."""
    parts = [DETECTOR_LATENCY.empty()]
    runs = pipeline.accepted().sort("platform", "samples", "run_key", descending=[False, True, False])
    for (platform,), own in runs.group_by("platform", maintain_order=True):
        judged = ((str(key), baseline_of(pipeline, str(key))) for key in own["run_key"])
        key, baseline = next((pair for pair in judged if pair[1] is not None), ("", None))
        if baseline is None:
            continue
        host, telemetry = next(reanalysed(pipeline, key, {metric for metric, _ in baseline.names}))
        catalog = pipeline.lake.read_cached(METRIC_CATALOG.name)
        plan = feature_plan(catalog, str(platform), pipeline.recipe.names, pipeline.settings.selection.enabled)
        watched = plan.of_host(metric_names(telemetry), host)
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(latency.detector_latency(telemetry, baseline, subsystem, pipeline.settings, classes=classes))
    table = pl.concat(parts)
    pipeline.lake.write(table, DETECTOR_LATENCY.name)
    return table
