"""The detectors, one file each, in the order in which tables name them: Reveal's three (section 4.3), and peaks."""

from __future__ import annotations

from collections.abc import Sequence

from infrascope_core.anomalies.detectors.base import Detector
from infrascope_core.anomalies.detectors.isolation_forest import IsolationForest
from infrascope_core.anomalies.detectors.mahalanobis import Mahalanobis
from infrascope_core.anomalies.detectors.peaks import MetricPeaks
from infrascope_core.anomalies.detectors.zscore import ZScore
from infrascope_core.anomalies.settings import DetectorSettings

__all__ = [
    "DETECTORS",
    "JUDGED_TOGETHER",
    "Detector",
    "IsolationForest",
    "Mahalanobis",
    "MetricPeaks",
    "ZScore",
    "unfitted",
]

DETECTORS: dict[str, type[Detector]] = {d.name: d for d in (ZScore, Mahalanobis, IsolationForest, MetricPeaks)}
"""Detector classes by name."""
JUDGED_TOGETHER = (("zscore", "mahalanobis", "isolation_forest"), ("peaks",))
"""What looks at all features at once is combined; what looks at few has a voice of its own."""


def unfitted(settings: DetectorSettings, metrics: Sequence[str]) -> list[Detector]:
    """One new detector of each kind, for features of these metrics."""
    return [
        ZScore(),
        Mahalanobis(variance=settings.pca_variance),
        IsolationForest(trees=settings.trees, random_state=settings.random_state),
        MetricPeaks(metrics, settings.peak_metrics),
    ]
