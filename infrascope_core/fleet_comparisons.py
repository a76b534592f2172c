"""Pooled comparisons of a data folder: hosts of a job, window lengths, runs of a workload, and what a window costs.

What belongs here: which runs are read, in which portions, and where the result is kept. The methods are in `hosts`,
`agreement`, `similarity` and `latency` (docs/adr/0018).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from infrascope_core import agreement, baselines, hosts, latency, similarity
from infrascope_core.baselines import Baseline
from infrascope_core.curation import feature_plan
from infrascope_core.features import WINDOW
from infrascope_core.lake import Lake, fingerprint
from infrascope_core.models import baseline_of
from infrascope_core.pipeline import Pipeline
from infrascope_core.reanalysis import CODE_VERSION as REANALYSIS_VERSION
from infrascope_core.reanalysis import Plan, needed, reanalyse
from infrascope_core.run_file.columns import subsystem
from infrascope_core.settings import Settings
from infrascope_core.steps import STEPS
from infrascope_core.tables import (
    DETECTOR_LATENCY,
    HOST_DEVIATIONS,
    METRIC_CATALOG,
    RUN_SIMILARITY,
    WINDOW_AGREEMENT,
    WINDOW_FEATURES,
    Table,
)
from infrascope_core.telemetry import KEY_COLUMNS, metric_names, split_hosts

_METRICS_AT_ONCE = 64
"""Metrics compared at once, so that temporary arrays stay small beside the windows of a job."""
_LEAST_SAMPLES = 8
"""A shorter run has no course to compare."""
_WORKLOAD = ["platform", "phase", "workload"]


# --- hosts -----------------------------------------------------------------------------------------------------------


def are_hosts_compared(pipeline: Pipeline) -> bool:
    """Whether `host_deviations` was made from just the runs that are there now."""
    return _compared_from(pipeline).get("all") == _all_runs(pipeline)


def compare_hosts(pipeline: Pipeline) -> pl.DataFrame:
    """Compare the hosts of every job; jobs that did not change since the last time are not read again."""
    settings = pipeline.settings.hosts
    runs = pipeline.accepted()
    jobs = hosts.jobs(runs, _hosts_of(pipeline, runs["run_key"].to_list()), settings)
    then, now, parts = _compared_from(pipeline).get("jobs", {}), {}, []
    known = pipeline.lake.read(HOST_DEVIATIONS.name)
    for (name,), job in sorted(jobs.partition_by("job", as_dict=True).items()):
        now[name] = _one_job(pipeline, job)
        if now[name] == then.get(name):
            parts.append(known.filter(job=name).select(hosts.FOUND))
        else:
            parts.append(_compare_job(pipeline, job))
    found = pl.concat([HOST_DEVIATIONS.empty().select(hosts.FOUND), *parts])
    judged = hosts.judge(found, jobs, settings)
    made_from = json.dumps({"all": _all_runs(pipeline), "jobs": now}, sort_keys=True)
    pipeline.lake.write(judged, HOST_DEVIATIONS.name, made_from=made_from)
    return judged


def _compared_from(pipeline: Pipeline) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(pipeline.lake.made_from(HOST_DEVIATIONS.name) or "{}")
    return said


def _all_runs(pipeline: Pipeline) -> str:
    """Fingerprint of everything that the comparison of hosts reads."""
    runs = pipeline.accepted().select("run_key", "platform")
    plans = [_rates(pipeline, platform) for platform in runs["platform"].unique().sort()]
    made_from = [pipeline.lake.made_from("telemetry", key) or "" for key in runs["run_key"]]
    return fingerprint(*_versions(pipeline), *plans, *runs["run_key"], *made_from)


def _one_job(pipeline: Pipeline, job: pl.DataFrame) -> str:
    """Fingerprint of what the comparison of one job reads."""
    made_from = [pipeline.lake.made_from("telemetry", key) or "" for key in job["run_key"]]
    return fingerprint(*_versions(pipeline), _rates(pipeline, str(job["platform"][0])), *job["host"], *made_from)


def _versions(pipeline: Pipeline) -> tuple[str, ...]:
    return hosts.CODE_VERSION, REANALYSIS_VERSION, pipeline.settings.hosts.digest()


def _compare_job(pipeline: Pipeline, job: pl.DataFrame) -> pl.DataFrame:
    settings = pipeline.settings.hosts
    windows = {}
    for key in job["run_key"].unique(maintain_order=True):
        for host, telemetry in _reanalysed(pipeline, key):
            windows[key, host] = hosts.window_means(telemetry, metric_names(telemetry), settings)
    parts = [windows[key, host] for key, host in job.select("run_key", "host").iter_rows()]
    metrics = sorted({name for part in parts for name in part.columns} - set(KEY_COLUMNS))
    rows = []
    for start in range(0, len(metrics), _METRICS_AT_ONCE):
        names = metrics[start : start + _METRICS_AT_ONCE]
        rows.append(hosts.deviations(job, names, hosts.compare(hosts.aligned(parts, names), settings)))
    return pl.concat(rows) if rows else HOST_DEVIATIONS.empty().select(hosts.FOUND)


def _hosts_of(pipeline: Pipeline, keys: list[str]) -> pl.DataFrame:
    files = pipeline.lake.files("telemetry", keys)
    scans = [pl.scan_parquet(file, glob=False).select("run_key", "host").unique() for file in files]
    return pl.concat(scans).collect() if scans else pl.DataFrame(schema={"run_key": pl.String, "host": pl.String})


# --- telemetry as features see it -------------------------------------------------------------------------------------


def _rates(pipeline: Pipeline, platform: str) -> str:
    return "\n".join(sorted(_plan(pipeline, platform).rates))


def _plan(pipeline: Pipeline, platform: str) -> Plan:
    """Which metrics of a platform are cumulative; none before the catalogue is fitted."""
    catalog = pipeline.lake.read_cached(METRIC_CATALOG.name).filter(platform=platform, treatment="rate")
    return Plan(frozenset(catalog["metric"]), pipeline.recipe.names)


def _reanalysed(pipeline: Pipeline, key: str, metrics: set[str] | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each host of a run with its reanalysed telemetry: all metrics, or those named."""
    plan = _plan(pipeline, pipeline.platform(key))
    columns = None
    if metrics is not None:
        there = [name for name in pipeline.lake.columns("telemetry", key) if name not in KEY_COLUMNS]
        columns = [*KEY_COLUMNS, *needed(there, metrics)]
    for part in split_hosts(pipeline.lake.read("telemetry", key, columns)):
        yield str(part["host"][0]), reanalyse(part, plan)


