"""Jobs: which runs belong together, because they ran the same work on several hosts at the same time.

What belongs here: the grouping, by what `run_files` holds of the runs. The runs of a job are one case of whatever is
counted or tested over runs.
"""

from __future__ import annotations

from datetime import datetime

import polars as pl

from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder

JOBS = pl.Schema({"job": pl.String, "run_key": pl.String, "host": pl.String, "platform": pl.String})
"""One row per run and host of a job; `job` is the run key of its first run."""

WORK = ("platform", "phase", "model", "task", "dataset")
"""Runs of one job have these in common."""


def find_jobs(runs: pl.DataFrame, start_within_s: float) -> pl.DataFrame:
    """Find the jobs of runs.

    Parameters
    ----------
    runs : polars.DataFrame
        Rows of `run_files` of accepted runs; `run_key`, `started_at`, `hosts` and `WORK` are enough.
    start_within_s : float
        Setting `hosts.start_within_s`, seconds.

    Returns
    -------
    polars.DataFrame
        Columns `JOBS`, by job, run key and host: every run, most of them the only one of their job.

    Notes
    -----
    Runs of one platform, phase, model, task and dataset are one job if they start within `start_within_s` of the
    first and are of different hosts. Where short runs follow each other, a run joins the job that was opened last
    and lacks its host.
    """
    found: list[tuple[str, str, str, str]] = []
    order = [*WORK, "started_at", "run_key"]
    for (platform, *_), group in runs.sort(order).group_by(*WORK, maintain_order=True):
        open_jobs: list[tuple[datetime, list[str], set[str]]] = []
        closed: list[list[str]] = []
        hosts_of = {str(key): set(hosts or ()) for key, hosts in group.select("run_key", "hosts").iter_rows()}
        for key, started in group.select("run_key", "started_at").iter_rows():
            late = [job for job in open_jobs if (started - job[0]).total_seconds() > start_within_s]
            closed += [job[1] for job in late]
            open_jobs = [job for job in open_jobs if job not in late]
            fits = [job for job in open_jobs if not job[2] & hosts_of[key]]
            if fits:
                fits[-1][1].append(key)
                fits[-1][2].update(hosts_of[key])
            else:
                open_jobs.append((started, [key], set(hosts_of[key])))
        for keys in [*closed, *(job[1] for job in open_jobs)]:
            found += [(keys[0], key, host, str(platform)) for key in keys for host in sorted(hosts_of[key])]
    return pl.DataFrame(found, schema=JOBS, orient="row").sort("job", "run_key", "host")


def on_several_hosts(jobs: pl.DataFrame) -> pl.DataFrame:
    """Those of `JOBS` whose hosts can be compared with each other."""
    return jobs.filter(pl.len().over("job") > 1)


def job_of_run(jobs: pl.DataFrame) -> dict[str, str]:
    """The job of every run of `JOBS`, by run key."""
    return dict(jobs.select("run_key", "job").unique().iter_rows())


def jobs_of(folder: DataFolder) -> tuple[pl.DataFrame, dict[str, str]]:
    """The jobs of all accepted runs: columns `JOBS`, and the job of every run."""
    runs = accepted(folder)
    remembered: dict[object, tuple[pl.DataFrame, dict[str, str]]] = folder.once("jobs", dict)
    state = (*runs["run_key"], *runs["sha256"])
    if state not in remembered:
        remembered.clear()
        jobs = find_jobs(runs, folder.settings.hosts.start_within_s)
        remembered[state] = jobs, job_of_run(jobs)
    return remembered[state]
