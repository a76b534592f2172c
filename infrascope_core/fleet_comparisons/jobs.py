"""`host_deviations`: the hosts of every job compared, each job once."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from infrascope_core import hosts
from infrascope_core.fleet_comparisons.reading import cumulative, reanalysed
from infrascope_core.lake import fingerprint
from infrascope_core.pipeline import Pipeline
from infrascope_core.reanalysis import CODE_VERSION as REANALYSIS_VERSION
from infrascope_core.tables import HOST_DEVIATIONS
from infrascope_core.telemetry import KEY_COLUMNS, metric_names

_METRICS_AT_ONCE = 64
"""Metrics compared at once, so that temporary arrays stay small beside the windows of a job."""


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
        for host, telemetry in reanalysed(pipeline, key):
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


def _rates(pipeline: Pipeline, platform: str) -> str:
    return "\n".join(sorted(cumulative(pipeline, platform).rates))
