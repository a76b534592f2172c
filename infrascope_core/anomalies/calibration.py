"""Calibration: what a detector's score means, and what the detectors' scores mean together.

What belongs here: from scores to probabilities. A detector's scale is its own (a mean of scales, a distance, a path
length), and by the paper's threshold, the baseline's 99th percentile, one window in a hundred is flagged whatever
happens. So scores are put on one scale: how far the logarithm is above the run's own quiet level, in units of how far a
healthy run's 90th percentile is. They are averaged over a group of detectors, and beyond that percentile the
probability falls exponentially (peaks over threshold, Pickands 1975; as in Siffer et al., KDD 2017, with the shape 0).

How far healthy runs reach is learnt from runs that were each judged by the others. Few runs say little about it, one
says nothing: a prior that ships with the package (`prior.yaml`) counts as some more runs (empirical Bayes; the
logarithms are averaged).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

import numpy as np
import yaml
from scipy.special import factorial

from infrascope_core.numeric import Array, Arrays, Ints, stored_array
from infrascope_core.store.lake import fingerprint

_DATA = (files(__package__) / "prior.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("1", _DATA)
"""Changes when scores would mean something else."""
QUIET, LOUD = 0.1, 0.9
"""Quantiles of a healthy run's scores: its quiet level, and how far it reaches from there."""
_TAIL = 0.97
"""Between LOUD and this quantile a healthy run shows how fast its tail falls."""
_LOW, _HIGH = -5.0, 50.0
"""Bounds of a standardised score: no detector alone outweighs the others without limit."""
_LEAST_REACH = 1e-2
_LEAST_DECAY = 0.05
_LEAST_OF_PRIOR = 0.75
"""Share of the prior's decay below which no references bring it: what happens in one run of ten is not in four."""
_TINY = 1e-12
_OWN = 2.0
_UNTOUCHED = 0.6
"""Quantile of a run's scores that a fault in less than two fifths of its windows does not reach."""
_FEWEST = 20
"""Windows of a run from which its quantiles can be read."""


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


@dataclass(frozen=True)
class Prior:
    """What healthy runs' scores are like, before the runs of a baseline are looked at.

    Attributes
    ----------
    weight : float
        How many runs it counts as.
    reach : mapping of str to float
        By detector, see `Calibration`.
    decay : mapping of str to float
        By group of detectors, see `Calibration`.
    """

    weight: float
    reach: Mapping[str, float]
    decay: Mapping[str, float]


