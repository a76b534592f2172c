"""Location and scale by place in the run; written out for matrices that fit on a hand."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.standardisation import LARGEST_Z, Moments, fit_moments

NAN = np.nan


def runs(*rows: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Runs of one feature as (windows x 1, window numbers)."""
    return (
        np.array([[value] for row in rows for value in row]),
        np.array([number for row in rows for number in range(len(row))]),
    )


def test_openings_are_judged_by_openings():
    x, window = runs([90, 1, 3], [110, 1, 3])
    moments, keep = fit_moments(x, window, openings=1)
    assert keep.all()
    assert moments.location == [2]
    assert moments.scale == [1]
    # mean of the two openings is 100; with two runs it counts half, the general mean of 2 the other half
    assert moments.opening_location == [[51]]
    assert moments.opening_scale[0, 0] == pytest.approx(np.sqrt((39**2 + 59**2) / 2))
    assert moments.expected(np.array([0, 1, 7])).ravel().tolist() == [51, 2, 2]
    assert moments.standardise(np.array([[51.0], [3.0]]), np.array([0, 5])).ravel().tolist() == [0, 1]


def test_a_single_run_cannot_vouch_for_its_own_start():
    x, window = runs([90, 1, 3])
    moments, _ = fit_moments(x, window, openings=1)
    assert moments.opening_location == moments.location
    assert moments.standardise(x, window)[0, 0] == 88


def test_without_openings_it_is_mean_and_standard_deviation():
    rng = np.random.default_rng(0)
    x, window = rng.normal(5, 2, (50, 300)), np.arange(50)  # wider than one piece
    moments, keep = fit_moments(x, window, openings=0)
    assert keep.all()
    assert moments.location == pytest.approx(x.mean(axis=0))
    assert moments.scale == pytest.approx(x.std(axis=0))


def test_runs_of_nothing_but_openings_still_have_a_baseline():
    x, window = runs([1, 3], [2, 4], [1, 5])
    moments, keep = fit_moments(x, window, openings=3)
    assert keep.all()
    assert moments.location[0] == pytest.approx(x.mean())
    assert np.isfinite(moments.standardise(x, window)).all()


@pytest.mark.parametrize(
    ("rows", "judged"),
    [
        ([[0, 7, 7, 7]], False),  # moves in the opening only
        ([[1e12, 1e12 + 1, 1e12, 1e12 + 1]], False),  # rounding, beside its magnitude
        ([[1e9, 1e9 + 10, 1e9, 1e9 + 10]], True),
        ([[1, NAN, 3, NAN, 5, 6]], True),
        ([[1, NAN, 3, NAN, NAN, NAN]], False),
    ],
)
def test_what_can_be_judged(rows, judged):
    _, keep = fit_moments(*runs(*rows), openings=1)
    assert keep.tolist() == [judged]


def test_missing_stays_missing_and_nothing_is_endless():
    moments = Moments(np.zeros(2), np.full(2, 1e-300), np.zeros((0, 2)), np.ones((0, 2)))
    z = moments.standardise(np.array([[1.0, NAN]]), np.array([0]))
    assert z[0, 0] == LARGEST_Z
    assert np.isnan(z[0, 1])


def test_arrays_survive_and_forgeries_do_not():
    moments, _ = fit_moments(*runs([90, 1, 3], [110, 1, 3]), openings=1)
    arrays = dict(moments.arrays())
    assert Moments.from_arrays(arrays, 1).arrays() == arrays
    for forged in ({"scale": np.zeros(1)}, {"location": np.ones(2)}, {"opening_scale": np.full((1, 1), NAN)}):
        with pytest.raises(ValueError, match="does not fit"):
            Moments.from_arrays(arrays | forged, 1)
    with pytest.raises(KeyError):
        Moments.from_arrays({k: v for k, v in arrays.items() if k != "scale"}, 1)