def _workloads(pipeline: Pipeline) -> Iterator[tuple[tuple[str, str, str], pl.DataFrame]]:
    """Each platform, phase and workload with its accepted runs."""
    for (platform, phase, workload), runs in sorted(pipeline.accepted().partition_by(_WORKLOAD, as_dict=True).items()):
        yield (str(platform), str(phase), str(workload)), runs


def _chosen(runs: pl.DataFrame, at_most: int, random_state: int) -> list[str]:
    """At most so many run keys, a seeded choice."""
    keys = np.array(runs["run_key"].sort())
    if len(keys) > at_most:
        keys = np.sort(np.random.default_rng(random_state).choice(keys, at_most, replace=False))
    return [str(key) for key in keys]


# --- window lengths ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Cut:
    """One way of cutting windows: the pipeline's settings with it, and the anomaly intervals it finds."""

    settings: Settings
    intervals: dict[tuple[str, str], agreement.Intervals]

    def label(self, interval_s: float) -> str:
        windows = self.settings.features
        nominal = float(f"{interval_s:.2g}")
        return f"{windows.samples * nominal:.3g} s/{windows.stride * nominal:.3g} s"


def anomaly_intervals(
    pipeline: Pipeline, keys: list[str], settings: Settings
) -> dict[tuple[str, str], agreement.Intervals]:
    """Merged intervals of the flagged windows of runs of one workload, under other settings than the pipeline's.

    Parameters
    ----------
    pipeline : Pipeline
        Nothing is written into its folder.
    keys : list of str
        Runs of one workload; the baseline is fitted on just these.
    settings : Settings
        What to cut and to judge by.

    Returns
    -------
    dict
        By run key and host; empty where there are too few windows for a baseline.
    """
    under = replace(pipeline, settings=settings)
    with tempfile.TemporaryDirectory(prefix="infrascope-") as folder:
        aside = Lake(Path(folder))
        for key in keys:
            aside.write(STEPS[WINDOW_FEATURES.name].make(under, key), WINDOW_FEATURES.name, key)
        baseline = _fitted(under, aside, keys)
        if baseline is None:
            return {}
        found = {}
        for key in keys:
            scores = baselines.score(baseline, aside.read(WINDOW_FEATURES.name, key))
            interval_s = pipeline.run_file(key)["interval_s"]
            length_us = round(settings.features.samples * float(str(interval_s)) * 1e6)
            for (host,), part in sorted(scores.partition_by("host", as_dict=True).items()):
                found[key, str(host)] = agreement.flagged_intervals(part, length_us)
    return found


