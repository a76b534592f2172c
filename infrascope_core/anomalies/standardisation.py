"""Standardisation: the usual value of each feature, and how far it usually is from that.

What belongs here: location and scale over all of a baseline's windows. What is expected of one window in
particular is the business of `references`; what is made of the standardised features is the detectors'.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from infrascope_core.numeric import Array, Arrays, Ints, Mask, centred, quantiles, stored_array

LARGEST_Z = 100.0
"""Standardised features are held within this bound.

In a sample of n windows none can be farther from the mean than sqrt(n - 1) standard deviations (Samuelson's
inequality), which is 100 for n = 10,000. But a feature that hardly moved in the baseline may be a
million of its tiny standard deviations away in a new run; unbounded, that one feature would drown all others.
"""
NOVELTY = 3.0
"""What a metric counts that never moved in the baseline and is elsewhere now: abnormal, but among hundreds that never
moved one or the other moves in every new run."""
_NEAR_CONSTANT = 0.01
"""A constant that departs by less than this share of it has not moved (the bound of docs/design.md, Recipes)."""
_LEAST_RELATIVE_SCALE = 1e-7
"""A standard deviation this small beside the feature's magnitude is rounding, not movement: features are kept in single
precision (docs/adr/0040)."""
_MOST_MISSING = 0.5
"""A feature missing from more of the windows than this cannot be judged."""
_LEAST_ROBUST_SHARE = 0.1
"""The robust scale is at least this share of the standard deviation: a feature that rests for nine windows in ten
and then bursts has no spread between its quantiles, and its bursts are normal."""
_NORMAL_RANGE = 2.5631031310892007
"""Distance between the 0.1 and 0.9 quantiles of a standard normal distribution."""
_COLUMNS = 256
"""Features whose moments are taken at once, so that temporary arrays stay small beside the matrix."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Location and scale of features, in each feature's own unit.

    Attributes
    ----------
    location, scale : ndarray, features
        The scale of a constant feature is 1 and means nothing.
    constant : ndarray of bool, features
        Features that had one value, to rounding.
    least : ndarray, features
        The smallest change that matters (`materiality`); 0 where it is not known. No scale is below it.
    lively : ndarray, features
        For features of a shape, the standard deviation from which on the signal counts as moving; else 0.
    spread : ndarray, features
        Column of the standard deviation of the feature's own metric; -1 where there is none.
    """

    location: Array
    scale: Array
    constant: Mask
    least: Array
    lively: Array
    spread: Ints

    def standardise(self, matrix: Array) -> Array:
        """Express windows x features in scales from the location, within LARGEST_Z; NaN stays.

        A constant feature is 0 where it still has its value. Elsewhere it counts the least changes that it moved by, up
        to NOVELTY; if those are not known, NOVELTY with the sign of the change. The shape of a signal that hardly
        moves, now and usually, counts as much less as it moves less than what matters.
        """
        z = matrix - self.location
        steady = self.constant
        if steady.any():
            change, least = z[:, steady], self.least[steady]
            moved = np.abs(change) > _NEAR_CONSTANT * np.abs(self.location[steady])
            size = np.minimum(
                np.divide(np.abs(change), least, out=np.full_like(change, NOVELTY), where=least > 0), NOVELTY
            )
            z[:, steady] = np.where(np.isnan(change), np.nan, np.where(moved, np.sign(change) * size, 0.0))
        z /= self.scale
        still = np.flatnonzero((self.lively > 0) & (self.spread >= 0))
        if len(still):
            column = self.spread[still]
            moving = np.fmax(matrix[:, column], np.where(self.constant[column], 0.0, self.location[column]))
            moving = np.nan_to_num(moving) / self.lively[still]
            z[:, still] *= np.minimum(moving, 1.0)
        return np.clip(z, -LARGEST_Z, LARGEST_Z, out=z)

    def value(self, z: Array) -> Array:
        """Turn standardised features back into their own units."""
        return np.where(self.constant, self.location, self.location + z * self.scale)

    def select(self, keep: Mask) -> Moments:
        """The moments of some features."""
        place = np.where(keep, np.cumsum(keep) - 1, -1)
        spread = np.where(self.spread >= 0, place[self.spread], -1)[keep]
        return Moments(
            self.location[keep], self.scale[keep], self.constant[keep], self.least[keep], self.lively[keep], spread
        )

    def material(self, least: Array, lively: Array, spread: Ints) -> Moments:
        """The same moments with scales of at least what matters; see the attributes."""
        scale = np.where(self.constant, 1.0, np.maximum(self.scale, least))
        return Moments(self.location, scale, self.constant, least, lively, spread)

    def arrays(self) -> Arrays:
        """All arrays by name, for storing."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, features: int) -> Moments:
        """Moments from stored arrays.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or does not fit the number of features.
        """
        location, scale = (stored_array(arrays, name, np.float64, (features,)) for name in ("location", "scale"))
        if not np.isfinite(location).all() or not ((scale > 0) & np.isfinite(scale)).all():
            raise ValueError("a location is not finite, or a scale not positive")
        least, lively = (stored_array(arrays, name, np.float64, (features,)) for name in ("least", "lively"))
        spread = stored_array(arrays, "spread", np.int64, (features,))
        if not ((least >= 0) & (lively >= 0) & np.isfinite(least + lively)).all() or not _within(spread, features):
            raise ValueError("a least change is negative, or a standard deviation is not among the features")
        return cls(location, scale, stored_array(arrays, "constant", np.bool_, (features,)), least, lively, spread)


