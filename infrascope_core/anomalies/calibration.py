"""Calibration: what a detector's score means, and what the detectors' scores mean together.

What belongs here: from scores to probabilities. A detector's scale is its own (a mean of scales, a distance, a path
length), and by the paper's threshold, the baseline's 99th percentile, one window in a hundred is flagged whatever
happens. So scores are put on one scale, combined, and the combination is given the probability with which a normal
window scores as high: by counting up to its 90th percentile, by an exponential tail beyond (peaks over threshold,
Pickands 1975; as in Siffer et al., KDD 2017, with the shape 0 in the logarithm of the scores). All that is learnt are
quantiles of the body: a run that is known to be healthy has its rare events too, and they must not set the scale.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import factorial

from infrascope_core.numeric import Array, Arrays, Ints, stored_array

_LOW, _HIGH = -5.0, 50.0
"""Bounds of a standardised score: no detector alone outweighs the others without limit."""
_REACH = 0.9
_TAIL = 0.9
_LEAST_DECAY = 0.02
"""A tail cannot be steeper than this: a few alike windows have none."""
_LEAST_REACH = 1e-3
_TINY = 1e-12
_GRID = 1000


def together(surprisals: Array) -> Array:
    """Surprisal of several that are independent of each other, of windows x groups (Fisher's method).

    With k of them and s their sum in natural units, the probability is that of a chi-squared variable with 2 k degrees
    of freedom to be above 2 s. NaN is unknown and left out; where all are, so is the result.
    """
    known = ~np.isnan(surprisals)
    total = np.where(known, surprisals, 0.0).sum(axis=1, keepdims=True) * np.log(10.0)
    groups = np.maximum(known.sum(axis=1, keepdims=True), 1)
    # that is exp(-s) (1 + s + ... + s^(k-1) / (k-1)!); in logarithms, because a gross fault's is too small for a float
    power = np.arange(surprisals.shape[1])
    terms = np.where(power < groups, total**power / factorial(power), 0.0)
    combined = np.maximum(total[:, 0] - np.log(terms.sum(axis=1)), 0.0) / np.log(10.0)
    return np.where(known.any(axis=1), combined, np.nan)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the scores of detectors of one group mean.

    Attributes
    ----------
    middle, reach : ndarray, detectors
        Median of the logarithm of each detector's scores, and the distance from there to its 90th percentile.
    grid : ndarray
        Evenly spaced quantiles of the combined scores of normal windows, sorted.
    count : float
        Number of windows that were combined.
    start, decay : float
        Where the exponential tail begins, and its mean excess, as the median excess gives it.
    """

    middle: Array
    reach: Array
    grid: Array
    count: float
    start: float
    decay: float

    @classmethod
    def learn(cls, scores: Array, run: Ints | None = None) -> Calibration:
        """Calibrate on scores of normal windows, none of which was compared with itself.

        Parameters
        ----------
        scores : ndarray, windows x detectors
            NaN is unknown, and its window left out.
        run : ndarray, windows, optional
            Number of each window's run. Every quantile is taken of each run, and counts as the median over the runs:
            of four runs that are known to be healthy, one may well have had its threads on other cores.
        """
        known = ~np.isnan(scores).any(axis=1)
        logs = np.log(np.maximum(scores[known], _TINY))
        runs = np.zeros(len(logs), dtype=np.int64) if run is None else run[known]
        middle, upper = _typical(logs, runs, np.array([0.5, _REACH]))
        reach = np.maximum(upper - middle, _LEAST_REACH)
        combined = np.clip((logs - middle) / reach, _LOW, _HIGH).mean(axis=1)
        grid = _typical(combined[:, None], runs, np.linspace(0.0, 1.0, _GRID))[:, 0]
        start, beyond = np.quantile(grid, [_TAIL, (1.0 + _TAIL) / 2.0])
        decay = max(float(beyond - start) / float(np.log(2.0)), _LEAST_DECAY)
        return cls(middle, reach, grid, float(len(combined)), float(start), decay)

    def combine(self, scores: Array) -> Array:
        """Mean of the standardised scores of windows x detectors: 0 is a median window, 1 the 90th percentile."""
        logs = np.log(np.maximum(scores, _TINY))
        return np.asarray(np.clip((logs - self.middle) / self.reach, _LOW, _HIGH).mean(axis=1))

    def weights(self, scores: Array) -> Array:
        """How far each detector's score departs from a median window's, 0 where it does not: windows x detectors."""
        logs = np.log(np.maximum(scores, _TINY))
        return np.nan_to_num(np.clip((logs - self.middle) / self.reach, 0.0, _HIGH))

    def surprisal(self, scores: Array) -> Array:
        """-log10 of the probability that a normal window's combined score is as high; NaN stays NaN."""
        combined = self.combine(scores)
        below = np.searchsorted(self.grid, combined, side="left") / _GRID
        share = (1.0 - below) * self.count / (self.count + 1.0) + 1.0 / (self.count + 1.0)
        tail = -np.log10(1.0 - _TAIL) + (combined - self.start) / self.decay / np.log(10.0)
        surprisal = np.where(combined > self.start, tail, np.minimum(-np.log10(share), -np.log10(1.0 - _TAIL)))
        return np.where(np.isnan(combined), np.nan, surprisal)

    def arrays(self) -> Arrays:
        """All values by name, for storing."""
        return {field.name: np.atleast_1d(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, detectors: int) -> Calibration:
        """A calibration from stored arrays.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or does not fit.
        """
        middle, reach = (stored_array(arrays, name, np.float64, (detectors,)) for name in ("middle", "reach"))
        grid = stored_array(arrays, "grid", np.float64, (_GRID,))
        scalars = np.concatenate([stored_array(arrays, name, np.float64, (1,)) for name in ("count", "start", "decay")])
        count, start, decay = scalars.tolist()
        finite = all(np.isfinite(part).all() for part in (middle, reach, grid, scalars))
        if not finite or not (reach > 0).all() or count < 1 or decay <= 0:
            raise ValueError("the calibration does not fit the detectors")
        return cls(middle, reach, grid, count, start, decay)


def _typical(values: Array, run: Ints, shares: Array) -> Array:
    """Median over runs of the quantiles of each: shares x columns."""
    return np.asarray(np.median([np.quantile(values[run == r], shares, axis=0) for r in np.unique(run)], axis=0))