@cache
def shipped_prior() -> Prior:
    """The prior of `prior.yaml`."""
    data = yaml.safe_load(_DATA)
    return Prior(data["weight"], data["detectors"], data["groups"])


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the scores of detectors of one group mean.

    Attributes
    ----------
    reach : ndarray, detectors
        From a healthy run's quiet level to its 90th percentile, in logarithms of the score.
    usual : ndarray, detectors
        The quiet level of the references themselves: the median over them.
    decay : float
        Mean excess of the combined score beyond 1, in reaches.
    """

    reach: Array
    usual: Array
    decay: float

    @classmethod
    def learn(cls, scores: Array, run: Ints, detectors: Sequence[str], group: str, prior: Prior) -> Calibration:
        """Calibrate on scores of reference windows, none of which was compared with itself.

        Parameters
        ----------
        scores : ndarray, windows x detectors
            NaN is unknown, and its window left out.
        run : ndarray, windows
            Number of each window's run. Windows of the only run are compared with other windows of it, which says
            nothing about another run: then the prior holds.
        detectors, group : str
            Their names, for the prior.
        prior : Prior
            What is known beforehand.
        """
        known = ~np.isnan(scores).any(axis=1)
        logs, runs = _logs(scores[known]), run[known]
        parts = [part for number in np.unique(runs) if len(part := logs[runs == number]) >= _FEWEST]
        expected = np.array([prior.reach[name] for name in detectors])
        quiet = [np.quantile(part, QUIET, axis=0) for part in parts]
        usual = np.median(quiet, axis=0) if parts else np.zeros(len(detectors))
        if len(parts) < 2:
            return cls(expected, usual, prior.decay[group])
        loud = [np.quantile(part, LOUD, axis=0) for part in parts]
        reach = _pooled(expected, [np.maximum(b - a, _LEAST_REACH) for a, b in zip(quiet, loud, strict=True)], prior)
        combined = [((part - low) / reach).mean(axis=1) for part, low in zip(parts, quiet, strict=True)]
        excess = [np.diff(np.quantile(values, [LOUD, _TAIL])) / np.log((1 - LOUD) / (1 - _TAIL)) for values in combined]
        decay = _pooled(np.array([prior.decay[group]]), [np.maximum(part, _LEAST_DECAY) for part in excess], prior)
        return cls(reach, usual, max(float(decay[0]), _LEAST_OF_PRIOR * prior.decay[group]))

    def level(self, scores: Array, share: float) -> Array:
        """The quiet level of some windows of a run, such that a healthy run's is that of its 10 % quantile: detectors.

        Parameters
        ----------
        scores : ndarray, windows x detectors
            NaN is unknown.
        share : float
            Share of the windows that are known to be quiet, at least 10 %: the median of a server that was watched
            for weeks is known better than its 10 % quantile.
        """
        known = ~np.isnan(scores).any(axis=1)
        if not known.any():
            return self.usual
        # quantiles of a healthy run lie about evenly between the two that are known
        lift = self.reach * (share - QUIET) / (LOUD - QUIET)
        return np.asarray(np.quantile(_logs(scores[known]), share, axis=0) - lift)

    def of_long_run(self, scores: Array) -> Calibration:
        """The same for what was watched for so long that most of its windows are normal: it shows its own reach.

        It counts as `_OWN` runs beside the calibration's own reach: what servers do within weeks is more than what
        runs of a program do within minutes.
        """
        known = ~np.isnan(scores).any(axis=1)
        if known.sum() < _FEWEST:
            return self
        middle, loud = np.quantile(_logs(scores[known]), [0.5, LOUD], axis=0)
        seen = np.maximum((loud - middle) * (LOUD - QUIET) / (LOUD - 0.5), _LEAST_REACH)
        reach = np.exp((np.log(self.reach) + _OWN * np.log(seen)) / (1.0 + _OWN))
        return Calibration(np.maximum(reach, self.reach), self.usual, self.decay)

    def of_itself(self, scores: Array) -> Calibration:
        """The same for a run that is judged by itself: how far it reaches is seen in its quieter windows."""
        known = ~np.isnan(scores).any(axis=1)
        if known.sum() < _FEWEST:
            return self
        quiet, middle = np.quantile(_logs(scores[known]), [QUIET, _UNTOUCHED], axis=0)
        seen = np.maximum((middle - quiet) * (LOUD - QUIET) / (_UNTOUCHED - QUIET), _LEAST_REACH)
        return Calibration(np.maximum(seen, self.reach), self.usual, self.decay)

    def combine(self, scores: Array, level: Array) -> Array:
        """Mean of the standardised scores of windows x detectors: 0 is the quiet level, 1 a healthy 90th percentile."""
        return np.asarray(np.clip((_logs(scores) - level) / self.reach, _LOW, _HIGH).mean(axis=1))

    def weights(self, scores: Array, level: Array) -> Array:
        """How far each detector's score is above the quiet level, 0 where it is not: windows x detectors."""
        return np.nan_to_num(np.clip((_logs(scores) - level) / self.reach, 0.0, _HIGH))

    def surprisal(self, scores: Array, level: Array, usual: Array | float = 0.0) -> Array:
        """-log10 of the probability that a normal window's combined score is as high; NaN stays NaN.

        `usual` is how far above 1 windows are there in the references.
        """
        combined = self.combine(scores, level) - usual
        beyond = -np.log10(1.0 - LOUD) + (combined - 1.0) / self.decay / np.log(10.0)
        return np.where(combined > 1.0, beyond, np.clip(combined, 0.0, 1.0))

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
        reach, usual = (stored_array(arrays, name, np.float64, (detectors,)) for name in ("reach", "usual"))
        (decay,) = stored_array(arrays, "decay", np.float64, (1,)).tolist()
        if not (reach > 0).all() or not np.isfinite(np.r_[reach, usual, decay]).all() or decay <= 0:
            raise ValueError("a calibration is not one of normal scores")
        return cls(reach, usual, decay)


def _logs(scores: Array) -> Array:
    return np.asarray(np.log(np.maximum(scores, _TINY)))


def _pooled(expected: Array, seen: Sequence[Array], prior: Prior) -> Array:
    """Mean of logarithms, over what was seen and what is expected."""
    total = prior.weight * np.log(expected) + np.log(seen).sum(axis=0)
    return np.asarray(np.exp(total / (prior.weight + len(seen))))
