"""What a detector is: it learns residuals, scores new ones, and splits scores among features.

What belongs here: the contract, and how missing features are dealt with; the methods are in one file each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np

from infrascope_core.anomalies.residuals import Kind
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.numeric import Array, Arrays, Ints, Mask

_ROWS = 1024
"""Windows scored at once, so that memory does not grow with their number."""

Group = Literal["all features", "single metrics"]
"""Detectors of one group are calibrated together, and each group raises alarms of its own: what looks at all features
at once would drown what looks at few."""


class Detector(ABC):
    """Scores windows by how their features deviate from what is expected.

    Matrices are windows x features; each value is a residual in units of the feature's scale, 0 is no deviation.
    NaN is a feature that is missing from the window. It is left out where a method can leave it out (the
    Z-score's mean), and is no deviation where a method needs a number (the projection, the forest). It gets no
    contribution. A window without any feature has the score NaN.

    A subclass implements `of`, `_fit`, `_score`, `_explain` and the two state methods; the public ones deal with
    missing features. It is listed in `detectors/__init__.py`, and has a column of its name in `anomaly_scores`.
    """

    name: ClassVar[str]
    """Column of `anomaly_scores`, and the name in `flagged_by`."""
    label: ClassVar[str]
    """Short form, for lists of methods."""
    about: ClassVar[str]
    """What its score is, in a few words: the meaning of its column."""
    sees: ClassVar[Kind] = "instant"
    """Which residuals it is given."""
    group: ClassVar[Group] = "all features"
    folds: ClassVar[int] = 3
    """Parts of a baseline's windows, each to be scored by one that was fitted on the others; more are dearer, and
    nearer to what all windows would give."""

    @classmethod
    @abstractmethod
    def of(cls, settings: DetectorSettings, metrics: Sequence[str]) -> Self:
        """A new one, not fitted yet, for features of these metrics; the features of a metric lie together."""

    def fit(self, z: Array, run: Ints | None = None) -> Self:
        """Learn from windows x features; deterministic, whatever the number of threads.

        Parameters
        ----------
        z : ndarray, windows x features
            NaN is missing.
        run : ndarray, windows, optional
            Number of each window's run; all of one run by default.
        """
        missing = np.isnan(z)
        known = np.where(missing, 0.0, z) if missing.any() else z
        self._fit(known, np.zeros(len(z), dtype=np.int64) if run is None else run)
        return self

    def score(self, z: Array) -> Array:
        """One score a window, at least 0; higher is more abnormal, NaN without any feature."""
        scores = np.full(len(z), np.nan)
        for start in range(0, len(z), _ROWS):
            block = z[start : start + _ROWS]
            known = ~np.isnan(block)
            known_rows = known.any(axis=1)
            complete = block if known.all() else np.where(known, block, 0.0)
            scores[start : start + _ROWS][known_rows] = self._score(complete, known)[known_rows]
        return scores

    def explain(self, z: Array) -> Array:
        """Split each window's score among its features.

        Returns
        -------
        ndarray, windows x features
            Rows sum to the score; missing features have 0. A negative contribution is a feature that argues for a
            normal window. A row is 0 throughout where nothing is known, and where nothing argues for an abnormal one:
            no metric deviates (sustained deviation), no split shortens the path (forest).
        """
        known = ~np.isnan(z)
        return np.where(known, self._explain(np.where(known, z, 0.0), known), 0.0)

    @abstractmethod
    def state(self) -> Arrays:
        """Return everything that was learnt, as plain arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Arrays, features: int) -> Self:
        """Make a fitted detector of what `state` returned.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or they do not fit each other or the number of features.
        """

    @abstractmethod
    def _fit(self, z: Array, run: Ints) -> None: ...

    @abstractmethod
    def _score(self, z: Array, known: Mask) -> Array: ...

    @abstractmethod
    def _explain(self, z: Array, known: Mask) -> Array: ...


def damped(z: Array) -> Array:
    """The signed logarithm of 1 + |z|: the order is kept, and single features far out no longer outweigh the rest."""
    return np.copysign(np.log1p(np.abs(z)), z)
