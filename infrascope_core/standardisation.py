"""Standardisation: what is expected of each feature, and how far it usually is from that.

What belongs here: location and scale by place in the run. What is made of the standardised features is the
detectors'.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Windows = NDArray[np.int64]

LARGEST_Z = 100.0
"""Standardised features are held within this bound.

In a sample of n windows none can be farther from the mean than (n - 1) / sqrt(n) standard deviations
(Samuelson's inequality), which is 100 for n = 10,000: what a baseline itself holds is not touched, so the
scores are the paper's. But a feature that hardly moved in the baseline may be a million of its tiny
standard deviations away in a new run; unbounded, that one feature would drown all others in every score.
"""
_LEAST_RELATIVE_SCALE = 1e-9
"""A standard deviation this small beside the feature's magnitude is rounding, not movement."""
_MOST_MISSING = 0.5
"""A feature missing from more of the windows than this cannot be judged."""
_COLUMNS = 256
"""Features whose moments are taken at once, so that temporary arrays stay small beside the matrix."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Location and scale of features, in each feature's own unit.

    Location and scale are the plain mean and standard deviation (ddof 0), as the paper's Z-score has them, with
    one addition. The first windows of a run, its openings, have moments of their own, because every run starts
    with imports, allocation and cold caches, which are normal there and nowhere else. With n runs the mean of
    their openings counts (n - 1) / n and the general mean the rest: a single run cannot vouch for its own start.
    The spread of an opening is never below the general one.

    Attributes
    ----------
    location, scale : ndarray, features
        Of the windows that are no openings.
    opening_location, opening_scale : ndarray, openings x features
        Of the first windows of a run, by window number.
    """

    location: Array
    scale: Array
    opening_location: Array
    opening_scale: Array

    def expected(self, window: Windows) -> Array:
        """What is expected of windows with these numbers: windows x features."""
        return _by_window(self.location, self.opening_location, window)

    def spread(self, window: Windows) -> Array:
        """Standard deviation of windows with these numbers: windows x features."""
        return _by_window(self.scale, self.opening_scale, window)

    def standardise(self, matrix: Array, window: Windows) -> Array:
        """Express windows x features in standard deviations from what is expected, within LARGEST_Z; NaN stays."""
        z = matrix - self.expected(window)
        z /= self.spread(window)
        return np.clip(z, -LARGEST_Z, LARGEST_Z, out=z)

    def select(self, keep: NDArray[np.bool_]) -> Moments:
        """The moments of some features."""
        return Moments(*(part[..., keep] for part in self.arrays().values()))

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, for storing."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], features: int) -> Moments:
        """Moments from stored arrays.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or does not fit the number of features.
        """
        moments = cls(*(np.asarray(arrays[field.name], dtype=np.float64) for field in fields(cls)))
        general, opening = (features,), (len(moments.opening_location), features)
        shapes = (general, general, opening, opening)
        for (name, part), shape in zip(moments.arrays().items(), shapes, strict=True):
            if part.shape != shape or not np.isfinite(part).all() or (name.endswith("scale") and not (part > 0).all()):
                raise ValueError(f"{name} does not fit the names")
        return moments


def fit_moments(x: Array, window: Windows, openings: int) -> tuple[Moments, NDArray[np.bool_]]:
    """Learn the moments of windows x features, and which features can be judged by them.

    Parameters
    ----------
    x : ndarray, windows x features
        NaN is missing.
    window : ndarray, windows
        Number of each window in its run.
    openings : int
        How many first windows have moments of their own.

    Returns
    -------
    tuple
        The moments of all features, and a mask: features that are constant to rounding, or missing from more
        than half of the windows, cannot be judged, because no finite score could be given for them.
    """
    pieces = [_fit(x[:, i : i + _COLUMNS], window, openings) for i in range(0, x.shape[1], _COLUMNS)]
    *moments, keep = (np.concatenate(part, axis=-1) for part in zip(*pieces, strict=True))
    return Moments(*moments), keep.astype(bool)


def _fit(x: Array, window: Windows, openings: int) -> tuple[Array, ...]:
    known = ~np.isnan(x)
    body = x[window >= openings]
    with np.errstate(all="ignore"):
        in_body = ~np.isnan(body).all(axis=0) if len(body) else np.zeros(x.shape[1], dtype=bool)
        location = np.where(in_body, _mean(body), _mean(x))
        scale = np.where(in_body, _spread(body - location), _spread(x - location))
        opening_location, opening_scale = np.tile(location, (openings, 1)), np.tile(scale, (openings, 1))
        for number in range(openings):
            rows = x[window == number]
            runs = (~np.isnan(rows)).sum(axis=0)
            several = runs > 1
            opening_location[number] += np.where(several, (runs - 1) / runs * (_mean(rows) - location), 0.0)
            spread = np.where(several, _spread(rows - opening_location[number]), 0.0)
            opening_scale[number] = np.maximum(scale, spread)
        magnitude = np.where(known, np.abs(x), 0.0).max(axis=0)
        keep = np.isfinite(scale) & (scale > _LEAST_RELATIVE_SCALE * magnitude)
    keep &= known.sum(axis=0) >= (1 - _MOST_MISSING) * len(x)
    return location, scale, opening_location, opening_scale, keep


def _by_window(general: Array, opening: Array, window: Windows) -> Array:
    """Rows of `opening` for its window numbers, `general` for all others."""
    rows = np.broadcast_to(general, (len(window), len(general))).copy()
    is_opening = window < len(opening)
    rows[is_opening] = opening[window[is_opening]]
    return rows


def _mean(x: Array) -> Array:
    """Mean of each column's known values; NaN where there is none."""
    known = ~np.isnan(x)
    count = known.sum(axis=0)
    mean = np.where(known, x, 0.0).sum(axis=0) / count
    # once more about the rounded mean, for the digits of 1e12 and a little noise
    return np.asarray(mean + np.where(known, x - mean, 0.0).sum(axis=0) / count)


def _spread(residual: Array) -> Array:
    """Root mean square of each column's known values."""
    known = ~np.isnan(residual)
    return np.asarray(np.sqrt(np.where(known, residual**2, 0.0).sum(axis=0) / known.sum(axis=0)))
