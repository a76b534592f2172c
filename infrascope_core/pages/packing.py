"""Arrays for a page: traces as least and largest values, pictures as bytes, all in base64.

What belongs here: what makes them small without losing what a person looks for: one sample in 30,000 stays visible.
"""

from __future__ import annotations

import base64

import numpy as np

from infrascope_core.numeric import Array, Ints

LARGEST = float(np.finfo(np.float32).max)


def buckets(samples: int, most: int) -> Ints:
    """Where each of at most so many buckets of consecutive samples begins, and where the last ends."""
    number = min(samples, most)
    return (np.arange(number + 1) * samples) // max(number, 1)


def least_and_largest(values: Array, bounds: Ints) -> tuple[Array, Array]:
    """Least and largest known value of each bucket: buckets x columns; NaN where none is known.

    Parameters
    ----------
    values : ndarray, samples x columns
        Infinite values count as missing.
    bounds : ndarray of int
        See `buckets`.
    """
    if len(bounds) < 2:
        return np.zeros((0, values.shape[1])), np.zeros((0, values.shape[1]))
    known = np.isfinite(values)
    low = np.minimum.reduceat(np.where(known, values, np.inf), bounds[:-1], axis=0)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), bounds[:-1], axis=0)
    some = np.isfinite(low)
    return np.where(some, low, np.nan), np.where(some, high, np.nan)


def as_singles(values: Array) -> str:
    """Numbers as little-endian single precision in base64; NaN is kept."""
    bounded = np.clip(values, -LARGEST, LARGEST)
    return base64.b64encode(bounded.astype("<f4").tobytes()).decode("ascii")


def as_bytes(values: Array) -> str:
    """Numbers from 0 to 254 as bytes in base64; 255 is missing."""
    rounded = np.where(np.isfinite(values), np.clip(np.nan_to_num(values), 0, 254), 255)
    return base64.b64encode(np.rint(rounded).astype(np.uint8).tobytes()).decode("ascii")
