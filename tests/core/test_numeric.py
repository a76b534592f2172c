"""Shared arithmetic against numpy's: medians, quantiles and means of known values, and principal axes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from infrascope_core.numeric import centred, median, median_deviation, principal_axes, quantiles, stored_array

NAN = np.nan
values = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.one_of(st.just(NAN), st.floats(-1e6, 1e6)),
)


@given(values, st.sampled_from([0, 1]))
def test_medians_are_numpys_to_the_last_bit(x, axis):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slices without a value, of which ours gives no warning
        expected = np.nanmedian(x, axis=axis)
    np.testing.assert_array_equal(median(x, axis), expected)


def test_the_median_of_nothing_is_unknown():
    assert np.isnan(median(np.empty((3, 0)), axis=1)).all()
    assert np.isnan(median(np.full((3, 2), NAN), axis=1)).all()


def test_the_median_deviation_of_normal_values_is_their_standard_deviation():
    x = np.random.default_rng(0).normal(5, 3, size=(20_000, 1))
    x[::7] = NAN
    assert median_deviation(x, axis=0) == pytest.approx([3], rel=0.02)


@given(values)
def test_quantiles_are_numpys_but_for_rounding(x):
    x = np.where(np.isnan(x).all(axis=0), 0.0, x)
    expected = np.nanquantile(x, (0.1, 0.5, 0.9), axis=0)
    np.testing.assert_allclose(quantiles(x, (0.1, 0.5, 0.9)), expected, rtol=1e-12, atol=1e-9)


def test_what_is_left_of_a_rounded_mean_is_taken_out_again():
    rng = np.random.default_rng(0)
    noise = rng.integers(-4, 5, size=(10_000, 1)).astype(float)
    x = 1e12 + noise
    x[::3] = NAN
    mean, deviation = centred(x, ~np.isnan(x))
    known = np.delete(noise, np.s_[::3], axis=0)
    assert abs(mean[0] - 1e12 - known.mean()) < 2e-4  # as near as floats lie there
    assert np.abs(deviation[::3]).max() == 0
    assert abs(deviation.sum()) < 1


@pytest.mark.parametrize("shape", [(30, 5), (5, 30), (6, 6)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_principal_axes_are_the_singular_vectors(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    _, singular, rows = np.linalg.svd(x.astype(float), full_matrices=False)
    found, axes = principal_axes(x, lambda values: 3)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found, singular[:3] ** 2, rtol=tolerance)
    assert axes.shape == (shape[1], 3)
    np.testing.assert_allclose(np.abs(rows[:3] @ axes), np.eye(3), atol=tolerance * 10)


def test_the_number_of_axes_is_chosen_from_all_values_the_largest_first():
    seen: list[float] = []

    def only_the_first(values: np.ndarray) -> int:
        seen.extend(values)
        return 1

    found, axes = principal_axes(np.diag([3.0, 1.0, 2.0]), only_the_first)
    assert seen == pytest.approx([9, 4, 1])
    assert found == pytest.approx([9])
    np.testing.assert_allclose(np.abs(axes.ravel()), [1, 0, 0], atol=1e-12)


def test_directions_that_rows_in_single_precision_lack_are_zero():
    _, axes = principal_axes(np.array([[1, 1, 1], [0, 0, 0]], dtype=np.float32), lambda values: 2)
    assert np.isfinite(axes).all()


@pytest.mark.parametrize(
    ("array", "dtype", "shape", "fits"),
    [
        (np.zeros((2, 3)), np.float64, (2, 3), True),
        (np.zeros((2, 3)), np.float64, (None, 3), True),
        (np.zeros((2, 3)), np.float64, (2,), False),
        (np.zeros((2, 3)), np.float64, (2, 4), False),
        (np.zeros(3), np.float16, (3,), True),
        (np.zeros(3, dtype=np.int32), np.int64, (3,), True),
        (np.zeros(3), np.int64, (3,), False),
        (np.zeros(3, dtype=bool), np.float64, (3,), True),
        (np.zeros(3, dtype=complex), np.float64, (3,), False),
    ],
)
def test_stored_arrays_must_have_the_required_kind_and_shape(array, dtype, shape, fits):
    if fits:
        assert stored_array({"a": array}, "a", dtype, shape).dtype == dtype
    else:
        with pytest.raises(ValueError, match="a does not fit: an array of"):
            stored_array({"a": array}, "a", dtype, shape)
    with pytest.raises(KeyError):
        stored_array({}, "a", dtype, shape)
