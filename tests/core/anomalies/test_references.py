"""Nearest reference windows: on features that fit on a hand, and against a search through all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.anomalies.references import References

NAN = np.nan


def library(
    runs: dict[str, list[list[float]]], band: tuple[int, float] | None = None, overlap: int = 3
) -> tuple[References, np.ndarray, list[str], np.ndarray]:
    """A library of runs by name, windows in order; and its windows, run keys and places."""
    z = np.array([window for windows in runs.values() for window in windows], dtype=float)
    keys = [key for key, windows in runs.items() for _ in windows]
    place = np.array([number for windows in runs.values() for number in range(len(windows))])
    return References.learn(z, keys, place, band, overlap), z, keys, place


def courses(*levels: float) -> list[list[float]]:
    """Windows of one feature."""
    return [[level] for level in levels]


def expected(references: References, levels: list[float], run: str = "new", first: int = 0) -> list[float]:
    """What is expected of windows of one feature."""
    z = np.array(courses(*levels), dtype=float)
    return references.expected(z, [run] * len(z), np.arange(first, first + len(z))).ravel().tolist()


def test_the_nearest_window_is_expected_not_the_average():
    references, *_ = library({"r1": [[0, 0], [4, -2]], "r2": [[0.5, 0], [4, 2]]})
    new = np.array([[0.1, 0.0], [3.0, 1.5], [5.0, -2.0]])
    found = references.expected(new, ["new"] * 3, np.arange(3))
    assert found.tolist() == [[0, 0], [4, 2], [4, -2]]


def test_a_reference_is_never_compared_with_its_own_run():
    references, z, keys, place = library({"r1": courses(0, 1, 2), "r2": courses(0.25, 1.25, 4)})
    assert references.expected(z, keys, place).ravel().tolist() == [0.25, 1.25, 1.25, 0, 1, 2]


def test_the_only_run_is_compared_with_its_windows_that_share_no_sample():
    references, z, keys, place = library({"only": courses(0, 1, 2, 3, 4, 5)}, overlap=3)
    # windows 2 and 3 lie three or more places from one end each
    assert references.expected(z, keys, place).ravel().tolist() == [3, 4, 5, 0, 1, 2]
    assert expected(references, [2, 3]) == [2, 3]  # of another run, all may serve


def test_where_nothing_may_serve_the_location_is_expected():
    references, z, keys, place = library({"only": courses(1, 2, 3)}, overlap=3)
    assert references.expected(z, keys, place).ravel().tolist() == [0, 0, 0]


def test_a_band_keeps_the_search_near_the_same_place():
    levels = [0.0] * 30
    levels[0], levels[25] = 4.0, 3.0
    run = {"r": courses(*levels)}
    anywhere, narrow = library(run, None)[0], library(run, (2, 0.0))[0]
    assert expected(anywhere, [4], first=25) == [4]
    assert expected(narrow, [4], first=25) == [3]
    assert expected(narrow, [4], first=27) == [3]
    assert expected(narrow, [4], first=28) == [0]
    assert expected(narrow, [4], first=2) == [4]
    # or a share of the place, where that is more: 28 / 4 places back is 21
    assert expected(library(run, (2, 0.1))[0], [4], first=28) == [0]
    assert expected(library(run, (2, 0.25))[0], [4], first=28) == [3]


def test_what_is_beyond_the_end_of_every_reference_is_compared_with_all_of_them():
    references, *_ = library({"short": courses(0, 0, 1), "long": courses(0, 0, 0, 0, 2)}, band=(0, 0.0))
    assert expected(references, [1, 1, 1], first=4) == [2, 1, 1]


def test_missing_values_are_not_deviations_in_the_search_nor_in_the_expected_values():
    references, *_ = library({"r1": [[3, NAN], [0, 2]], "r2": [[-3, 0], [0, -2]]})
    new = np.array([[3.5, NAN], [NAN, 2.5], [NAN, NAN]])
    found = references.expected(new, ["new"] * 3, np.arange(3))
    assert found[:2].tolist() == [[3, 0], [0, 2]]
    assert np.isfinite(found).all()


def test_a_feature_far_from_everything_does_not_decide_what_is_similar():
    references, *_ = library({"r1": [[9, 4, 4]], "r2": [[6, 0, 0]]})
    assert references.expected(np.array([[90.0, 1, 1]]), ["new"], np.array([0])).tolist() == [[6, 0, 0]]


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([None, (1, 0.0), (2, 0.5)]))
def test_a_search_through_all_windows_finds_none_nearer(seed, features, band):
    rng = np.random.default_rng(seed)
    runs = {f"r{i}": rng.normal(size=(rng.integers(1, 7), features)).tolist() for i in range(3)}
    references, z, keys, place = library(runs, band)
    new, new_keys = np.vstack([z, rng.normal(size=(3, features))]), [*keys, "new", "new", "new"]
    new_place = np.concatenate([place, [0, 3, 9]])
    found = references.expected(new, new_keys, new_place)
    for window, key, at, nearest in zip(new, new_keys, new_place, found, strict=True):
        others = np.array([k != key for k in keys])
        apart = np.abs(place - at)
        if band is not None:
            near = others & (apart <= max(band[0], int(band[1] * at)))
            others = near if near.any() else others
        distances = np.linalg.norm(window - z[others], axis=1)
        assert np.linalg.norm(window - nearest) == pytest.approx(distances.min(), abs=0.01)


def test_more_windows_than_are_looked_up_at_once():
    rng = np.random.default_rng(0)
    references, *_ = library({"r1": rng.normal(size=(40, 3)).tolist(), "r2": rng.normal(size=(40, 3)).tolist()})
    new = rng.normal(size=(1200, 3))
    whole = references.expected(new, ["new"] * 1200, np.arange(1200))
    some = references.expected(new[700:710], ["new"] * 10, np.arange(700, 710))
    np.testing.assert_array_equal(whole[700:710], some)


def test_wide_and_tall_libraries_know_their_principal_axes():
    rng = np.random.default_rng(0)
    for shape in ((10, 100), (300, 90)):
        references = References.learn(rng.normal(size=shape), ["a"] * shape[0], np.arange(shape[0]), None, 3)
        assert references.basis.shape == (shape[1], min(64, shape[0]))
        products = references.basis.T @ references.basis
        np.testing.assert_allclose(products, np.eye(len(products)), atol=1e-4)


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    references, z, keys, place = library({f"r{i}": rng.normal(size=(20, 4)).tolist() for i in range(4)}, (3, 0.1))
    order = rng.permutation(len(z))
    found = references.expected(z[order], [keys[i] for i in order], place[order])
    np.testing.assert_array_equal(found, references.expected(z, keys, place)[order])


@pytest.mark.parametrize("band", [None, (10, 0.1)])
def test_arrays_survive(band):
    rng = np.random.default_rng(0)
    references, z, keys, place = library({"r1": rng.normal(size=(9, 2)).tolist(), "r-ä": [[NAN, 1e-3]]}, band, 5)
    again = References.from_arrays(references.arrays(), 2)
    assert (again.runs, again.band, again.overlap) == (("r-ä", "r1"), band, 5)
    np.testing.assert_array_equal(again.expected(z, keys, place), references.expected(z, keys, place))
    for name, value in references.arrays().items():
        assert again.arrays()[name].tobytes() == value.tobytes()


def test_windows_are_kept_in_half_precision():
    references, *_ = library({"r": [[1 / 3, 100, NAN]]})
    assert references.z.dtype == np.float16
    found = references.expected(np.array([[1 / 3, 100, 5]]), ["new"], np.array([0]))
    assert found.tolist() == [[float(np.float16(1 / 3)), 100, 0]]


@pytest.mark.parametrize(
    "forged",
    [
        {"z": np.zeros((3, 4))},
        {"z": np.zeros((2, 3))},
        {"z": np.full((3, 3), np.inf)},
        {"z": np.zeros((0, 3)), "run": np.zeros(0), "place": np.zeros(0)},
        {"run": np.array([0, 1, 2])},
        {"run": np.array([-1, 0, 1])},
        {"place": np.array([0, 1])},
        {"basis": np.zeros((2, 2))},
        {"basis": np.zeros(3)},
        {"band": np.array([1.0])},
        {"band": np.array([NAN, 0.1])},
        {"runs": np.array([255, 254], dtype=np.uint8)},
        {"overlap": np.zeros(0)},
    ],
    ids="-".join,
)
def test_arrays_that_do_not_fit_are_refused(forged):
    references, *_ = library({"r1": [[1, 2, 3], [4, 5, 6]], "r2": [[0, 1, 0]]})
    with pytest.raises(ValueError, match=r"not fit|decode"):
        References.from_arrays(references.arrays() | forged, 3)
    with pytest.raises(KeyError):
        References.from_arrays({k: v for k, v in references.arrays().items() if k not in forged}, 3)
