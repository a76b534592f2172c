"""Attribution: why a window is flagged.

What belongs here: from detectors' contributions to metrics, features, subsystems and claims in words (Reveal,
section 4.4 and appendix C). The words themselves are in `recipes/claims.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable
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
from infrascope_core.tables import ANOMALY_REASONS


def reasons(
    baseline: Baseline,
    features: pl.DataFrame,
    scores: pl.DataFrame,
    subsystem_of_metric: Callable[[str], str],
    settings: DetectorSettings,
) -> pl.DataFrame:
    """Name the metrics and features that made windows abnormal.

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
        Table `anomaly_reasons` of the windows that are flagged or anomalous, by run, host, window and rank. A
        contribution is the feature's share of what argues for the window being abnormal, see `evidence`; over all
        features it sums to 1. Value and expected are in the feature's own unit.
    """
    flagged = scores.filter((pl.col("agreement") > 0) | pl.col("anomalous")).sort(WINDOW)
    features = features.join(flagged, on=WINDOW, how="semi")
    if features.is_empty():
        return ANOMALY_REASONS.empty()
    windows, matrix = feature_matrix(features, baseline.names)
    flagged = windows.select(WINDOW).join(flagged, on=WINDOW, how="left", maintain_order="left")
    deviations, expected = baseline.deviations(windows, matrix)
    share = evidence(baseline, deviations)
    rank = np.argsort(-share, axis=1, kind="stable")[:, : settings.reasons_per_window]
    row, place = np.nonzero(np.take_along_axis(share, rank, axis=1) > 0)
    column = rank[row, place]
    names = pl.DataFrame(baseline.names, schema=["metric", "feature"], orient="row").with_columns(
        subsystem=pl.Series([subsystem_of_metric(metric) for metric, _ in baseline.names], dtype=pl.String)
    )
    chosen = names[column]
    claims = [
        _claim(baseline.identity, metric, feature, value=now, expected=usual, scales=scales, novel=bool(novel))
        for (metric, feature), now, usual, scales, novel in zip(
            chosen.select("metric", "feature").iter_rows(),
            matrix[row, column],
            expected[row, column],
            deviations[row, column],
            baseline.moments.constant[column],
            strict=True,
        )
    ]
    return (
        pl.concat([flagged[row].select(*WINDOW, detectors="flagged_by"), chosen], how="horizontal")
        .with_columns(
            rank=pl.Series(place + 1),
            value=pl.Series(matrix[row, column]),
            expected=pl.Series(expected[row, column]),
            contribution=pl.Series(share[row, column]),
            subsystem_share=pl.Series(_of_subsystem(share, names["subsystem"])[row, column]),
            claim=pl.Series(claims, dtype=pl.String),
        )
        .select(ANOMALY_REASONS.schema.names())
        .cast(ANOMALY_REASONS.schema)
    )


def evidence(baseline: Baseline, deviations: Array) -> Array:
    """How much each feature argues for a window being abnormal.

    The detectors' contributions that argue for it, each detector's summing to 1, averaged with weights: how far the
    detector's score departs from a median window's (`Baseline.departures`).

    Returns
    -------
    ndarray, windows x names
        At least 0; rows sum to 1, or are 0 where nothing argues for it.
    """
    weights = baseline.departures(baseline.scores(deviations))
    mean = np.zeros_like(deviations)
    for column, detector in enumerate(baseline.detectors):
        mean += weights[:, column, None] * _shares(np.maximum(detector.explain(deviations), 0.0))
    return _shares(mean)


def _shares(parts: Array) -> Array:
    total = parts.sum(axis=1, keepdims=True)
    shares: Array = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    return shares


def _of_subsystem(share: Array, subsystem: pl.Series) -> Array:
    """For each feature, the summed share of all features of its subsystem: windows x names."""
    of = subsystem.to_numpy()
    sums = np.empty_like(share)
    for name in np.unique(of):
        sums[:, of == name] = share[:, of == name].sum(axis=1, keepdims=True)
    return sums


@cache
def _wording() -> dict[str, Any]:
    text = (files("infrascope_core") / "recipes" / "claims.yaml").read_text(encoding="utf-8")
    wording: dict[str, Any] = yaml.safe_load(text)
    return wording


def _claim(
    of: Identity, metric: str, feature: str, *, value: float, expected: float, scales: float, novel: bool
) -> str:
    words = _wording()["features"][feature]
    direction = "above" if scales >= 0 else "below"
    sentence: str = _wording()["novelty" if novel else "sentence"].format(
        metric=metric,
        noun=words["noun"],
        value=f"{value:.4g}",
        scales=f"{abs(scales):.1f}",
        direction=direction,
        expected=f"{expected:.4g}",
        baseline=of,
        meaning=words[direction],
    )
    return sentence
