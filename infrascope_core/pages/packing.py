"""Arrays for a page: numbers as single precision, pictures as bytes, all in base64."""

from __future__ import annotations

import base64

import numpy as np

from infrascope_core.numeric import Array

LARGEST = float(np.finfo(np.float32).max)


def as_singles(values: Array) -> str:
    """Numbers as little-endian single precision in base64; NaN is kept."""
    bounded = np.clip(values, -LARGEST, LARGEST)
    return base64.b64encode(bounded.astype("<f4").tobytes()).decode("ascii")


def from_singles(text: str) -> Array:
    """The numbers that `as_singles` packed, in single precision."""
    numbers: Array = np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float64)
    return numbers


def as_bytes(values: Array) -> str:
    """Numbers from 0 to 254 as bytes in base64; 255 is missing."""
    rounded = np.where(np.isfinite(values), np.clip(np.nan_to_num(values), 0, 254), 255)
    return base64.b64encode(np.rint(rounded).astype(np.uint8).tobytes()).decode("ascii")
