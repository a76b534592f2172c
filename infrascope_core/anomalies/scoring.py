"""Scores: the table `anomaly_scores` of judged windows.

What belongs here: flags, severity, surprisal and alarms of windows, from a baseline and their residuals.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from infrascope_core.anomalies.alarms import anomalous
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.calibration import together
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.tables import ANOMALY_SCORES
from infrascope_core.numeric import Array, Mask

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
    flags[:, [baseline.silent(d) for d in baseline.detectors]] = False
    surprisal = baseline.surprisal(scores)
    return (
        windows.with_columns(
            *(pl.Series(name, scores[:, i], nan_to_null=True) for i, name in enumerate(order)),
            pl.Series("severity", (scores / np.maximum(limits, _LEAST_LIMIT)).max(axis=1), nan_to_null=True),
            pl.Series("surprisal", together(surprisal), nan_to_null=True),
            pl.Series("anomalous", _anomalous(baseline, windows, surprisal)),
            pl.Series("agreement", flags.sum(axis=1)),
            pl.Series(
                "flagged_by",
                [[name for name, flag in zip(order, row, strict=True) if flag] for row in flags.tolist()],
                dtype=pl.List(pl.String),
            ),
            baseline_version=pl.lit(baseline.identity.version),
        )
        .select(ANOMALY_SCORES.schema.names())
        .cast(ANOMALY_SCORES.schema)
    )


def _anomalous(baseline: Baseline, windows: pl.DataFrame, surprisal: Array) -> Mask:
    """Alarms of every host's windows, which are in order; each group of detectors raises its own."""
    raised = np.zeros(len(surprisal), dtype=bool)
    smoothed = [any(baseline.detectors[column].sees == "smoothed" for column in group) for group in baseline.groups]
    of_hosts = windows.with_row_index("row").group_by("run_key", "host", maintain_order=True).agg("row")["row"]
    for of_host in of_hosts:
        rows = of_host.to_numpy()
        for group, column in enumerate(surprisal[rows].T):
            overlap = baseline.references.overlap
            if smoothed[group]:
                # averages share half of what they are made of with the others of their span, on average
                overlap = (overlap + baseline.span) // 2
            raised[rows] |= anomalous(column, baseline.alarm, baseline.allowance, overlap)
    return raised
