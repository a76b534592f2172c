"""Hosts of one job against each other: which runs belong together, and which host departs from the others.

What belongs here: the grouping of runs into jobs, the comparison of hosts metric by metric, and the verdict over all
jobs of a host (Reveal, sections 3.1 and 6: HugePages). Static metrics are compared too: a misconfigured host shows in
what does not move. Reading the lake is the business of `fleet_comparisons`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from infrascope_core.hosts.settings import HostSettings
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.run_files.columns import subsystem, unit

Array = NDArray[np.float64]

JOBS = pl.Schema({"job": pl.String, "run_key": pl.String, "host": pl.String, "platform": pl.String})
"""One row per run and host of a job; `job` is the run key of its first run."""

FOUND = [
    name
    for name in HOST_DEVIATIONS.schema.names()
    if name not in ("deviates", "ambiguous", "jobs", "jobs_deviating", "claim")
]
"""Columns of `host_deviations` that depend on one job alone."""

CODE_VERSION = "1"
"""Raise it when the same runs would be compared otherwise."""

_SLOT = "sample"
"""A key column's name, which no metric may have."""
_MAD = 1.4826
"""Makes a median absolute deviation a standard deviation, for normal values."""
_JOB_OF = ("platform", "phase", "model", "task", "dataset")
_SAME = ["platform", "host", "metric", "direction"]
_CLAIMED = ["deviates", "ambiguous", "steady", "metric", "host", "hosts", "value", "expected", "direction",
            "persistence", "jobs", "jobs_deviating"]  # fmt: skip
_LIKE_OTHERS, _UNKNOWN, _ODD = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Comparison:
    """Hosts of a job against the others; each array is hosts x metrics, NaN where nothing could be compared.

    Attributes
    ----------
    hosts : ndarray of int
        Hosts that have the metric.
    windows : ndarray of int
        Windows in which the host was compared.
    value, expected : ndarray
        Medians over those windows, of the host and of the others.
    robust_z, persistence : ndarray
        See `compare`.
    steady : ndarray of bool
        The host's windows all have one value.
    """

    hosts: NDArray[np.int64]
    windows: NDArray[np.int64]
    value: Array
    expected: Array
    robust_z: Array
    persistence: Array
    steady: NDArray[np.bool_]


def jobs(runs: pl.DataFrame, hosts: pl.DataFrame, settings: HostSettings) -> pl.DataFrame:
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
    of_run = {str(key): frozenset(names) for key, names in hosts.group_by("run_key").agg("host").iter_rows()}
    found: list[tuple[str, str, str, str]] = []
    order = [*_JOB_OF, "started_at", "run_key"]
    for (platform, *_), group in runs.sort(order).group_by(*_JOB_OF, maintain_order=True):
        open_jobs: list[tuple[datetime, list[str], set[str]]] = []
        closed: list[list[str]] = []
        for key, started in group.select("run_key", "started_at").iter_rows():
            own = of_run.get(key, frozenset())
            late = [job for job in open_jobs if (started - job[0]).total_seconds() > settings.start_within_s]
            closed += [job[1] for job in late]
            open_jobs = [job for job in open_jobs if job not in late]
            fits = [job for job in open_jobs if not job[2] & own]
            if fits:
                fits[-1][1].append(key)
                fits[-1][2].update(own)
            else:
                open_jobs.append((started, [key], set(own)))
        for keys in [*closed, *(job[1] for job in open_jobs)]:
            rows = [(keys[0], key, host, str(platform)) for key in keys for host in sorted(of_run.get(key, ()))]
            found += rows if len(rows) > 1 else []
    return pl.DataFrame(found, schema=JOBS, orient="row").sort("job", "run_key", "host")


def window_means(telemetry: pl.DataFrame, metrics: list[str], settings: HostSettings) -> pl.DataFrame:
    """Average one host's samples over windows of absolute time, so that hosts share them.

    Parameters
    ----------
    telemetry : polars.DataFrame
        `ts` and the metrics; missing and infinite samples are left out.
    metrics : list of str
        Columns to average.
    settings : HostSettings
        `window_s`.

    Returns
    -------
    polars.DataFrame
        `sample` (whole windows since 1970) and the metrics, by slot. Means, not medians: a host whose counter rises now
        and then has a mean, and a median of 0.
    """
    length = round(settings.window_s * 1e6)
    return (
        telemetry.select(
            pl.col("ts").dt.epoch("us").floordiv(length).alias(_SLOT),
            *(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in metrics),
        )
        .group_by(_SLOT)
        .agg(pl.col(metrics).mean())
        .sort(_SLOT)
    )


