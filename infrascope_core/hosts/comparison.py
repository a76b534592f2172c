"""Hosts of one job against each other, metric by metric.

What belongs here: the numbers of a single job, from telemetry to how far each host departs and for how long (Reveal,
sections 3.1 and 6: HugePages). Static metrics are compared too: a misconfigured host shows in what does not move. Which
departures are reported is decided in `verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.hosts.settings import HostSettings
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.numeric import Array, Ints, Mask, median, median_deviation
from infrascope_core.run_files.columns import subsystem, unit

VERDICT = ("deviates", "ambiguous", "jobs", "jobs_deviating", "claim")
"""Columns of `host_deviations` that depend on all jobs (`verdict`)."""
OF_ONE_JOB = [name for name in HOST_DEVIATIONS.schema.names() if name not in VERDICT]
"""Columns of `host_deviations` that depend on one job alone."""

_SLOT = "sample"
"""A key column's name, which no metric may have."""


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

    hosts: Ints
    windows: Ints
    value: Array
    expected: Array
    robust_z: Array
    persistence: Array
    steady: Mask


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
        columns = [i for i, name in enumerate(metrics) if name in part.columns]
        if columns:
            known = part.select(pl.col([metrics[i] for i in columns]).cast(pl.Float64).fill_null(np.nan)).to_numpy()
            values[host, rows[:, None], np.array(columns)] = known
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
    level = median(values, axis=1)
    shape = (n, metrics)
    windows = np.zeros(shape, dtype=np.int64)
    value, expected, robust_z, persistence = (np.full(shape, np.nan) for _ in range(4))
    steady = np.zeros(shape, dtype=bool)
    for host in range(n):
        mine, others = values[host], np.delete(values, host, axis=0)
        other_levels = np.delete(level, host, axis=0)
        typical = median(other_levels, axis=0)
        other = median(others, axis=0)
        other = np.where(np.isnan(other), typical, other)
        apart = mine - other
        compared = ~np.isnan(apart)
        windows[host] = compared.sum(axis=0)
        value[host] = median(np.where(compared, mine, np.nan), axis=0)
        expected[host] = median(np.where(compared, other, np.nan), axis=0)
        within = median_deviation(apart, axis=0)
        between = np.where((~np.isnan(other_levels)).sum(axis=0) > 1, median_deviation(other_levels, axis=0), 0.0)
        largest = np.maximum(np.abs(value[host]), np.abs(expected[host]))
        scale = np.maximum(np.hypot(within, between), settings.least_scale * largest)
        difference = value[host] - expected[host]
        with np.errstate(invalid="ignore", divide="ignore"):
            robust_z[host] = np.where(difference == 0, 0.0, difference / scale)
            beyond = np.sign(difference) * apart > scale
            persistence[host] = beyond.sum(axis=0) / windows[host]
            low = np.where(compared, mine, np.inf).min(axis=0, initial=np.inf)
            high = np.where(compared, mine, -np.inf).max(axis=0, initial=-np.inf)
        steady[host] = low == high
    have = np.broadcast_to((~np.isnan(level)).sum(axis=0), shape)
    return Comparison(have, windows, value, expected, robust_z, persistence, steady)


def deviations(job: pl.DataFrame, metrics: list[str], comparison: Comparison) -> pl.DataFrame:
    """The comparison of one job as rows of `host_deviations`, without a verdict.

    Parameters
    ----------
    job : polars.DataFrame
        Rows of `jobs.find_jobs`, in the order of the comparison's hosts.
    metrics : list of str
        In the order of the comparison's metrics.
    comparison : Comparison
        Result of `compare`.

    Returns
    -------
    polars.DataFrame
        Columns `OF_ONE_JOB`: the table `host_deviations` but for what `judge` adds; without metrics in which the host
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
        .select(OF_ONE_JOB)
    )
