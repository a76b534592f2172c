"""The three detectors of Reveal, section 4.3, one file each, in the order in which tables name them."""

from __future__ import annotations

from infrascope_core.detectors.base import Detector
from infrascope_core.detectors.isolation_forest import IsolationForest
from infrascope_core.detectors.mahalanobis import Mahalanobis
from infrascope_core.detectors.zscore import ZScore
from infrascope_core.settings import DetectorSettings

__all__ = ["DETECTORS", "Detector", "IsolationForest", "Mahalanobis", "ZScore", "unfitted"]

DETECTORS: dict[str, type[Detector]] = {d.name: d for d in (ZScore, Mahalanobis, IsolationForest)}
"""Detector classes by name."""


def unfitted(settings: DetectorSettings) -> list[Detector]:
    """One new detector of each kind."""
    return [
        ZScore(),
        Mahalanobis(variance=settings.pca_variance),
        IsolationForest(trees=settings.trees, random_state=settings.random_state),
    ]
