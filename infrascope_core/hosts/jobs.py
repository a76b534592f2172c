"""Jobs: which runs belong together, because they ran the same work on several hosts at the same time.

What belongs here: the grouping, by what `run_files` holds of the runs.
"""

from __future__ import annotations

from datetime import datetime

import polars as pl

from infrascope_core.hosts.settings import HostSettings

JOBS = pl.Schema({"job": pl.String, "run_key": pl.String, "host": pl.String, "platform": pl.String})
"""One row per run and host of a job; `job` is the run key of its first run."""

WORK = ("platform", "phase", "model", "task", "dataset")
"""Runs of one job have these in common."""


def find_jobs(runs: pl.DataFrame, hosts: pl.DataFrame, settings: HostSettings) -> pl.DataFrame:
    """Find the jobs that ran on several hosts.

    Parameters
    ----------
    runs : polars.DataFrame
        Rows of `run_files` of accepted runs.
    hosts : polars.DataFrame
        `run_key`, `host` of every run: a file may hold several hosts.
    settings : HostSettings
        `start_within_s`.

    Returns
    -------
    polars.DataFrame
        Columns `JOBS`, by job, run key and host; jobs with one host are left out.

    Notes
    -----
    Runs of one platform, phase, model, task and dataset are one job if they start within `start_within_s` of the
    first and are of different hosts. Where short runs follow each other, a run joins the job that was opened last
    and lacks its host.
    """
    by_run = hosts.group_by("run_key").agg("host")
    hosts_of = {str(key): frozenset(names) for key, names in by_run.iter_rows()}
    found: list[tuple[str, str, str, str]] = []
    order = [*WORK, "started_at", "run_key"]
    for (platform, *_), group in runs.sort(order).group_by(*WORK, maintain_order=True):
        open_jobs: list[tuple[datetime, list[str], set[str]]] = []
        closed: list[list[str]] = []
        for key, started in group.select("run_key", "started_at").iter_rows():
            names = hosts_of.get(key, frozenset())
            late = [job for job in open_jobs if (started - job[0]).total_seconds() > settings.start_within_s]
            closed += [job[1] for job in late]
            open_jobs = [job for job in open_jobs if job not in late]
            fits = [job for job in open_jobs if not job[2] & names]
            if fits:
                fits[-1][1].append(key)
                fits[-1][2].update(names)
            else:
                open_jobs.append((started, [key], set(names)))
        for keys in [*closed, *(job[1] for job in open_jobs)]:
            rows = [(keys[0], key, host, str(platform)) for key in keys for host in sorted(hosts_of.get(key, ()))]
            found += rows if len(rows) > 1 else []
    return pl.DataFrame(found, schema=JOBS, orient="row").sort("job", "run_key", "host")