def _within(columns: Ints, features: int) -> bool:
    return bool(((columns >= -1) & (columns < features)).all())


def fit_moments(x: Array, kind: Literal["robust", "plain"]) -> tuple[Moments, Mask]:
    """Learn location and scale of windows x features, and which features can be judged by them.

    Parameters
    ----------
    x : ndarray, windows x features
        NaN is missing.
    kind : {"robust", "plain"}
        Median and the distance between the 0.1 and 0.9 quantiles (as that of a normal distribution, and at least a
        tenth of the standard deviation); or mean and standard deviation (ddof 0), as the paper's Z-score.

    Returns
    -------
    tuple
        The moments of all features, and a mask: features that are missing from more than half of the windows
        cannot be judged.
    """
    pieces = [_fit(x[:, i : i + _COLUMNS], kind) for i in range(0, x.shape[1], _COLUMNS)]
    location, scale, constant, known = (np.concatenate(part) for part in zip(*pieces, strict=True))
    nothing = np.zeros(len(location))
    moments = Moments(location, scale, constant.astype(bool), nothing, nothing, np.full(len(location), -1))
    return moments, known.astype(bool)


def _fit(x: Array, kind: str) -> tuple[Array, ...]:
    known = ~np.isnan(x)
    enough = known.sum(axis=0) >= max(1, (1 - _MOST_MISSING) * len(x))
    x = np.where(enough, x, 0.0)
    known = known | ~enough
    with np.errstate(all="ignore"):
        location, _ = centred(x, known)
        scale = _spread(x - location, known)
        magnitude = np.where(known, np.abs(x), 0.0).max(axis=0)
        constant = ~(scale > _LEAST_RELATIVE_SCALE * magnitude)
        if kind == "robust":
            low, middle, high = quantiles(x, (0.1, 0.5, 0.9))
            location = np.where(constant, location, middle)
            scale = np.maximum((high - low) / _NORMAL_RANGE, _LEAST_ROBUST_SHARE * scale)
    scale = np.where(constant, 1.0, scale)
    enough &= np.isfinite(location) & np.isfinite(scale)
    finite = np.where(enough, location, 0.0), np.where(enough, scale, 1.0)
    return *finite, constant, enough


def _spread(residual: Array, known: Mask) -> Array:
    """Root mean square of each column's known values."""
    return np.asarray(np.sqrt(np.where(known, residual**2, 0.0).sum(axis=0) / known.sum(axis=0)))
