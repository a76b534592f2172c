"""Attribution: why a window is flagged.

What belongs here: from detectors' contributions to metrics, features, subsystems and claims in words (Reveal,
section 4.4 and appendix C). The words themselves are in `claims.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.claims import wording
from infrascope_core.anomalies.detectors import SustainedDeviation
from infrascope_core.anomalies.matrix import PSEUDO_FEATURES
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import ANOMALY_REASONS
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.numeric import Array, Ints
from infrascope_core.quantities import quantity
from infrascope_core.run_files.columns import family, subsystem, unit
from infrascope_core.store.lake import fingerprint

_DATA = (files(__package__) / "side_effects.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("8", _DATA)
"""Raise the number when the same windows would have other reasons."""
_BARELY = 1e-6
_MOST_SCALES = 99.95
"""Deviations are held within bounds before they get here; what is at them is farther by an unknown amount."""
_RATIO, _MOST_RATIO = 2.0, 1000.0
"""A ratio says more than standard deviations from the one on, and less from the other on."""
_IN_UNIT = frozenset({"mean", "standard_deviation", "minimum", "maximum", "median", "mean_abs_change"})
"""Features in the metric's own unit."""
_SIZES = _IN_UNIT | {"sum_values"}
"""Features of which one can be so many times another."""
_STRONGEST = 3
"""Families of a subsystem that count for it."""


def reasons(
    baseline: Baseline,
    residuals: Residuals,
    scores: pl.DataFrame,
    settings: DetectorSettings,
) -> pl.DataFrame:
    """Name the metrics and features that made windows abnormal.

    Parameters
    ----------
    baseline : Baseline
        The one that gave the scores.
    residuals : Residuals
        The windows, as `Baseline.judge` gives them: all of a run, because moving averages need their succession.
    scores : polars.DataFrame
        Table `anomaly_scores` of the same windows.
    settings : DetectorSettings
        `reasons_per_window`.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_reasons` of the windows that are flagged or anomalous, by run, host, window and rank. One
        reason a family of metrics: the metric that leads it, and that metric's leading feature. A contribution is the
        family's share of the evidence, see `evidence` and `Metrics.by_family`; over all families it sums to 1. Value
        and expected are in the feature's own unit.
    """
    judged = residuals.windows.select(WINDOW_KEY).with_row_index("row")
    judged = judged.join(scores, on=WINDOW_KEY, how="left", maintain_order="left")
    flagged = judged.filter((pl.col("agreement") > 0) | pl.col("anomalous"))
    if flagged.is_empty():
        return ANOMALY_REASONS.empty()
    chosen_rows = flagged["row"].to_numpy()
    of_detectors = judged.select(detector.name for detector in baseline.detectors)
    departures = baseline.departures(of_detectors.to_numpy(), residuals.windows)
    residuals = residuals.rows(chosen_rows)
    by_feature = evidence(baseline, residuals, departures[chosen_rows])
    metrics = Metrics.of(baseline.names)
    share, strongest = metrics.by_family(by_feature)
    rank = np.argsort(-share, axis=1, kind="stable")[:, : settings.reasons_per_window]
    row, place = np.nonzero(np.take_along_axis(share, rank, axis=1) > 0)
    families = rank[row, place]
    # of what has evidence, what deviates at this instant: an average may still hold what is over
    current = by_feature * (np.abs(np.nan_to_num(residuals.instant)) + _BARELY)
    column = metrics.leading_feature(current, row, strongest[row, families])
    names = [baseline.names[i] for i in column]
    chosen = pl.DataFrame(names, schema={"metric": pl.String, "feature": pl.String}, orient="row").with_columns(
        subsystem=pl.Series(metrics.subsystem[strongest[row, families]], dtype=pl.String)
    )
    claims = [
        _claim(metric, feature, value=value, expected=expected, scales=scales, novel=bool(novel))
        for (metric, feature), value, expected, scales, novel in zip(
            names,
            residuals.values[row, column],
            residuals.expected[row, column],
            residuals.instant[row, column],
            baseline.moments.constant[column],
            strict=True,
        )
    ]
    return (
        pl.concat([flagged[row].select(*WINDOW_KEY, detectors="flagged_by"), chosen], how="horizontal")
        .with_columns(
            rank=pl.Series(place + 1),
            value=pl.Series(residuals.values[row, column]),
            expected=pl.Series(residuals.expected[row, column]),
            contribution=pl.Series(share[row, families]),
            subsystem_share=pl.Series(metrics.by_subsystem(share)[row, families]),
            claim=pl.Series(claims, dtype=pl.String),
        )
        .select(ANOMALY_REASONS.schema.names())
        .cast(ANOMALY_REASONS.schema)
    )


