"""The test of co-occurrence: brute force over all shifts as oracle, and a sample of shifts as the other one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.patterns import co_occurrence
from infrascope_core.patterns.co_occurrence import Overlap, by_shift, chance_of_as_much


def sides(windows: int, antecedents: int, consequents: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((windows, antecedents)) < 0.4, rng.random((windows, consequents)) < 0.3


def shifted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Overlaps over all circular shifts of the right side."""
    return np.array([(left & np.roll(right, shift)).sum() for shift in range(len(left))])


@given(st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=60)
def test_mean_and_variance_are_those_over_all_shifts(windows, seed):
    left, right = sides(windows, 3, 2, seed)
    found = Overlap.of_run(left, right)
    for a in range(3):
        for c in range(2):
            overlaps = shifted(left[:, a], right[:, c])
            assert found.both[a, c] == overlaps[0]
            assert found.expected[a, c] == pytest.approx(overlaps.mean())
            assert found.variance[a, c] == pytest.approx(overlaps.var(), abs=1e-9)
            assert found.informative[a, c] == (overlaps.var() > 1e-9)
            shares = by_shift(left[:, [a]], right[:, [c]])[0]
            assert shares == pytest.approx(np.bincount(overlaps) / windows)


def test_runs_add_up_and_the_strongest_can_be_left_out():
    runs = [sides(50, 3, 2, seed) for seed in range(4)]
    strong = np.zeros((60, 3), dtype=bool)
    strong[10:20] = True
    runs.append((strong, strong[:, :2]))
    total = Overlap.nothing(3, 2)
    for left, right in runs:
        total.add(Overlap.of_run(left, right))
    each = [Overlap.of_run(left, right) for left, right in runs]
    excess = sum(run.both - run.expected for run in each)
    variance = sum(run.variance for run in each)
    assert total.z == pytest.approx(excess / np.sqrt(variance))
    others = each[:-1]
    rest = sum(run.both - run.expected for run in others) / np.sqrt(sum(run.variance for run in others))
    assert total.z_without_strongest == pytest.approx(rest)
    assert (total.present <= 5).all() and (total.informative == 5).all()


def test_a_side_that_does_not_vary_is_not_informative():
    left = np.ones((20, 1), dtype=bool)
    right = np.arange(20)[:, None] < 5
    found = Overlap.of_run(left, right)
    assert [float(part.item()) for part in (found.both, found.expected, found.informative, found.z)] == [5, 5, 0, 0]
    assert Overlap.nothing(1, 1).z.item() == 0


def test_the_probability_is_that_of_shifting_each_run_by_itself():
    """Against a million draws of independent shifts."""
    runs = [sides(windows, 1, 1, seed) for windows, seed in ((30, 1), (41, 2), (64, 3), (25, 4))]
    overlaps = [shifted(left[:, 0], right[:, 0]) for left, right in runs]
    rng = np.random.default_rng(0)
    drawn = sum(rng.choice(each, 1_000_000) for each in overlaps)
    shares = [by_shift(left, right)[0] for left, right in runs]
    for observed in range(int(drawn.min()), int(drawn.max())):
        share = np.mean(drawn >= observed)
        assert chance_of_as_much(observed, shares) == pytest.approx(share, rel=0.05, abs=1e-5)


def test_the_probability_is_never_0_and_sums_to_1():
    block = np.arange(400)[:, None] < 40
    shares = by_shift(block, block) * 8
    assert chance_of_as_much(8 * 40, shares) == pytest.approx(1e-12, rel=1e-6)  # 400 to the -8, which is not told apart
    assert chance_of_as_much(40, shares[:1]) == pytest.approx(1 / 400)
    assert chance_of_as_much(0, shares) == pytest.approx(1.0)
    assert chance_of_as_much(0, []) == 1.0


@pytest.mark.parametrize("windows", [2, 97, 491, 4_096, 32_749])
def test_single_precision_counts_windows_as_double_does(monkeypatch, windows):
    """Of a length that is a prime, and of stretches that hold nearly always, errors are largest."""
    rng = np.random.default_rng(windows)
    left = np.repeat(rng.random((windows // 40 + 1, 3)) < (0.03, 0.5, 0.98), 40, axis=0)[:windows]
    right = rng.random((windows, 3)) < (0.5, 0.98, 0.98)
    single = by_shift(left, right)
    monkeypatch.setattr(co_occurrence, "_SINGLE", 0)
    assert all(np.array_equal(a, b) for a, b in zip(single, by_shift(left, right), strict=True))
    # a consequent that several pairs share is transformed once
    shared = by_shift(left, right, np.array([2, 0, 0]))
    assert all(np.array_equal(a, b) for a, b in zip(shared, by_shift(left, right[:, [2, 0, 0]]), strict=True))
