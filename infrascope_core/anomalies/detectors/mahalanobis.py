"""Mahalanobis distance in the principal components that hold most of the variance (Reveal, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from infrascope_core.anomalies.detectors.base import Array, Detector, Mask, damped
from infrascope_core.numeric import one_thread


class Mahalanobis(Detector):
    """Distance to the centre of the training windows, each kept component scaled to variance 1.

    Deviations are damped first (`base.damped`), because principal components are drawn to outliers. With y the
    centred window and W (features x components) the whitening projection, the distance d has
    d^2 = |yW|^2 = sum_i y_i (W W' y)_i. So y_i (W W' y)_i / d is an exact split of d over features. Its terms can be
    negative, where a feature moves as the others lead one to expect and so lessens the distance. A missing feature
    is at the centre.

    Parameters
    ----------
    variance : float
        Share of the variance that the kept components hold together.
    """

    name: ClassVar[str] = "mahalanobis"

    def __init__(self, variance: float = 0.95) -> None:
        self.variance = variance
        self.centre: Array = np.zeros(0)
        self.projection: Array = np.zeros((0, 0))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Centre (features) and whitening projection (features x components)."""
        return {"centre": self.centre, "projection": self.projection}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[np.generic]]) -> Mahalanobis:
        """Make one from its centre and projection; ValueError if they do not fit together."""
        fitted = cls()
        fitted.centre = np.asarray(state["centre"], dtype=np.float64)
        fitted.projection = np.asarray(state["projection"], dtype=np.float64)
        if fitted.projection.ndim != 2 or fitted.centre.shape != fitted.projection.shape[:1]:
            raise ValueError("the centre and the projection do not fit together")
        return fitted

    def _fit(self, z: Array) -> None:
        z = damped(z)
        windows, features = z.shape
        self.centre = z.mean(axis=0)
        z -= self.centre
        wide = features > windows
        with one_thread():
            # Both products have the same eigenvalues that are not 0; the smaller one is the quicker to solve.
            values, vectors = np.linalg.eigh(z @ z.T if wide else z.T @ z)
            values, vectors = values[::-1], vectors[:, ::-1]
            values = np.where(values > max(values[0], 0.0) * max(z.shape) * np.finfo(float).eps, values, 0.0)
            enough = self.variance * values.sum() * (1 - 1e-12)
            kept = min(int(np.searchsorted(np.cumsum(values), enough)) + 1, int(np.count_nonzero(values)))
            values, vectors = values[:kept], vectors[:, :kept]
            components = z.T @ vectors / np.sqrt(values) if wide else vectors
        self.projection = np.ascontiguousarray(components * np.sqrt((windows - 1) / values))

    def _score(self, z: Array, known: Mask) -> Array:
        with one_thread():
            t = self._centred(z, known) @ self.projection
        distance: Array = np.sqrt((t * t).sum(axis=1))
        return distance

    def _explain(self, z: Array, known: Mask) -> Array:
        y = self._centred(z, known)
        with one_thread():
            t = y @ self.projection
            terms = y * (t @ self.projection.T)
        distance = np.sqrt((t * t).sum(axis=1, keepdims=True))
        parts: Array = np.divide(terms, distance, out=np.zeros_like(terms), where=distance > 0)
        return parts

    def _centred(self, z: Array, known: Mask) -> Array:
        y = damped(z)
        y -= self.centre
        if not known.all():
            y[~known] = 0.0
        return y
