"""Anomaly patterns: which metrics the abnormal time of a fleet is about (Reveal, section 5.6).

What belongs here: the sums over runs. What a window is about is its first reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from infrascope_core.contract import WINDOW_KEY, WORKLOAD_KEY
from infrascope_core.reports.tables import ANOMALY_PATTERNS

_ABOUT = ("subsystem", "metric", "feature")
_COUNTED = pl.Schema(
    {
        **dict.fromkeys((*WORKLOAD_KEY, *_ABOUT, "run_key", "host"), pl.String()),
        "windows": pl.Int64(),
        "seconds": pl.Float64(),
    }
)
JUDGED = pl.Schema({**dict.fromkeys((*WORKLOAD_KEY, "run_key"), pl.String()), "seconds": pl.Float64()})
"""Judged time of each run."""


def counted(
    scores: pl.DataFrame, reasons: pl.DataFrame, workload: tuple[str, str, str], stride_s: float
) -> pl.DataFrame:
    """Windows with an alarm in a run, by host and what each is about.

    Parameters
    ----------
    scores, reasons : polars.DataFrame
        Its tables `anomaly_scores` and `anomaly_reasons`.
    workload : tuple of str
        Its platform, phase and workload.
    stride_s : float
        Seconds from one window to the next: what a window counts for.
    """
    first = reasons.filter(rank=1).select(*WINDOW_KEY, *_ABOUT)
    found = scores.filter("anomalous").select(WINDOW_KEY).join(first, on=WINDOW_KEY)
    grouped = found.group_by("run_key", "host", *_ABOUT).agg(windows=pl.len())
    return (
        grouped.with_columns(
            **{name: pl.lit(value) for name, value in zip(WORKLOAD_KEY, workload, strict=True)},
            seconds=pl.col("windows") * stride_s,
        )
        .select(_COUNTED.names())
        .cast(_COUNTED)
    )


def anomaly_patterns(parts: Iterable[pl.DataFrame], judged: pl.DataFrame) -> pl.DataFrame:
    """Sum up over runs.

    Parameters
    ----------
    parts : iterable of polars.DataFrame
        Results of `counted`.
    judged : polars.DataFrame
        Columns `JUDGED`.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_patterns`, by workload, the longest first.
    """
    found = pl.concat([pl.DataFrame(schema=_COUNTED), *parts])
    of_workload = judged.group_by(WORKLOAD_KEY).agg(judged_s=pl.col("seconds").sum())
    abnormal = found.group_by(WORKLOAD_KEY).agg(abnormal_s=pl.col("seconds").sum())
    summed = (
        found.group_by(*WORKLOAD_KEY, *_ABOUT)
        .agg(
            pl.col("windows", "seconds").sum(),
            runs=pl.col("run_key").n_unique(),
            hosts=pl.col("host").n_unique(),
        )
        .join(of_workload, on=WORKLOAD_KEY)
        .join(abnormal, on=WORKLOAD_KEY)
        .with_columns(
            share=pl.col("seconds") / pl.col("judged_s"), of_anomalous=pl.col("seconds") / pl.col("abnormal_s")
        )
    )
    ordered = summed.sort(
        *WORKLOAD_KEY, "seconds", "metric", "feature", descending=[False, False, False, True, False, False]
    )
    return ordered.select(ANOMALY_PATTERNS.schema.names()).cast(ANOMALY_PATTERNS.schema)
