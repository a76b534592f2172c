"""Mahalanobis distance in the principal components that hold most of the variance (Reveal, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from infrascope_core.detectors.base import Array, Detector

_ROWS = 4096


class Mahalanobis(Detector):
    """Distance to the centre of the training windows, each kept component scaled to variance 1.

    With y the centred window and W (features x components) the whitening projection, the distance d has
    d^2 = |yW|^2 = sum_i y_i (W W' y)_i: an exact split over features. Its terms can be negative, where a
    feature moves as the others lead one to expect and so lessens the distance; such features contribute
    nothing, and the others' terms are scaled to sum to d.

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
        windows, features = z.shape
        self.centre = z.mean(axis=0)
        wide = features > windows
        # One thread: the order in which BLAS sums, and so the last digit, depends on the number of threads.
        with threadpool_limits(limits=1):
            # Both products have the same eigenvalues that are not 0; the smaller one is the quicker to solve.
            values, vectors = np.linalg.eigh(self._gram(z) if wide else self._scatter(z))
            values, vectors = values[::-1], vectors[:, ::-1]
            values = np.where(values > max(values[0], 0.0) * max(z.shape) * np.finfo(float).eps, values, 0.0)
            enough = self.variance * values.sum() * (1 - 1e-12)
            kept = min(int(np.searchsorted(np.cumsum(values), enough)) + 1, int(np.count_nonzero(values)))
            values, vectors = values[:kept], vectors[:, :kept]
            components = (z - self.centre).T @ vectors / np.sqrt(values) if wide else vectors
        self.projection = np.ascontiguousarray(components * np.sqrt((windows - 1) / values))

    def _gram(self, z: Array) -> Array:
        """Products of centred windows."""
        y = z - self.centre
        products: Array = y @ y.T
        return products

    def _scatter(self, z: Array) -> Array:
        """Sums of products of centred features, by blocks of windows, so that z is not copied whole."""
        scatter = np.zeros((z.shape[1], z.shape[1]))
        for start in range(0, len(z), _ROWS):
            y = z[start : start + _ROWS] - self.centre
            scatter += y.T @ y
        return scatter

    def _score(self, z: Array, known: NDArray[np.bool_]) -> Array:
        with threadpool_limits(limits=1):
            t = (z - self.centre) @ self.projection
        distance: Array = np.sqrt((t * t).sum(axis=1))
        return distance

    def _contributions(self, z: Array) -> Array:
        y = z - self.centre
        with threadpool_limits(limits=1):
            terms: Array = y * ((y @ self.projection) @ self.projection.T)
        return terms
