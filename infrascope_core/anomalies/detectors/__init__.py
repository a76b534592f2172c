"""The detectors, one file each, in the order in which tables name them: Reveal's three (section 4.3), and our own.

A new detector is a new file and its line in `DETECTORS`: the column of its scores, its place in model files, flags,
alarms, reasons and studies follow from its class.
"""

from __future__ import annotations

from collections.abc import Sequence

from infrascope_core.anomalies.detectors.base import Detector
from infrascope_core.anomalies.detectors.isolation_forest import IsolationForest
from infrascope_core.anomalies.detectors.mahalanobis import Mahalanobis
from infrascope_core.anomalies.detectors.sustained_deviation import BriefDeviation, SustainedDeviation
from infrascope_core.anomalies.detectors.zscore import ZScore
from infrascope_core.anomalies.settings import DetectorSettings

__all__ = [
    "DETECTORS",
    "BriefDeviation",
    "Detector",
    "IsolationForest",
    "Mahalanobis",
    "SustainedDeviation",
    "ZScore",
    "calibration_groups",
    "unfitted",
]

DETECTORS: dict[str, type[Detector]] = {
    detector.name: detector
    for detector in (
        ZScore,
        Mahalanobis,
        IsolationForest,
        BriefDeviation,
        SustainedDeviation,
    )
}
"""Detector classes by name."""


def unfitted(settings: DetectorSettings, metrics: Sequence[str]) -> list[Detector]:
    """One new detector of each kind, for features of these metrics."""
    return [detector.of(settings, metrics) for detector in DETECTORS.values()]


def calibration_groups(detectors: Sequence[Detector]) -> list[list[int]]:
    """Places of the detectors that are calibrated together, group by group in the order of their first members."""
    groups: dict[str, list[int]] = {}
    for place, detector in enumerate(detectors):
        groups.setdefault(detector.group, []).append(place)
    return list(groups.values())
