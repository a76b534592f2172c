"""Likeness of runs: warping by hand and by brute force, resampling, and a test that holds its level."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.studies.run_similarity import _distance, resampled, similarity
from infrascope_core.studies.settings import SimilaritySettings

SETTINGS = SimilaritySettings(points=100)


def warping_by_definition(a: np.ndarray, b: np.ndarray, window: int) -> float:
    """Root mean square difference along the best path; sample i meets sample j only where |i - j| < window."""
    cost = np.full((len(a) + 1, len(b) + 1), np.inf)
    cost[0, 0] = 0
    for i in range(len(a)):
        for j in range(max(0, i - window + 1), min(len(b), i + window)):
            cost[i + 1, j + 1] = (a[i] - b[j]) ** 2 + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
    return float(np.sqrt(cost[-1, -1] / len(a)))


@pytest.mark.parametrize("window", [1, 3, 30])
def test_distances_are_those_of_the_definition(window):
    a, b = np.random.default_rng(1).normal(size=(2, 30))
    assert _distance(a, b, window) == pytest.approx(warping_by_definition(a, b, window), rel=1e-12)


def test_a_delay_within_the_band_costs_nothing():
    a, b = np.eye(20)[5], np.eye(20)[7]
    assert _distance(a, b, window=4) == 0
    assert _distance(a, b, window=1) == pytest.approx(np.sqrt(2 / 20))


@pytest.mark.parametrize(
    ("values", "points", "expected"),
    [
        ([1, 3, 5, 7], 2, [2, 6]),
        ([1, 3, 5, 7], 4, [1, 3, 5, 7]),
        ([1, np.nan, 5, 7], 2, [1, 6]),  # a share with one known sample
        ([1, np.inf, 5, 7], 2, [1, 6]),
        ([1, 1, np.nan, np.nan, 5, 5], 3, [1, 3, 5]),  # a share without any is interpolated
        ([1, 1] + [np.nan] * 6, 4, [np.nan] * 4),  # three of four shares unknown
        ([4, 8], 4, [4, 4, 8, 8]),  # fewer samples than points
    ],
)
def test_resampling(values, points, expected):
    np.testing.assert_allclose(resampled(np.array(values, dtype=float)[:, None], points)[:, 0], expected)


def runs_of(n: int, seed: int, course: float, points: int = 100) -> np.ndarray:
    """Runs that share a course (a ramp and a plateau) under noise of their own."""
    shared = np.minimum(np.linspace(0, 3, points), 1) * 3
    return course * shared + np.random.default_rng(seed).normal(size=(n, points))


def test_runs_with_a_common_course_are_similar():
    found = similarity(runs_of(8, 0, course=1.0), SETTINGS)
    assert (found.runs, found.similar) == (8, True)
    assert found.p_value == pytest.approx(2 / 2**8)  # all eight nearer: the least there is for 8 runs
    assert found.distance < found.reference


def test_runs_with_nothing_in_common_are_rarely_called_similar():
    """Noise alone: about as often as the level of the test says (one in twenty of both sides)."""
    found = [similarity(runs_of(8, seed, course=0.0), SETTINGS) for seed in range(40)]
    assert sum(bool(f.similar) for f in found) <= 3
    assert sum(f.distance < f.reference for f in found) in range(10, 31)


def test_below_six_runs_no_p_value_is_possible():
    found = similarity(runs_of(5, 0, course=1.0), SETTINGS)
    assert (found.p_value, found.similar) == (None, None)
    assert found.distance < found.reference


def test_the_farthest_run_and_runs_without_the_metric():
    traces = runs_of(7, 0, course=1.0)
    traces[3] = np.nan
    traces[5] += 8
    found = similarity(traces, SETTINGS)
    assert (found.runs, found.farthest) == (6, 5)


def test_a_run_does_not_pull_the_median_it_is_compared_with():
    """Of two runs each is compared with the other alone: a difference of 2 in a spread of 1."""
    traces = np.stack([np.zeros(100), np.full(100, 2.0)])
    assert similarity(traces, SETTINGS).distance == pytest.approx(2.0)


def test_nothing_to_compare():
    assert similarity(np.ones((7, 100)), SETTINGS) is None
    assert similarity(np.arange(100.0)[None], SETTINGS) is None
    assert similarity(np.full((7, 100), np.nan), SETTINGS) is None


def test_runs_that_are_equal_to_the_last_digit():
    """No difference to rank: distances are 0, but so are none of the references."""
    same = np.tile(np.linspace(0, 1, 100), (6, 1))
    found = similarity(same, SETTINGS)
    assert (found.distance, found.similar) == (0.0, True)


def test_units_do_not_matter_and_large_offsets_keep_their_digits():
    traces = runs_of(7, 2, course=1.0)
    plain, scaled = similarity(traces, SETTINGS), similarity(1e12 + traces * 1024, SETTINGS)
    assert scaled.p_value == plain.p_value
    assert scaled.distance == pytest.approx(plain.distance, rel=1e-4)