@dataclass(frozen=True, eq=False)
class Metrics:
    """Which features are of one metric, which metrics are of one family, and of which subsystem.

    Attributes
    ----------
    starts, features : ndarray, metrics
        First feature of each metric, and how many it has; the features of a metric lie together.
    subsystem : ndarray of str, metrics
    order : ndarray, metrics
        Metrics, those of a family together.
    families : ndarray, families
        Where each family begins in `order`.
    """

    starts: Ints
    features: Ints
    subsystem: NDArray[np.str_]
    order: Ints
    families: Ints

    @classmethod
    def of(cls, names: Sequence[tuple[str, str]]) -> Metrics:
        """The metrics of a baseline's names."""
        starts = [i for i, (metric, _) in enumerate(names) if i == 0 or metric != names[i - 1][0]]
        metrics = [names[i][0] for i in starts]
        family_of = np.array([f"{subsystem(metric)} {family(metric)}" for metric in metrics])
        order = np.argsort(family_of, kind="stable")
        families = np.flatnonzero(np.r_[True, family_of[order][1:] != family_of[order][:-1]])
        return cls(
            np.array(starts),
            np.diff([*starts, len(names)]),
            np.array([subsystem(metric) for metric in metrics]),
            order,
            families,
        )

    def by_family(self, by_feature: Array) -> tuple[Array, Ints]:
        """Share of each family in the evidence, and the metric that leads it: windows x families.

        A family counts as much as the metric of it that has most: forty-eight cores that change their frequency
        together are one finding, not forty-eight.
        """
        by_metric = np.add.reduceat(by_feature, self.starts, axis=1)[:, self.order]
        largest = np.maximum.reduceat(by_metric, self.families, axis=1)
        sizes = np.diff([*self.families, len(self.order)])
        is_largest = by_metric == np.repeat(largest, sizes, axis=1)
        place = np.where(is_largest, np.arange(len(self.order)), len(self.order))
        return _shares(largest), self.order[np.minimum.reduceat(place, self.families, axis=1)]

    def by_subsystem(self, share: Array) -> Array:
        """For each family, the share of its subsystem in the evidence: windows x families.

        A subsystem has the sum of its strongest families' shares, the same number for each: else the one with the most
        metrics would be to blame for whatever happens.
        """
        subsystems, number = np.unique(self.subsystem[self.order[self.families]], return_inverse=True)
        strongest = np.empty((len(share), len(subsystems)))
        for place in range(len(subsystems)):
            own = share[:, number == place]
            top = min(_STRONGEST, own.shape[1])
            strongest[:, place] = np.partition(own, own.shape[1] - top, axis=1)[:, own.shape[1] - top :].sum(axis=1)
        return _shares(strongest)[:, number]

    def leading_feature(self, by_feature: Array, rows: Ints, metrics: Ints) -> Ints:
        """The feature of each metric that has most, for pairs of windows and metrics."""
        leading = np.empty(len(rows), dtype=np.int64)
        for metric in np.unique(metrics):
            pairs = metrics == metric
            begin, end = self.starts[metric], self.starts[metric] + self.features[metric]
            leading[pairs] = begin + by_feature[rows[pairs], begin:end].argmax(axis=1)
        return leading


