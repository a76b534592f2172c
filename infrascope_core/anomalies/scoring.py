"""Scores: the table `anomaly_scores` of judged windows.

What belongs here: flags, severity, surprisal and alarms of windows, from a baseline and their residuals.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from infrascope_core.anomalies.alarms import anomalous, held
from infrascope_core.anomalies.alone import comparable
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.calibration import together
from infrascope_core.anomalies.detectors import BriefDeviation
from infrascope_core.anomalies.levels import by_host
from infrascope_core.anomalies.residuals import Residuals, spans
from infrascope_core.anomalies.tables import ANOMALY_SCORES
from infrascope_core.numeric import Array, Ints, Mask

_LEAST_LIMIT = 1e-12
"""Where no window of a baseline deviates at all, a severity is large, but finite."""


def score(baseline: Baseline, residuals: Residuals) -> pl.DataFrame:
    """Judge windows against a baseline.

    Parameters
    ----------
    baseline : Baseline
        A fitted one.
    residuals : Residuals
        The windows, as `Baseline.judge` gives them.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_scores`, by run, host and window. A window with none of the baseline's metrics is one from which
        all are missing. `flagged_by` names detectors in the order of `DETECTORS`.
    """
    windows = residuals.windows
    scores = baseline.scores(residuals)
    order = [d.name for d in baseline.detectors]
    limits = np.array([baseline.thresholds[name] for name in order])
    flags = scores > limits
    surprisal = baseline.surprisal(scores, windows)
    if baseline.of_itself:
        for _, rows in by_host(windows):
            surprisal[rows[~comparable(together(surprisal[rows]))]] = np.nan
    raised = pl.Series(_anomalous(baseline, residuals, surprisal))
    judged = [run_key for run_key in windows["run_key"].unique() if baseline.judges(run_key)]
    return (
        windows.with_columns(
            *(pl.Series(name, scores[:, i], nan_to_null=True) for i, name in enumerate(order)),
            pl.Series("severity", (scores / np.maximum(limits, _LEAST_LIMIT)).max(axis=1), nan_to_null=True),
            pl.Series("surprisal", together(surprisal), nan_to_null=True),
            pl.Series("agreement", flags.sum(axis=1)),
            pl.Series(
                "flagged_by",
                [[name for name, flag in zip(order, row, strict=True) if flag] for row in flags.tolist()],
                dtype=pl.List(pl.String),
            ),
            anomalous=pl.when(pl.col("run_key").is_in(judged) & (raised | (not baseline.of_itself))).then(raised),
            baseline_version=pl.lit(baseline.identity.version),
        )
        .select(ANOMALY_SCORES.schema.names())
        .cast(ANOMALY_SCORES.schema)
    )


def _anomalous(baseline: Baseline, residuals: Residuals, surprisal: Array) -> Mask:
    """Alarms of every host's windows, which are in order; each group of detectors raises its own."""
    raised = np.zeros(len(surprisal), dtype=bool)
    settings, metrics = baseline.settings, baseline.single_metrics
    brief, lasting = spans(residuals.windows, settings)
    span_of = {"instant": 0, "brief": brief, "smoothed": lasting}
    alarm, shared = -float(np.log10(settings.alarm_probability)), baseline.references.overlap
    for _, rows in by_host(residuals.windows):
        for group, column in zip(baseline.groups, surprisal[rows].T, strict=True):
            span = float(np.mean([span_of[baseline.detectors[detector].sees] for detector in group]))
            # averages share half of what they are made of with the others of their span, on average
            overlap = int((shared + span) / 2) if span else shared
            raised[rows] |= anomalous(column, alarm, settings.allowance, overlap)
        if raised[rows].any():
            now, lately = (partial(_ratios, metrics, kind, rows) for kind in (residuals.instant, residuals.brief))
            raised[rows] = held(raised[rows], now, lately, lasting)
    return raised


def _ratios(metrics: BriefDeviation, residuals: Array, rows: Ints, some: slice, of: Ints | None) -> Array:
    """`alarms.Ratios` of a host's windows: only what is asked for is worked out."""
    return metrics.ratios(residuals[rows[some]], of)
