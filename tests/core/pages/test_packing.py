"""What is packed for a page can be had back, and one sample in 30,000 stays visible."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from infrascope_core.numeric import buckets, least_and_largest
from infrascope_core.pages.packing import as_bytes, as_singles


def singles(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


@pytest.mark.parametrize(("samples", "most"), [(0, 10), (1, 10), (10, 10), (11, 10), (30_000, 900)])
def test_buckets_hold_every_sample_once(samples, most):
    bounds = buckets(samples, most)
    assert len(bounds) - 1 == min(samples, most)
    assert bounds[0] == 0
    assert bounds[-1] == samples
    if samples:
        assert np.diff(bounds).min() >= samples // most or samples < most


def test_a_spike_of_one_sample_is_in_its_bucket():
    values = np.zeros((30_000, 2))
    values[12_345, 0], values[12_345, 1] = 7.0, -7.0
    bounds = buckets(len(values), 900)
    low, high = least_and_largest(values, bounds)
    (place,) = np.flatnonzero(high[:, 0])
    assert bounds[place] <= 12_345 < bounds[place + 1]
    assert (high[place, 0], low[place, 1]) == (7.0, -7.0)


def test_what_is_missing_stays_missing():
    values = np.array([np.nan, np.inf, -np.inf, 3.0, np.nan, 5.0])[:, None]
    low, high = least_and_largest(values, np.array([0, 3, 6]))
    assert np.isnan(low[0, 0])
    assert np.isnan(high[0, 0])
    assert (low[1, 0], high[1, 0]) == (3.0, 5.0)
    assert np.isnan(singles(as_singles(high[:, 0]))).tolist() == [True, False]


def test_what_single_precision_cannot_hold_is_bounded():
    assert np.isfinite(singles(as_singles(np.array([1e300, -1e300])))).all()


def test_cells_are_bytes_and_255_is_missing():
    packed = base64.b64decode(as_bytes(np.array([0.0, 127.4, 254.0, 999.0, -3.0, np.nan, np.inf])))
    assert list(packed) == [0, 127, 254, 254, 0, 255, 255]
