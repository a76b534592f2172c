"""References: for each window, the most similar one that a baseline holds, as what is expected of it.

What belongs here: the library of a baseline's windows and the search in it. A run goes through phases (start-up,
epochs, evaluation, checkpoints), and the average over them is a state that it is never in: a window in the middle
of a normal checkpoint is far from the average and close to the checkpoints of other runs. So a window is compared
with its nearest neighbour among the reference windows (analogue forecasting; nearest-neighbour detectors as in
Ramaswamy, Rastogi and Shim, SIGMOD 2000), searched near the same place in the run where runs are of one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from infrascope_core.numeric import Array, Arrays, Ints, Mask, Single, one_thread, principal_axes, stored_array, thinned

_BOUND = 5.0
"""Standardised features are held within this while similar windows are looked for, so that a few features that are
far from everything do not decide alone what is similar."""
_COORDINATES = 64
"""Principal components in which windows are compared."""
_ROWS = 512
"""Windows looked up at once."""


@dataclass(frozen=True, eq=False)
class References:
    """The windows of a baseline, standardised.

    Attributes
    ----------
    z : ndarray of float16, windows x features
        NaN is missing. Half precision: 3 digits are plenty for what is expected, and halve the model file twice.
    run : ndarray, windows
        Index into `runs`.
    place : ndarray, windows
        Number of the window in its run.
    runs : tuple of str
        Run keys.
    basis : ndarray of float32, features x coordinates
        Principal axes of the windows.
    band : tuple of (int, float), or None
        A window is compared with windows at most this many places away, or this share of its own place; None
        where runs are not known to be of one program, or their places mean nothing.
    overlap : int
        Windows of one run that are nearer than this share samples.
    apart : int
        Where there is one run, its windows are compared with those that are at least so many places away.
    """

    z: NDArray[np.float16]
    run: Ints
    place: Ints
    runs: tuple[str, ...]
    basis: Single
    band: tuple[int, float] | None
    overlap: int
    apart: int

    @classmethod
    def learn(
        cls,
        z: Array,
        run_keys: Sequence[str],
        place: Ints,
        band: tuple[int, float] | None,
        overlap: int,
        *,
        most: int = 1_200,
    ) -> References:
        """Make a library of standardised windows x features; its axes are learnt from at most so many windows."""
        runs = tuple(sorted(set(run_keys)))
        code = {key: i for i, key in enumerate(runs)}
        _, axes = principal_axes(_bounded(thinned(z, most)), lambda values: _COORDINATES)
        return cls(
            z.astype(np.float16),
            np.array([code[key] for key in run_keys], dtype=np.int64),
            place.astype(np.int64),
            runs,
            np.ascontiguousarray(axes, dtype=np.float32),
            band,
            overlap,
            overlap,
        )

    def expected(self, z: Array, run_keys: Sequence[str], place: Ints) -> Array:
        """What is expected of windows x features, standardised: the most similar reference window of another run.

        A window that is itself a reference is never compared with its own run, unless that is the only one; then
        with windows that are `apart` from it. Where nothing is left, 0, the location, is expected.
        """
        expected = np.zeros(z.shape)
        code = {key: i for i, key in enumerate(self.runs)}
        run = np.array([code.get(key, -1) for key in run_keys], dtype=np.int64)
        known, length = self._coordinates
        for start in range(0, len(z), _ROWS):
            rows = slice(start, start + _ROWS)
            with one_thread():
                at = _bounded(z[rows]) @ self.basis
                distance = length - 2.0 * (at @ known.T)
            distance[~self._comparable(run[rows], place[rows])] = np.inf
            nearest = distance.argmin(axis=1)
            found = np.isfinite(distance[np.arange(len(nearest)), nearest])
            like = self.z[nearest[found]].astype(np.float64)
            like[np.isnan(like)] = 0.0
            expected[rows][found] = like
        return expected

    @cached_property
    def _coordinates(self) -> tuple[Single, Single]:
        """The references in the principal axes, and their squared lengths."""
        with one_thread():
            known = _bounded(self.z) @ self.basis
        return known, (known * known).sum(axis=1)

    def _comparable(self, run: Ints, place: Ints) -> Mask:
        """Which reference windows each window may be compared with: windows x references."""
        apart = np.abs(place[:, None] - self.place[None, :])
        same_run = run[:, None] == self.run[None, :]
        if len(self.runs) > 1:
            allowed = ~same_run
        else:
            allowed = ~same_run | (apart >= self.apart)
        if self.band is not None:
            windows, share = self.band
            near = allowed & (apart <= np.maximum(windows, (share * place).astype(np.int64))[:, None])
            # a run may outlast every reference; what it does then is not what they did when they ended
            allowed = np.where(near.any(axis=1, keepdims=True), near, allowed)
        comparable: Mask = allowed
        return comparable

    def arrays(self) -> Arrays:
        """All arrays by name, for storing."""
        return {
            "z": self.z,
            "run": self.run,
            "place": self.place,
            "runs": np.frombuffer("\n".join(self.runs).encode(), dtype=np.uint8),
            "basis": self.basis,
            "band": np.array([] if self.band is None else self.band, dtype=np.float64),
            "overlap": np.array([self.overlap]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, features: int) -> References:
        """A library from stored arrays.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or they do not fit together.
        """
        z = stored_array(arrays, "z", np.float16, (None, features))
        run, place = (stored_array(arrays, name, np.int64, (len(z),)) for name in ("run", "place"))
        runs = tuple(stored_array(arrays, "runs", np.uint8, (None,)).tobytes().decode().split("\n"))
        basis = stored_array(arrays, "basis", np.float32, (features, None))
        band = stored_array(arrays, "band", np.float64, (None,)).tolist()
        (overlap,) = stored_array(arrays, "overlap", np.int64, (1,)).tolist()
        fits = len(z) > 0 and len(band) in {0, 2} and np.isfinite(band).all() and not np.isinf(z).any()
        if not fits or run.min() < 0 or run.max() >= len(runs):
            raise ValueError("the reference windows do not fit the names")
        return cls(z, run, place, runs, basis, (int(band[0]), band[1]) if band else None, overlap, overlap)


def _bounded(z: NDArray[np.float16] | Array) -> Single:
    """Within _BOUND, missing as 0, in single precision."""
    bounded: Single = np.clip(z, -_BOUND, _BOUND).astype(np.float32)
    bounded[np.isnan(bounded)] = 0.0
    return bounded
