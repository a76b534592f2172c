"""Co-occurrence of items in time: by how much two overlap within runs, and how often chance alone does as much.

What belongs here: the test, on arrays. Windows of a run are no sample: what is HIGH now is HIGH a window later, and two
items that each hold for minutes overlap for minutes by chance. So one of them is shifted against the other, in a
circle, within each run (circular permutation, as in shiftR): that keeps how long and how often each of them holds, and
breaks nothing but their alignment. Runs are independent, and their overlaps are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from scipy import fft, signal
from scipy.special import ndtr

from infrascope_core.numeric import Array, Ints, Mask

_LEAST_P = 1e-12
"""Probabilities below it are not told apart: the last digits of a convolution."""
_SINGLE = 2**15
"""Windows of a run from which its transforms are in double precision: below, an error in single is less than 0.1."""
_ROUNDING = 1e-9
"""Variances below it, in windows squared, are rounding: at least one side does not vary."""


@dataclass(frozen=True, eq=False)
class Side:
    """One side of rules in a run.

    Attributes
    ----------
    holds : ndarray, (... x) items x windows
        1 where a window holds the item; windows lie together, because they are transformed together.
    count : ndarray, (... x) items
        Windows that hold it.
    varies : ndarray of bool, (... x) items
        Some windows hold it and some do not.
    power : ndarray, (... x) items x frequencies
        Squared amplitudes, without frequency 0.
    """

    holds: Array
    count: Array
    varies: Mask
    power: Array

    @classmethod
    def of(cls, holds: Mask) -> Side:
        """From windows x items, in the order of time."""
        return cls.of_rows(holds.T)

    @classmethod
    def of_rows(cls, holds: Mask) -> Side:
        """From (... x) items x windows: several runs of equal length, or several rules, are transformed at once."""
        x = np.ascontiguousarray(holds, dtype=np.float64)
        count, windows = x.sum(axis=-1), x.shape[-1]
        varies = (count > 0) & (count < windows)
        # most items are held throughout or never, and those have no amplitude but at 0
        power = np.zeros((*x.shape[:-1], windows // 2))
        if varies.any():
            spectrum = fft.rfft(x[varies], axis=-1)[:, 1:]
            power[varies] = spectrum.real**2 + spectrum.imag**2
        return cls(x, count, varies, power)

    @property
    def windows(self) -> int:
        """Number of windows."""
        return int(self.holds.shape[-1])


@dataclass(frozen=True, eq=False)
class Beyond:
    """Of overlaps, what it takes to say how far they are beyond the expected: see `Overlap`."""

    both: Array
    expected: Array
    variance: Array

    @classmethod
    def of_sides(cls, left: Side, right: Side) -> Beyond:
        """Of two sides of a run.

        Notes
        -----
        By Parseval's theorem, the overlaps over all T shifts have the variance sum_{f != 0} |A_f|^2 |C_f|^2 / T^2, with
        A and C the discrete Fourier transforms of the sides.
        """
        windows = max(left.windows, 1)
        both = left.holds @ np.swapaxes(right.holds, -1, -2)
        expected = left.count[..., :, None] * right.count[..., None, :] / windows
        variance = (left.power * _times(left)) @ np.swapaxes(right.power, -1, -2) / windows**2
        variance[~(left.varies[..., :, None] & right.varies[..., None, :]) | (variance <= _ROUNDING)] = 0.0
        return cls(both, expected, variance)

    @classmethod
    def nothing(cls, antecedents: int, consequents: int) -> Beyond:
        """The sum over no runs."""
        return cls(*(np.zeros((antecedents, consequents)) for _ in fields(cls)))

    def add(self, run: Beyond, at: slice) -> None:
        """Add a run's overlaps, in place; `at` are the antecedents that it has."""
        for name in ("both", "expected", "variance"):
            getattr(self, name)[at] += getattr(run, name)

    @property
    def z(self) -> Array:
        """Overlap beyond the expected in standard deviations over shifts; 0 where no run is informative."""
        return _standardised(self.both - self.expected, self.variance)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Overlaps of antecedents with consequents, of a run or summed over runs; each array is antecedents x consequents.

    Attributes
    ----------
    both, present : ndarray
        Windows that hold both, and runs that have any.
    expected : ndarray
        What they are on average over all circular shifts.
    variance : ndarray
        Their variance over those.
    informative, agreeing : ndarray
        Runs in which both sides vary, and those of them with more overlap than expected.
    top_excess, top_variance : ndarray
        Overlap beyond the expected of the run that has most of it, and its variance.
    """

    both: Array
    present: Array
    expected: Array
    variance: Array
    informative: Array
    agreeing: Array
    top_excess: Array
    top_variance: Array

    @classmethod
    def of_run(cls, left: Mask, right: Mask) -> Overlap:
        """The overlaps within one run.

        Parameters
        ----------
        left : ndarray of bool, windows x antecedents
            In the order of time.
        right : ndarray of bool, windows x consequents
            The same windows.
        """
        return cls.of_sides(Side.of(left), Side.of(right))

    @classmethod
    def of_sides(cls, left: Side, right: Side) -> Overlap:
        """The same of sides that are used more than once."""
        beyond = Beyond.of_sides(left, right)
        return cls._of(beyond.both, beyond.expected, beyond.variance, np.outer(left.varies, right.varies))

    @classmethod
    def of_pairs(cls, left: Mask, right: Mask) -> Overlap:
        """The same of each antecedent with the consequent in the same column alone: antecedents x 1."""
        a, c = Side.of(left), Side.of(right)
        windows = max(a.windows, 1)
        both = (a.holds * c.holds).sum(axis=1)
        variance = (a.power * _times(a) * c.power).sum(axis=1) / windows**2
        expected, vary = a.count * c.count / windows, a.varies & c.varies
        return cls._of(both[:, None], expected[:, None], variance[:, None], vary[:, None])

    @classmethod
    def _of(cls, both: Array, expected: Array, variance: Array, vary: Mask) -> Overlap:
        informative = vary & (variance > _ROUNDING)
        variance = np.where(informative, variance, 0.0)
        excess = np.where(informative, both - expected, 0.0)
        known, more, present = (np.asarray(mask, dtype=np.float64) for mask in (informative, excess > 0, both > 0))
        return cls(both, present, expected, variance, known, more, excess, variance)

    @classmethod
    def nothing(cls, antecedents: int, consequents: int) -> Overlap:
        """The sum over no runs."""
        return cls(*(np.zeros((antecedents, consequents)) for _ in fields(cls)))

    def add(self, run: Overlap, at: Ints | slice = slice(None)) -> None:
        """Add a run's overlaps, in place; `at` are the antecedents that it has."""
        stronger = run.top_excess > self.top_excess[at]
        for name in ("top_excess", "top_variance"):
            kept = getattr(self, name)
            kept[at] = np.where(stronger, getattr(run, name), kept[at])
        for name in ("both", "present", "expected", "variance", "informative", "agreeing"):
            getattr(self, name)[at] += getattr(run, name)

    @property
    def z(self) -> Array:
        """Overlap beyond the expected in standard deviations over shifts; 0 where no run is informative."""
        return _standardised(self._excess, self.variance)

    @property
    def z_without_strongest(self) -> Array:
        """The same without the run that has most of it."""
        return _standardised(self._excess - self.top_excess, self.variance - self.top_variance)

    @property
    def _excess(self) -> Array:
        """Runs in which a side does not vary have none: both is what is expected."""
        return self.both - self.expected


