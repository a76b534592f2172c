"""The hosts of every job compared, each job once."""

from __future__ import annotations

import polars as pl

from infrascope_core.anomalies.run_features import counters_of_platform, reanalysed_hosts
from infrascope_core.hosts import comparison, verdict
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.hosts.verdict import judge
from infrascope_core.quality import reanalysis
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.run_files.jobs import jobs_of, on_several_hosts
from infrascope_core.run_files.pruned import as_learnt, whole
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.run_files.telemetry import KEY_COLUMNS, metric_names
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Part, Product, Scope, Tick

CODE_VERSION = fingerprint("3", verdict.CODE_VERSION)
"""Raise the number when the same runs would be compared otherwise."""
_METRICS_AT_ONCE = 64
"""Metrics compared at once, so that temporary arrays stay small beside the windows of a job."""


def _host_deviations(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """Compare the hosts of jobs that are new or changed, and judge all anew."""
    jobs = on_several_hosts(jobs_of(folder)[0])
    lacking = jobs.join(known, on="job", how="anti")
    gone = lacking.join(whole(folder, lacking), on="run_key", how="anti").select("job").unique()
    held = [HOST_DEVIATIONS.empty(), known, as_learnt(folder, HOST_DEVIATIONS, gone)]
    parts = [rows.select(comparison.OF_ONE_JOB) for rows in held]
    fresh = lacking.join(gone, on="job", how="anti").partition_by("job", as_dict=True)
    for done, (_, job) in enumerate(sorted(fresh.items())):
        tick(done, len(fresh))
        parts.append(_compare_job(folder, job))
    return judge(pl.concat(parts), jobs, folder.settings.hosts)


def _compare_job(folder: DataFolder, job: pl.DataFrame) -> pl.DataFrame:
    settings = folder.settings.hosts
    windows = {}
    for key in job["run_key"].unique(maintain_order=True):
        for host, telemetry in reanalysed_hosts(folder, key):
            windows[key, host] = comparison.window_means(telemetry, metric_names(telemetry), settings)
    parts = [windows[key, host] for key, host in job.select("run_key", "host").iter_rows()]
    metrics = sorted({name for part in parts for name in part.columns} - set(KEY_COLUMNS))
    rows = []
    for start in range(0, len(metrics), _METRICS_AT_ONCE):
        names = metrics[start : start + _METRICS_AT_ONCE]
        compared = comparison.compare(comparison.aligned(parts, names), settings)
        rows.append(comparison.deviations(job, names, compared))
    return pl.concat(rows) if rows else HOST_DEVIATIONS.empty().select(comparison.OF_ONE_JOB)


def _units(folder: DataFolder) -> dict[str, list[str]]:
    jobs = on_several_hosts(jobs_of(folder)[0]).partition_by("job", as_dict=True)
    return {str(job): rows["run_key"].unique(maintain_order=True).to_list() for (job,), rows in jobs.items()}


def _counters(folder: DataFolder, unit: str) -> str:
    """Cumulative counters of all platforms."""
    platforms = tuple(accepted(folder)["platform"].unique().sort())
    what = ("counters", folder.lake.version(METRIC_CATALOG), platforms)
    return folder.once(what, lambda: "\n\n".join(_counters_of(folder, platform) for platform in platforms))


def _counters_of(folder: DataFolder, platform: str) -> str:
    return "\n".join(sorted(counters_of_platform(folder, platform).rates))


PRODUCTS = (
    Product(
        "hosts",
        (HOST_DEVIATIONS,),
        Scope.COMPARED,
        _host_deviations,
        inputs=(TELEMETRY, Part(METRIC_CATALOG, _counters)),
        code_version=CODE_VERSION,
        settings=("hosts",),
        depends_on=lambda folder, _: reanalysis.CODE_VERSION,
        units=_units,
        libraries=("numpy",),
        decisions=(18,),
    ),
)
