"""Classes of metrics (Reveal, section 4.2): dynamic signals, event counters, static or strictly periodic metrics.

What belongs here: how a metric behaves inside the runs, and the class that follows. Decided by data, never by name;
docs/adr/0016 gives the reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from scipy import fft

from infrascope_core.numeric import Array, Mask, centred
from infrascope_core.quality.settings import ClassSettings

DYNAMIC, EVENT_COUNTER, STATIC = "dynamic", "event_counter", "static"
_REPEATS, _DIFFERS = 0.01, 0.5
"""Of a normalised squared difference of a signal and itself shifted: 0 is the same, 1 is unrelated, 2 the opposite."""
_PERIODS = 4
"""A period must have been seen this often to be one."""
_CHUNK = 2**20


def behaviour(values: Array, names: Sequence[str], whole: Mask | None = None) -> pl.DataFrame:
    """How metrics behave in one run of one host.

    Parameters
    ----------
    values : ndarray, samples x metrics
        NaN where missing.
    names : sequence of str
        The metrics.
    whole : ndarray of bool, optional
        Which metrics count whole things although their values need not be whole (rates of counters).

    Returns
    -------
    pl.DataFrame
        metric; samples (known values), zeros, steps (known neighbours), changes (steps to another value), whole,
        lowest, mean, m2 (sum of squared deviations from the run's mean), periodic.
    """
    known = np.isfinite(values)
    samples = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    counted = (filled == np.rint(filled)).all(axis=0)
    mean, deviation = centred(values, known)
    neighbours = known[1:] & known[:-1]
    changes = (neighbours & (values[1:] != values[:-1])).sum(axis=0)
    repeating = np.zeros(len(names), dtype=bool)
    candidates = np.flatnonzero(known.all(axis=0) & (changes > 0))
    repeating[candidates] = periodic(deviation[:, candidates])
    return pl.DataFrame(
        {
            "metric": list(names),
            "samples": samples,
            "zeros": (known & (values == 0)).sum(axis=0),
            "steps": neighbours.sum(axis=0),
            "changes": changes,
            "whole": counted if whole is None else counted | whole,
            "lowest": np.where(known, values, np.inf).min(axis=0, initial=np.inf),
            "mean": mean,
            "m2": np.where(changes > 0, np.einsum("ij,ij->j", deviation, deviation), 0.0),
            "periodic": repeating,
        },
        schema_overrides={"metric": pl.String},
    )


def periodic(deviation: Array) -> Mask:
    """Which signals repeat themselves strictly, at least four times, and are not merely smooth.

    A signal is strictly periodic if, shifted by some number of samples, it is the same within 1 % of its power, and
    shifted by some smaller number it is not (the squared difference function of pitch detection: de Cheveigné and
    Kawahara, 2002).

    Parameters
    ----------
    deviation : ndarray, samples x signals
        Finite, mean 0.
    """
    samples, signals = deviation.shape
    shifts = samples // _PERIODS
    if shifts < 2:
        return np.zeros(signals, dtype=bool)
    found = [np.empty(0, dtype=bool)]
    length = fft.next_fast_len(samples + shifts, real=True)
    width = max(1, _CHUNK // length)
    for start in range(0, signals, width):
        # single precision resolves a hundredth of the power, in half the time
        x = np.ascontiguousarray(deviation[:, start : start + width].T)
        with np.errstate(all="ignore"):
            x = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
        x = np.where(np.isfinite(x), x, 0.0).astype(np.float32)
        spectrum = fft.rfft(x, length, axis=1)
        lagged = fft.irfft((spectrum * spectrum.conj()).real, length, axis=1)[:, 1 : shifts + 1]
        power = np.cumsum(x * x, axis=1, dtype=float)
        # power of what overlaps when shifted by 1, 2, ...: all but the last, and all but the first samples
        head, tail = power[:, -2 : -shifts - 2 : -1], power[:, -1:] - power[:, :shifts]
        with np.errstate(all="ignore"):
            difference = 1 - 2 * lagged / (head + tail)
        differs = np.maximum.accumulate(difference > _DIFFERS, axis=1)
        found.append(((difference < _REPEATS) & differs).any(axis=1))
    return np.concatenate(found)


def classify(behaviours: pl.DataFrame, levels: Collection[str], settings: ClassSettings) -> pl.DataFrame:
    """Class of every metric over all runs that were looked at.

    Parameters
    ----------
    behaviours : pl.DataFrame
        Rows of `behaviour`, with the metric's unit, in an order that does not depend on how they were made.
    levels : collection of str
        Units of levels and shares: what bears one counts no events.
    settings : ClassSettings
        Where the classes part.

    Returns
    -------
    pl.DataFrame
        metric, metric_class (null where no run has a value), why; and what the catalogue judges derived metrics by:
        samples, zeros, cv (of all samples together).
    """
    moving = (pl.col("changes") > 0) | (pl.col("mean") == 0) | (pl.col("samples") < 2)
    pooled = (
        behaviours.filter(pl.col("samples") > 0)
        .sort("metric", maintain_order=True)
        .group_by("metric", maintain_order=True)
        .agg(
            pl.first("unit"),
            pl.sum("samples", "zeros", "steps", "changes", "m2"),
            pl.all("whole"),
            pl.min("lowest"),
            mean=(pl.col("mean") * pl.col("samples")).sum() / pl.col("samples").sum(),
            # a value that is not 0 and stays throughout a run is a state, not an event
            comes_and_goes=moving.all() & (pl.col("changes") > 0).any(),
            periodic=(pl.col("periodic") | (pl.col("changes") == 0)).all() & pl.col("periodic").any(),
            between=(pl.col("samples") * (pl.col("mean") - pl.col("mean").mean()) ** 2).sum()
            - pl.col("samples").sum()
            * (((pl.col("mean") - pl.col("mean").mean()) * pl.col("samples")).sum() / pl.col("samples").sum()) ** 2,
        )
        .with_columns(
            changing=pl.col("changes") / pl.max_horizontal("steps", 1),
            empty=pl.col("zeros") / pl.col("samples"),
            within_cv=(pl.col("m2") / pl.col("samples")).sqrt() / pl.col("mean").abs(),
            cv=((pl.col("m2") + pl.max_horizontal("between", 0.0)) / (pl.col("samples") - 1)).sqrt()
            / pl.col("mean").abs(),
        )
    )
    events = (
        pl.col("whole")
        & (pl.col("lowest") >= 0)
        & (pl.col("empty") >= settings.event_zeros)
        & pl.col("comes_and_goes")
        & ~pl.col("unit").is_in(sorted(levels))
    )
    percent = {name: (pl.col(name) * 100).round(2).cast(pl.String) for name in ("empty", "changing")}
    percent["within_cv"] = (pl.col("within_cv") * 100).round(4).cast(pl.String)
    metric_class = (
        pl.when(events)
        .then(pl.lit(EVENT_COUNTER))
        .when(pl.col("steps") == 0)
        .then(pl.lit(DYNAMIC))
        .when(
            pl.col("periodic")
            | (pl.col("changing") < settings.static_changes)
            | (pl.col("within_cv") < settings.static_cv)
        )
        .then(pl.lit(STATIC))
        .otherwise(pl.lit(DYNAMIC))
    )
    why = (
        pl.when(events)
        .then(pl.format("event counter: {} % of the samples are 0", percent["empty"]))
        .when(pl.col("steps") == 0)
        .then(pl.lit("dynamic: no two successive samples"))
        .when(pl.col("periodic"))
        .then(pl.lit("static: strictly periodic in every run"))
        .when(pl.col("changing") < settings.static_changes)
        .then(pl.format("static: {} % of the steps change it", percent["changing"]))
        .when(pl.col("within_cv") < settings.static_cv)
        .then(pl.format("static: deviates by {} % within the runs", percent["within_cv"]))
        .otherwise(pl.format("dynamic: {} % of the steps change it", percent["changing"]))
    )
    return pooled.select("metric", "samples", "zeros", "cv", metric_class=metric_class, why=why)
