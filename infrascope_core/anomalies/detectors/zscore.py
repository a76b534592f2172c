"""Z-score: the mean absolute deviation from the baseline, in scales (Reveal, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from infrascope_core.anomalies.detectors.base import Detector
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.numeric import Array, Arrays, Ints, Mask


class ZScore(Detector):
    """Score is the mean of |z| over the features the window has; each contributes |z| / their number, exactly."""

    name: ClassVar[str] = "zscore"
    label: ClassVar[str] = "Z"
    about: ClassVar[str] = "mean |z| over features"

    @classmethod
    def of(cls, settings: DetectorSettings, metrics: Sequence[str]) -> Self:
        """One; it has no settings."""
        return cls()

    def state(self) -> Arrays:
        """Nothing: the standardisation is the model."""
        return {}

    @classmethod
    def from_state(cls, state: Arrays, features: int) -> Self:
        """Make one; there is no state."""
        return cls()

    def _fit(self, z: Array, run: Ints) -> None:
        pass

    def _score(self, z: Array, known: Mask) -> Array:
        scores: Array = np.abs(z).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return scores

    def _explain(self, z: Array, known: Mask) -> Array:
        parts: Array = np.abs(z) / np.maximum(known.sum(axis=1, keepdims=True), 1)
        return parts
