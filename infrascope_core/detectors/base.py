"""What a detector is: it learns standardised windows, scores new ones, and splits scores among features.

What belongs here: the contract, and how missing features are dealt with; the methods are in one file each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

_ROWS = 4096
"""Windows scored at once, so that memory does not grow with their number."""

Array = NDArray[np.float64]


class Detector(ABC):
    """Scores windows of standardised features.

    Matrices are windows x features, each feature standardised by the baseline (0 is its mean, 1 a standard
    deviation). NaN is a feature that is missing from the window. It is left out where a method can leave
    it out (the Z-score's mean), and is no deviation, 0, where a method needs a number (the projection, the
    forest). That says something about the deviation, never about the metric, and it earns no contribution.
    A window without any feature has the score NaN.

    A subclass implements `_fit`, `_score`, `_contributions` and the two state methods; the public ones deal
    with missing features.
    """

    name: ClassVar[str]

    def fit(self, z: Array) -> Self:
        """Learn from windows x features; deterministic, whatever the number of threads."""
        missing = np.isnan(z)
        self._fit(np.where(missing, 0.0, z) if missing.any() else z)
        return self

    def score(self, z: Array) -> Array:
        """One score a window, at least 0; higher is more abnormal, NaN without any feature."""
        scores = np.full(len(z), np.nan)
        for start in range(0, len(z), _ROWS):
            block = z[start : start + _ROWS]
            known = ~np.isnan(block)
            known_rows = known.any(axis=1)
            scores[start : start + _ROWS][known_rows] = self._score(np.where(known, block, 0.0), known)[known_rows]
        return scores

    def contributions(self, z: Array) -> Array:
        """Split each window's score among its features.

        Returns
        -------
        ndarray, windows x features
            At least 0, rows sum to the score; missing features have 0. A row is 0 throughout where nothing
            argues for the window being abnormal.
        """
        known = ~np.isnan(z)
        filled = np.where(known, z, 0.0)
        share = np.where(known, np.maximum(self._contributions(filled), 0.0), 0.0)
        total = share.sum(axis=1, keepdims=True)
        scores = np.where(known.any(axis=1), self._score(filled, known), 0.0)
        split: Array = np.divide(share * scores[:, None], total, out=np.zeros_like(share), where=total > 0)
        return split

    @abstractmethod
    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return everything that was learnt, as plain arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, NDArray[np.generic]]) -> Detector:
        """Make a fitted detector of what `state` returned."""

    @abstractmethod
    def _fit(self, z: Array) -> None: ...

    @abstractmethod
    def _score(self, z: Array, known: NDArray[np.bool_]) -> Array: ...

    @abstractmethod
    def _contributions(self, z: Array) -> Array:
        """Return the evidence of each feature in any unit; negative speaks for a normal window."""