def aligned(parts: list[pl.DataFrame], metrics: list[str]) -> Array:
    """Stack hosts' windows by time.

    Parameters
    ----------
    parts : list of polars.DataFrame
        Results of `window_means`, one a host; a metric may be lacking.
    metrics : list of str
        The last axis, in order.

    Returns
    -------
    ndarray, hosts x windows x metrics
        NaN where a host has no value.
    """
    slots = np.unique(np.concatenate([part[_SLOT].to_numpy() for part in parts]))
    values = np.full((len(parts), len(slots), len(metrics)), np.nan)
    for host, part in enumerate(parts):
        rows = np.searchsorted(slots, part[_SLOT].to_numpy())
        there = [i for i, name in enumerate(metrics) if name in part.columns]
        if there:
            known = part.select(pl.col([metrics[i] for i in there]).cast(pl.Float64).fill_null(np.nan)).to_numpy()
            values[host, rows[:, None], np.array(there)] = known
    return values


def compare(values: Array, settings: HostSettings) -> Comparison:
    """Compare each host of a job with the others.

    Parameters
    ----------
    values : ndarray, hosts x windows x metrics
        Windows of shared time; NaN is missing.
    settings : HostSettings
        `least_scale`.

    Notes
    -----
    In each window a host is set against the median of the others in that window; where no other host has the metric at
    that time, their median over the job stands in (clocks that differ, runs that do not overlap). The robust z is the
    difference of the medians over windows, divided by the root of two squares: the host's own wavering (median
    absolute deviation of its difference from the others) and the spread of the others' medians. With two hosts only
    the first is known. Persistence is the share of the windows in which the host lies on that side by more than that
    spread.
    """
    n, _, metrics = values.shape
    level = _median(values, axis=1)
    shape = (n, metrics)
    windows = np.zeros(shape, dtype=np.int64)
    value, expected, robust_z, persistence = (np.full(shape, np.nan) for _ in range(4))
    steady = np.zeros(shape, dtype=bool)
    for host in range(n):
        own, others = values[host], np.delete(values, host, axis=0)
        other_levels = np.delete(level, host, axis=0)
        typical = _median(other_levels, axis=0)
        other = _median(others, axis=0)
        other = np.where(np.isnan(other), typical, other)
        apart = own - other
        compared = ~np.isnan(apart)
        windows[host] = compared.sum(axis=0)
        value[host] = _median(np.where(compared, own, np.nan), axis=0)
        expected[host] = _median(np.where(compared, other, np.nan), axis=0)
        within = _spread(apart, axis=0)
        between = np.where((~np.isnan(other_levels)).sum(axis=0) > 1, _spread(other_levels, axis=0), 0.0)
        largest = np.maximum(np.abs(value[host]), np.abs(expected[host]))
        scale = np.maximum(np.hypot(within, between), settings.least_scale * largest)
        difference = value[host] - expected[host]
        with np.errstate(invalid="ignore", divide="ignore"):
            robust_z[host] = np.where(difference == 0, 0.0, difference / scale)
            beyond = np.sign(difference) * apart > scale
            persistence[host] = beyond.sum(axis=0) / windows[host]
            low = np.where(compared, own, np.inf).min(axis=0, initial=np.inf)
            high = np.where(compared, own, -np.inf).max(axis=0, initial=-np.inf)
        steady[host] = low == high
    have = np.broadcast_to((~np.isnan(level)).sum(axis=0), shape)
    return Comparison(have, windows, value, expected, robust_z, persistence, steady)