def evidence(baseline: Baseline, residuals: Residuals, weights: Array) -> Array:
    """How much each feature argues for a window being abnormal.

    Where metrics are out of their own range (`BriefDeviation`), it is by how much, split over their features. Elsewhere
    it is what the other detectors' contributions argue: each detector's summing to 1, averaged with weights, how far
    its score is above the run's own level (`Baseline.departures`). Where none of these is, it is what sustained
    deviation contributes.

    Parameters
    ----------
    baseline : Baseline
        The one that judged the windows.
    residuals : Residuals
        The windows.
    weights : ndarray, windows x detectors
        See `Baseline.departures`.

    Returns
    -------
    ndarray, windows x names
        At least 0; in any unit, the same for a window.
    """
    metrics = baseline.single_metrics
    # a feature without a value in this window is no reason, though its average still holds what it had before
    here = np.where(np.isnan(residuals.instant), 0.0, residuals.brief)
    beyond = metrics.of_features(np.log(np.maximum(metrics.ratios(here), 1.0)), here)
    beyond *= np.array([_weight(metric) for metric, _ in baseline.names])
    others = np.flatnonzero(~beyond.any(axis=1))
    if len(others):
        beyond[others] = _of_contributions(baseline, residuals.rows(others), weights[others])
    return beyond


def _of_contributions(baseline: Baseline, residuals: Residuals, weights: Array) -> Array:
    """What detectors' contributions argue, see `evidence`: windows x names."""
    combined = np.zeros_like(residuals.instant)
    for column, detector in enumerate(baseline.detectors):
        if not isinstance(detector, SustainedDeviation):
            contributions = np.maximum(detector.explain(residuals.of_kind(detector.sees)), 0.0)
            combined += weights[:, column, None] * _shares(contributions)
    others = np.flatnonzero(~combined.any(axis=1))
    if len(others):
        rest = residuals.rows(others)
        known = ~np.isnan(rest.instant)
        for detector in baseline.detectors:
            if isinstance(detector, SustainedDeviation):
                combined[others] += np.where(known, detector.explain(rest.of_kind(detector.sees)), 0.0)
    return combined


def _shares(parts: Array) -> Array:
    total = parts.sum(axis=1, keepdims=True)
    shares: Array = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    return shares


@cache
def _side_effects() -> tuple[tuple[re.Pattern[str], float], ...]:
    return tuple((re.compile(rule["pattern"], re.IGNORECASE), rule["weight"]) for rule in yaml.safe_load(_DATA))


@lru_cache(maxsize=65_536)
def _weight(metric: str) -> float:
    return next((weight for pattern, weight in _side_effects() if pattern.search(metric)), 1.0)


def _claim(metric: str, feature: str, *, value: float, expected: float, scales: float, novel: bool) -> str:
    words = wording()
    of_feature = words["features"][feature]
    direction = "above" if value >= expected else "below"
    if feature in PSEUDO_FEATURES:
        expected = round(expected) + 0.0
    smaller, larger = sorted((abs(value), abs(expected)))
    alike = (value > 0) == (expected > 0) and smaller > 0
    if feature in _SIZES and alike and _RATIO * smaller <= larger < _MOST_RATIO * smaller:
        extent = words["times"].format(ratio=quantity(float(f"{value / expected:.2g}"), ""))
    else:
        far = f"{abs(scales):.1f}" if abs(scales) < _MOST_SCALES else "more than 100"
        extent = words["scales"].format(scales=far, direction=direction)
    unit_of = unit(metric) if feature in _IN_UNIT else ""
    sentence: str = words["novelty" if novel else "sentence"].format(
        metric=metric,
        noun=of_feature["noun"],
        value=quantity(value, unit_of),
        expected=quantity(expected, unit_of),
        extent=extent,
        meaning=of_feature[direction],
    )
    return sentence