def _fitted(under: Pipeline, lake: Lake, keys: list[str]) -> Baseline | None:
    """A baseline on a bounded sample of the windows, as the pipeline's own are fitted."""
    run, detectors = under.run_file(keys[0]), under.settings.detectors
    scans = [pl.scan_parquet(file, glob=False) for file in lake.files(WINDOW_FEATURES.name, keys)]
    chosen = baselines.sample_windows(pl.concat(s.select(WINDOW).unique() for s in scans).collect(), detectors)
    features = pl.concat(s.join(chosen.lazy(), on=WINDOW, how="semi") for s in scans).collect()
    platform, phase, workload = (str(run[name]) for name in _WORKLOAD)
    return baselines.fit_baseline(features, platform, phase, workload, detectors, windows=under.settings.features)


def window_settings(settings: Settings) -> list[Settings]:
    """The pipeline's settings, and the same with finer and with coarser windows (Reveal, section 5.5)."""
    own = settings.features
    found = [settings]
    for samples, stride in (settings.agreement.finer, settings.agreement.coarser):
        # the least window that has a third moment
        cut = own.model_copy(
            update={"samples": max(3, round(own.samples * samples)), "stride": max(1, round(own.stride * stride))}
        )
        # what the detectors count in windows stays as long as it was
        detectors = settings.detectors.model_copy(
            update={
                name: max(least, round(getattr(settings.detectors, name) * own.stride / cut.stride))
                for name, least in (("place_windows", 0), ("past_windows", settings.detectors.min_windows))
            }
        )
        found.append(settings.model_copy(update={"features": cut, "detectors": detectors}))
    return found


def _cuts(pipeline: Pipeline, runs: pl.DataFrame) -> list[_Cut]:
    """The three lengths of windows over the chosen runs of one workload."""
    chosen = pipeline.settings.agreement
    keys = _chosen(runs.filter(pl.col("interval_s") > 0), chosen.max_runs, chosen.random_state)
    return [_Cut(s, anomaly_intervals(pipeline, keys, s)) for s in window_settings(pipeline.settings)] if keys else []


def window_agreement(pipeline: Pipeline) -> pl.DataFrame:
    """Judge some runs of every workload with three lengths of windows, and compare what is flagged.

    Intervals are of windows that any detector flags. Baselines are fitted on the chosen runs, one for each length, so
    that the lengths differ in nothing else.
    """
    rows: list[dict[str, object]] = []
    for _, runs in _workloads(pipeline):
        cuts = _cuts(pipeline, runs)
        interval_s = dict(runs.select("run_key", "interval_s").iter_rows())
        for a, b in combinations(cuts, 2):
            for key, host in sorted(a.intervals.keys() & b.intervals.keys()):
                labels = {"setting_a": a.label(interval_s[key]), "setting_b": b.label(interval_s[key])}
                found = asdict(agreement.agreement(a.intervals[key, host], b.intervals[key, host]))
                rows.append({"run_key": key, "host": host, **labels, **found})
    return _kept(pipeline, WINDOW_AGREEMENT, pl.DataFrame(rows, schema=WINDOW_AGREEMENT.schema))


def hit_rates(table: pl.DataFrame) -> pl.DataFrame:
    """Mean, median and standard deviation over runs for each pair of settings, as in table 2 of the paper."""
    measures = ("iou", "hit_by_count", "hit_by_length")
    return table.group_by("setting_a", "setting_b", maintain_order=True).agg(
        pl.col("iou").count().alias("runs"),
        *(
            how(pl.col(name)).round(2).alias(f"{name} {how.__name__}")
            for name in measures
            for how in (pl.Expr.mean, pl.Expr.median, pl.Expr.std)
        ),
    )


