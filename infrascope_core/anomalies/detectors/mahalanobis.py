"""Mahalanobis distance in the principal components that hold most of the variance (Reveal, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from infrascope_core.anomalies.detectors.base import Detector, damped
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.numeric import Array, Arrays, Ints, Mask, one_thread, principal_axes, stored_array, thinned


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
    windows : int
        Most windows that they are learnt from, evenly over all: time grows with the cube of their number.
    """

    name: ClassVar[str] = "mahalanobis"
    label: ClassVar[str] = "MAHA"
    about: ClassVar[str] = "Mahalanobis distance in the PCA subspace"

    def __init__(self, variance: float = 0.95, windows: int = 1_200) -> None:
        self.variance = variance
        self.windows = windows
        self.centre: Array = np.zeros(0)
        self.projection: Array = np.zeros((0, 0))

    @classmethod
    def of(cls, settings: DetectorSettings, metrics: Sequence[str]) -> Self:
        """One that keeps `pca_variance` of the variance."""
        return cls(settings.pca_variance, settings.pca_windows)

    def state(self) -> Arrays:
        """Centre (features) and whitening projection (features x components)."""
        return {"centre": self.centre, "projection": self.projection.astype(np.float32)}

    @classmethod
    def from_state(cls, state: Arrays, features: int) -> Self:
        """Make one from its centre and projection; ValueError if they do not fit together."""
        fitted = cls()
        fitted.centre = stored_array(state, "centre", np.float64, (features,))
        fitted.projection = stored_array(state, "projection", np.float32, (features, None)).astype(np.float64)
        return fitted

    def _fit(self, z: Array, run: Ints) -> None:
        z = damped(thinned(z, self.windows))
        self.centre = z.mean(axis=0)
        z -= self.centre

        def kept(values: Array) -> int:
            values = np.where(values > max(values[0], 0.0) * max(z.shape) * np.finfo(float).eps, values, 0.0)
            enough = self.variance * values.sum() * (1 - 1e-12)
            return min(int(np.searchsorted(np.cumsum(values), enough)) + 1, int(np.count_nonzero(values)))

        values, axes = principal_axes(z, kept)
        # it is most of a model file, and stored in single precision: what was fitted is what will be read
        projection = (axes * np.sqrt((len(z) - 1) / values)).astype(np.float32)
        self.projection = np.ascontiguousarray(projection, dtype=np.float64)

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
