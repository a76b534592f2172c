"""Attribution: why a window is flagged, and which flagged windows are one episode.

What belongs here: from detectors' contributions to metrics, features, subsystems and claims in words (Reveal,
section 4.4 and appendix C). The words themselves are in `recipes/claims.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
import yaml

from infrascope_core.baselines import Baseline, Identity
from infrascope_core.features import WINDOW, feature_matrix
from infrascope_core.settings import DetectorSettings
from infrascope_core.standardisation import Array
from infrascope_core.tables import ANOMALY_REASONS, INT, REAL, TEXT, TEXTS, TIME

GAP = 2
"""Most windows without a flag between two flagged ones of the same episode."""

EPISODES = pl.Schema(
    {
        "run_key": TEXT,
        "host": TEXT,
        "first_window": INT,
        "last_window": INT,
        "start_ts": TIME,
        "end_ts": TIME,
        "windows": INT,
        "detectors": TEXTS,
        "agreement": INT,
        "severity": REAL,
        "subsystem": TEXT,
        "metric": TEXT,
        "feature": TEXT,
        "claim": TEXT,
    }
)


def reasons(
    baseline: Baseline,
    features: pl.DataFrame,
    scores: pl.DataFrame,
    subsystem_of_metric: Callable[[str], str],
    settings: DetectorSettings,
) -> pl.DataFrame:
    """Name the metrics and features that made flagged windows abnormal.

    Parameters
    ----------
    baseline : Baseline
        The one that gave the scores.
    features : polars.DataFrame
        Table `window_features` of the same windows.
    scores : polars.DataFrame
        Table `anomaly_scores`.
    subsystem_of_metric : callable
        Subsystem of a host-free metric name.
    settings : DetectorSettings
        `reasons_per_window`.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_reasons`, by run, host, window and rank. A contribution is the mean, over the detectors
        that flag the window, of the feature's share of that detector's score; over all features it sums to at
        most 1. Value and expected are in the feature's own unit.
    """
    flagged = scores.filter(pl.col("agreement") > 0).sort(WINDOW)
    features = features.join(flagged, on=WINDOW, how="semi")
    if features.is_empty():
        return ANOMALY_REASONS.empty()
    windows, matrix = feature_matrix(features, baseline.names)
    flagged = windows.select(WINDOW).join(flagged, on=WINDOW, how="left", maintain_order="left")
    window = windows["window"].to_numpy()
    share = _shares(baseline, baseline.moments.standardise(matrix, window), flagged["flagged_by"])
    rank = np.argsort(-share, axis=1, kind="stable")[:, : settings.reasons_per_window]
    row, place = np.nonzero(np.take_along_axis(share, rank, axis=1) > 0)
    column = rank[row, place]
    names = pl.DataFrame(baseline.names, schema=["metric", "feature"], orient="row").with_columns(
        subsystem=pl.Series([subsystem_of_metric(metric) for metric, _ in baseline.names], dtype=pl.String)
    )
    value, expected, scale = (
        matrix[row, column],
        baseline.moments.expected(window)[row, column],
        baseline.moments.spread(window)[row, column],
    )
    chosen = names[column]
    claims = [
        _claim(baseline.identity, metric, feature, value=now, expected=usual, sigmas=sigmas)
        for (metric, feature), now, usual, sigmas in zip(
            chosen.select("metric", "feature").iter_rows(),
            value,
            expected,
            (value - expected) / scale,
            strict=True,
        )
    ]
    return (
        pl.concat([flagged[row].select(*WINDOW, detectors="flagged_by"), chosen], how="horizontal")
        .with_columns(
            rank=pl.Series(place + 1),
            value=pl.Series(value),
            expected=pl.Series(expected),
            contribution=pl.Series(share[row, column]),
            subsystem_share=pl.lit(None, pl.Float64),
            claim=pl.Series(claims, dtype=pl.String),
        )
        .select(ANOMALY_REASONS.schema.names())
        .cast(ANOMALY_REASONS.schema)
    )


def _shares(baseline: Baseline, z: Array, flagged_by: pl.Series) -> Array:
    """Mean over the flagging detectors of their contributions, summing to 1 a window; windows x names."""
    shares = np.zeros_like(z)
    voters = np.zeros(len(z))
    for detector in baseline.detectors:
        rows = np.flatnonzero(flagged_by.list.contains(detector.name).to_numpy())
        if not len(rows):
            continue
        part = detector.contributions(z[rows])
        total = part.sum(axis=1, keepdims=True)
        shares[rows] += np.divide(part, total, out=np.zeros_like(part), where=total > 0)
        voters[rows] += 1
    return shares / np.maximum(voters, 1)[:, None]


@cache
def _wording() -> dict[str, Any]:
    text = (files("infrascope_core") / "recipes" / "claims.yaml").read_text(encoding="utf-8")
    wording: dict[str, Any] = yaml.safe_load(text)
    return wording


def _claim(of: Identity, metric: str, feature: str, *, value: float, expected: float, sigmas: float) -> str:
    words = _wording()["features"][feature]
    direction = "above" if sigmas >= 0 else "below"
    sentence: str = _wording()["sentence"].format(
        metric=metric,
        noun=words["noun"],
        value=f"{value:.4g}",
        sigmas=f"{abs(sigmas):.1f}" if abs(sigmas) < 1000 else "more than 1000",
        direction=direction,
        expected=f"{expected:.4g}",
        phase=of.phase,
        workload=of.workload,
        meaning=words[direction],
    )
    return sentence


def episodes(scores: pl.DataFrame, reasons: pl.DataFrame, window_length: timedelta) -> pl.DataFrame:
    """Merge neighbouring flagged windows of a host into episodes, the worst first.

    Parameters
    ----------
    scores : polars.DataFrame
        Table `anomaly_scores`.
    reasons : polars.DataFrame
        Table `anomaly_reasons` of the same windows.
    window_length : timedelta
        Length of a window, so that an episode ends where its last window does.

    Returns
    -------
    polars.DataFrame
        Columns `EPISODES`, by falling agreement and severity, then run, host and first window. At most `GAP`
        windows without a flag lie side by side in an episode; `windows` counts the flagged. `subsystem` has
        the largest summed contribution; metric, feature and claim are of the strongest reason of that
        subsystem in the most severe window that has one.
    """
    flagged = (
        scores.filter(pl.col("agreement") > 0)
        .sort(WINDOW)
        .with_columns(
            episode=(
                (pl.col("window").diff() > GAP + 1)
                | (pl.col("run_key") != pl.col("run_key").shift())
                | (pl.col("host") != pl.col("host").shift())
            )
            .fill_null(False)
            .cum_sum()
        )
    )
    order = {name: i for i, name in enumerate(("zscore", "mahalanobis", "isolation_forest"))}
    merged = (
        flagged.group_by("episode")
        .agg(
            pl.col("run_key", "host").first(),
            first_window=pl.col("window").min(),
            last_window=pl.col("window").max(),
            start_ts=pl.col("start_ts").min(),
            end_ts=pl.col("start_ts").max() + window_length,
            windows=pl.len(),
            detectors=pl.col("flagged_by").explode(empty_as_null=False, keep_nulls=False).unique(),
            agreement=pl.col("agreement").max(),
            severity=pl.col("severity").max(),
        )
        .with_columns(
            detectors=pl.col("detectors").list.eval(
                pl.element().sort_by(pl.element().replace_strict(order, default=len(order), return_dtype=pl.Int64))
            )
        )
    )
    argued = reasons.join(flagged.select(*WINDOW, "episode", "severity"), on=WINDOW)
    blamed = (
        argued.group_by("episode", "subsystem")
        .agg(pl.col("contribution").sum().round(12))
        .sort("episode", "contribution", "subsystem", descending=[False, True, False])
        .unique("episode", keep="first", maintain_order=True)
        .select("episode", "subsystem")
    )
    worst = (
        argued.join(blamed, on=["episode", "subsystem"])
        .sort("episode", "severity", "window", "rank", descending=[False, True, False, False])
        .unique("episode", keep="first", maintain_order=True)
        .select("episode", "subsystem", "metric", "feature", "claim")
    )
    return (
        merged.join(worst, on="episode", how="left")
        .sort(
            "agreement",
            "severity",
            "run_key",
            "host",
            "first_window",
            descending=[True, True, False, False, False],
        )
        .select(EPISODES.names())
        .cast(EPISODES)
    )