def _median(x: Array, axis: int) -> Array:
    """Median of the known values; NaN, without a warning, where there is none."""
    # NaN sorts last
    x = np.sort(x, axis=axis)
    count = np.expand_dims((~np.isnan(x)).sum(axis=axis), axis)
    if not x.shape[axis]:
        return np.full(np.delete(x.shape, axis), np.nan)
    low = np.take_along_axis(x, np.maximum(count - 1, 0) // 2, axis=axis)
    high = np.take_along_axis(x, np.minimum(count // 2, x.shape[axis] - 1), axis=axis)
    middle: Array = np.where(count > 0, (low + high) / 2, np.nan).squeeze(axis)
    return middle


def _spread(x: Array, axis: int) -> Array:
    """Robust standard deviation: scaled median absolute deviation."""
    centre = np.expand_dims(_median(x, axis), axis)
    return _MAD * _median(np.abs(x - centre), axis)


def deviations(job: pl.DataFrame, metrics: list[str], comparison: Comparison) -> pl.DataFrame:
    """The comparison of one job as rows of `host_deviations`, not judged yet.

    Parameters
    ----------
    job : polars.DataFrame
        Rows of `jobs`, in the order of the comparison's hosts.
    metrics : list of str
        In the order of the comparison's metrics.
    comparison : Comparison
        Result of `compare`.

    Returns
    -------
    polars.DataFrame
        Columns `FOUND`: the table `host_deviations` but for what `judge` adds; without metrics in which the host
        equals the others, or was compared with none.
    """
    with np.errstate(invalid="ignore"):
        host, metric = np.nonzero(comparison.value != comparison.expected)
    kept = comparison.windows[host, metric] > 0
    host, metric = host[kept], metric[kept]
    names = pl.DataFrame(
        {"metric": metrics, "subsystem": [subsystem(m) for m in metrics], "unit": [unit(m) for m in metrics]},
        schema={"metric": pl.String, "subsystem": pl.String, "unit": pl.String},
    )
    return (
        pl.concat([job[host], names[metric]], how="horizontal")
        .with_columns(
            hosts=pl.Series(comparison.hosts[host, metric]),
            windows=pl.Series(comparison.windows[host, metric]),
            value=pl.Series(comparison.value[host, metric]),
            expected=pl.Series(comparison.expected[host, metric]),
            robust_z=pl.Series(comparison.robust_z[host, metric]),
            persistence=pl.Series(comparison.persistence[host, metric]),
            direction=pl.when(pl.Series(comparison.robust_z[host, metric]) > 0)
            .then(pl.lit("above"))
            .otherwise(pl.lit("below")),
            steady=pl.Series(comparison.steady[host, metric]),
        )
        .select(FOUND)
    )


def judge(found: pl.DataFrame, jobs: pl.DataFrame, settings: HostSettings) -> pl.DataFrame:
    """Decide which deviations are reported, in the light of all jobs.

    Parameters
    ----------
    found : polars.DataFrame
        Results of `deviations` of all jobs, in any order; columns beyond those are passed over.
    jobs : polars.DataFrame
        All jobs (`JOBS`).
    settings : HostSettings
        `limit`, `persistence`, `least_relative`, `least_windows`.

    Returns
    -------
    polars.DataFrame
        Table `host_deviations`, by job, host and metric.

    Notes
    -----
    A host deviates if it is far from the others (robust z and relative difference), persistently, in enough windows.
    Of two hosts each is as far from the other. Then their other jobs decide, those with at least one third host: a
    host that deviates in the same metric and direction in at least half of them is odd, one that does not is like
    the others, one that has none is unknown. The odder of the two is reported; if they are equals, both, marked
    `ambiguous`.
    """
    apart = (pl.col("value") - pl.col("expected")).abs()
    largest = pl.max_horizontal(pl.col("value").abs(), pl.col("expected").abs())
    found = found.with_columns(
        far=(pl.col("robust_z").abs() >= settings.limit)
        & (pl.col("persistence") >= settings.persistence)
        & (apart >= settings.least_relative * largest)
        & (pl.col("windows") >= settings.least_windows),
    )
    odd = _odder_of_two(found, jobs)
    compared = jobs.group_by("platform", "host").agg(jobs=pl.col("job").n_unique())
    judged = (
        found.join(odd, on=["job", "host", "metric"], how="left")
        .with_columns(
            deviates=pl.col("far") & pl.col("odder").fill_null(True),
            ambiguous=pl.col("far") & pl.col("ambiguous").fill_null(False),
        )
        .with_columns(jobs_deviating=pl.col("deviates").cast(pl.Int64).sum().over(_SAME))
        .join(compared, on=["platform", "host"], how="left")
        .sort("job", "host", "metric")
    )
    claims = [_claim(row) if row["deviates"] else None for row in judged.select(_CLAIMED).iter_rows(named=True)]
    return (
        judged.with_columns(claim=pl.Series(claims, dtype=pl.String))
        .select(HOST_DEVIATIONS.schema.names())
        .cast(HOST_DEVIATIONS.schema)
    )


def _odder_of_two(found: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """For each far row of two hosts: whether it is the odder one, or an equal; job, host, metric, odder, ambiguous."""
    pairs = found.filter(pl.col("far") & (pl.col("hosts") == 2)).select("job", *_SAME)
    others = found.filter(pl.col("hosts") == 2).select("job", "metric", peer="host")
    pairs = pairs.join(others, on=["job", "metric"]).filter(pl.col("peer") != pl.col("host"))
    # jobs that can tell: all of the host's but those with this one peer alone
    companies = jobs.group_by("platform", "job").agg(pl.col("host").unique().sort()).explode("host", keep_nulls=True)
    companies = companies.with_columns(n=pl.len().over("platform", "job"))
    met = companies.join(companies.select("platform", "job", peer="host"), on=["platform", "job"])
    alone = met.filter((pl.col("n") == 2) & (pl.col("peer") != pl.col("host")))
    alone = alone.group_by("platform", "host", "peer").agg(alone=pl.len())
    all_jobs = companies.group_by("platform", "host").agg(all_jobs=pl.len())
    far = found.filter("far").group_by(_SAME).agg(all_far=pl.len())
    far_alone = pairs.group_by(*_SAME, "peer").agg(far_alone=pl.len())
    status = (
        pairs.join(all_jobs, on=["platform", "host"], how="left")
        .join(alone, on=["platform", "host", "peer"], how="left")
        .join(far, on=_SAME, how="left")
        .join(far_alone, on=[*_SAME, "peer"], how="left")
        .with_columns(can_tell=pl.col("all_jobs") - pl.col("alone").fill_null(0))
        .with_columns(
            oddness=pl.when(pl.col("can_tell") <= 0)
            .then(_UNKNOWN)
            .when(2 * (pl.col("all_far") - pl.col("far_alone")) >= pl.col("can_tell"))
            .then(_ODD)
            .otherwise(_LIKE_OTHERS)
        )
    )
    of_peer = status.select("job", "metric", peer="host", peer_oddness="oddness")
    return status.join(of_peer, on=["job", "metric", "peer"], how="left").select(
        "job",
        "host",
        "metric",
        odder=pl.col("oddness") >= pl.col("peer_oddness").fill_null(_UNKNOWN),
        ambiguous=pl.col("oddness") == pl.col("peer_oddness").fill_null(_UNKNOWN),
    )


@cache
def _wording() -> dict[str, str]:
    text = (files(__package__) / "claims.yaml").read_text(encoding="utf-8")
    wording: dict[str, str] = yaml.safe_load(text)
    return wording


def _claim(row: dict[str, Any]) -> str:
    words, value, expected = _wording(), row["value"], row["expected"]
    times = words["times"].format(times=f"{value / expected:.3g}") if value * expected > 0 else ""
    others = words["one"] if row["hosts"] == 2 else words["several"].format(n=row["hosts"] - 1)
    sentence = words["sentence"].format(
        metric=row["metric"],
        host=row["host"],
        value=f"{value:.4g}",
        expected=f"{expected:.4g}",
        others=others,
        direction=row["direction"],
        times=times,
        persistence=f"{row['persistence']:.0%}",
    )
    if row["jobs"] > 1:
        sentence += words["jobs"].format(jobs=row["jobs"], jobs_deviating=row["jobs_deviating"])
    if row["steady"]:
        sentence += words["steady"]
    if row["ambiguous"]:
        sentence += words["ambiguous"]
    return sentence + "."