def example_timelines(pipeline: Pipeline, table: pl.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """Anomaly intervals of the run in which most were found, by setting, in seconds since its start.

    Parameters
    ----------
    pipeline : Pipeline
        Judges the runs of that workload once more.
    table : polars.DataFrame
        Table `window_agreement`.

    Returns
    -------
    dict
        Empty where nothing was found.
    """
    found = pl.col("intervals_a") + pl.col("intervals_b")
    counted = table.filter(found > 0).sort(found, "run_key", "host", descending=[True, False, False])
    if counted.is_empty():
        return {}
    key, host = str(counted["run_key"][0]), str(counted["host"][0])
    run = pipeline.run_file(key)
    runs = pipeline.accepted().filter(pl.all_horizontal(pl.col(name) == run[name] for name in _WORKLOAD))
    start = int(pipeline.lake.read("telemetry", key, ["ts"])["ts"].dt.epoch("us").to_numpy().min())
    return {
        cut.label(float(str(run["interval_s"]))): [
            ((int(a) - start) / 1e6, (int(b) - start) / 1e6) for a, b in cut.intervals.get((key, host), [])
        ]
        for cut in _cuts(pipeline, runs)
    }


# --- runs of a workload -----------------------------------------------------------------------------------------------


def run_similarity(pipeline: Pipeline) -> pl.DataFrame:
    """Compare the runs of every workload with their median trace, over the metrics that have features."""
    settings = pipeline.settings.similarity
    rows: list[dict[str, object]] = []
    for (platform, phase, workload), runs in _workloads(pipeline):
        keys = _chosen(runs.filter(pl.col("samples") >= _LEAST_SAMPLES), settings.max_runs, settings.random_state)
        points = min([settings.points, *runs.filter(pl.col("run_key").is_in(keys))["samples"]])
        of_run = [(key, trace) for key in keys for trace in _traces(pipeline, key, points)]
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
    frame = pl.DataFrame([{k: v for k, v in row.items() if k != "farthest"} for row in rows], RUN_SIMILARITY.schema)
    return _kept(pipeline, RUN_SIMILARITY, frame)


def _traces(pipeline: Pipeline, key: str, points: int) -> Iterator[dict[str, similarity.Array]]:
    """Resampled metrics of each host of a run, those that have features."""
    watched = pl.read_parquet(pipeline.lake.path(WINDOW_FEATURES.name, key), columns=["metric"])["metric"].unique()
    for _, telemetry in _reanalysed(pipeline, key, set(watched)):
        names = [name for name in metric_names(telemetry) if name in set(watched)]
        values = telemetry.select(pl.col(names).cast(pl.Float64)).to_numpy() if names else np.empty((0, 0))
        if len(values):
            yield dict(zip(names, similarity.resampled(values, points).T, strict=True))


# --- what a window costs ----------------------------------------------------------------------------------------------


def detector_latency(pipeline: Pipeline) -> pl.DataFrame:
    """Time features, detectors and reasons on the longest run of each platform that has a baseline."""
    parts = [DETECTOR_LATENCY.empty()]
    runs = pipeline.accepted().sort("platform", "samples", "run_key", descending=[False, True, False])
    for (platform,), own in runs.group_by("platform", maintain_order=True):
        judged = ((str(key), baseline_of(pipeline, str(key))) for key in own["run_key"])
        key, baseline = next((pair for pair in judged if pair[1] is not None), ("", None))
        if baseline is None:
            continue
        host, telemetry = next(_reanalysed(pipeline, key, {metric for metric, _ in baseline.names}))
        catalog = pipeline.lake.read_cached(METRIC_CATALOG.name)
        plan = feature_plan(catalog, str(platform), pipeline.recipe.names, pipeline.settings.selection.enabled)
        watched = plan.of_host(metric_names(telemetry), host)
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(latency.detector_latency(telemetry, baseline, subsystem, pipeline.settings, classes=classes))
    return _kept(pipeline, DETECTOR_LATENCY, pl.concat(parts))


def _kept(pipeline: Pipeline, table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    pipeline.lake.write(frame, table.name)
    return frame