def _times(side: Side) -> Array:
    """How many frequencies each one kept stands for: all but 0 and the highest of an even number stand for two."""
    return np.where(2 * np.arange(1, side.power.shape[-1] + 1) == max(side.windows, 1), 1.0, 2.0)


def _standardised(excess: Array, variance: Array) -> Array:
    known = variance > _ROUNDING
    return np.divide(excess, np.sqrt(np.where(known, variance, 1.0)), out=np.zeros_like(excess), where=known)


def by_shift(left: Mask, right: Mask, of: Ints | slice = slice(None)) -> list[Array]:
    """How overlaps are distributed over all circular shifts of a run.

    Parameters
    ----------
    left, right : ndarray of bool, windows x pairs
        Antecedent and consequent of each pair, in the order of time.
    of : ndarray of int, optional
        The column of the consequent of each pair, where they share some.

    Returns
    -------
    list of ndarray
        For each pair, the share of the shifts with 0, 1, 2 ... windows that hold both.
    """
    # overlaps are whole numbers, and rounding to them leaves nothing of single precision
    kind = np.float32 if len(left) < _SINGLE else np.float64
    a, c = (np.ascontiguousarray(side.T, dtype=kind) for side in (left, right))
    spectrum = np.conj(fft.rfft(a, axis=1)) * fft.rfft(c, axis=1)[of]
    overlaps = np.rint(fft.irfft(spectrum, n=len(left), axis=1)).astype(np.int64)
    most = overlaps.max(axis=1, initial=0)
    width = int(most.max(initial=0)) + 1
    of_pair = width * np.arange(len(overlaps))[:, None]
    shifts = np.bincount((overlaps + of_pair).ravel(), minlength=width * len(overlaps)).reshape(-1, width) / len(left)
    return [row[: last + 1] for row, last in zip(shifts, most, strict=True)]


def chance_of_as_much(observed: int, runs: Sequence[Array]) -> float:
    """Probability that the overlaps of several runs, each shifted by itself, sum up to at least what was observed.

    Parameters
    ----------
    observed : int
        Windows that hold both, over all runs.
    runs : sequence of ndarray
        Results of `by_shift` of one pair, one a run.

    Notes
    -----
    Exact, but for the rounding of convolutions, and never 0: shifting by nothing is one of the shifts. A sample of
    shifts (Monte Carlo) would have an error, a seed, and no probability below one in their number.
    """
    parts = list(runs) or [np.ones(1)]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [_convolved(a, b) for a, b in pairs] + parts[len(parts) // 2 * 2 :]
    return float(np.clip(parts[0][observed:].sum(), _LEAST_P, 1.0))


def _convolved(a: Array, b: Array) -> Array:
    """What `scipy.signal.convolve` gives, which takes ten times as long to choose its way."""
    if _quicker_way(len(a), len(b)) == "direct":
        return np.convolve(a, b)
    convolved: Array = signal.fftconvolve(a, b)
    return convolved


@lru_cache(maxsize=2**16)
def _quicker_way(a: int, b: int) -> str:
    return str(signal.choose_conv_method(np.ones(a), np.ones(b)))


def normal_chance(z: Array) -> Array:
    """Probability of at least so many standard deviations, as many runs have it."""
    chance: Array = np.clip(ndtr(-z), _LEAST_P, 1.0)
    return chance
