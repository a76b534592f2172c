"""From scores to probabilities: on samples whose distribution is known, and against scipy's Fisher."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import combine_pvalues

from infrascope_core.anomalies.calibration import Calibration, Prior, shipped_prior, together
from infrascope_core.anomalies.detectors import DETECTORS

NAMES = ("a", "b", "c")
PRIOR = Prior(2.0, dict.fromkeys(NAMES, 0.5), {"g": 0.4})


def normal_scores(windows: int, seed: int) -> np.ndarray:
    """Scores of three detectors, each on a scale of its own; their logarithms have exponential tails."""
    common = np.random.default_rng(seed).exponential(size=(windows, 1))
    noise = np.random.default_rng(seed + 1).exponential(size=(windows, 3))
    return np.array([1.0, 100.0, 1e-3]) * np.exp(0.2 * (common + 0.3 * noise))


def learn(scores: np.ndarray, runs: int = 10) -> Calibration:
    return Calibration.learn(scores, np.arange(len(scores)) * runs // len(scores), NAMES[: scores.shape[1]], "g", PRIOR)


CALIBRATION = learn(normal_scores(40_000, seed=0), runs=40)


def surprisal_of_run(scores: np.ndarray, share: float = 0.1) -> np.ndarray:
    return CALIBRATION.surprisal(scores, CALIBRATION.level(scores, share))


def test_what_ships_knows_every_detector_and_group():
    prior = shipped_prior()
    assert set(prior.reach) == set(DETECTORS)
    assert set(prior.decay) == {detector.group for detector in DETECTORS.values()}


def test_one_run_says_nothing_and_the_prior_holds():
    scores = np.exp(np.arange(110.0))[:, None]
    learnt = learn(scores, runs=1)
    assert (learnt.reach.tolist(), learnt.decay) == ([0.5], 0.4)
    assert learnt.usual == pytest.approx([10.9])


def test_the_prior_counts_as_two_more_runs():
    # from the 10 % to the 90 % quantile of 0, 1, ..., 90 times 0.01 and ten far out it is 0.8, in each of four runs
    logs = np.r_[np.arange(91.0), np.arange(110.0, 200.0, 10.0), 200.0] * 0.01
    learnt = learn(np.exp(np.tile(logs, 4))[:, None], runs=4)
    assert learnt.reach == pytest.approx([np.exp((2 * np.log(0.5) + 4 * np.log(0.8)) / 6)])
    assert learnt.usual == pytest.approx([0.1])
    excess = (1.7 - 0.9) / learnt.reach[0] / np.log(0.1 / 0.03)
    assert learnt.decay == pytest.approx(np.exp((2 * np.log(0.4) + 4 * np.log(excess)) / 6))


def test_references_that_have_hardly_a_tail_shorten_the_priors_by_no_more_than_a_quarter():
    scores = np.exp(np.tile(np.arange(101.0) * 0.01, 50))[:, None]
    assert learn(scores, runs=50).decay == pytest.approx(0.75 * 0.4)


def test_many_runs_outweigh_the_prior():
    logs = 0.2 * np.random.default_rng(0).exponential(size=(100, 1_000, 1))
    learnt = learn(np.exp(logs.reshape(-1, 1)), runs=100)
    # of an exponential distribution: ln 9, and then its own mean
    assert learnt.reach == pytest.approx([0.2 * np.log(9)], rel=0.05)
    assert learnt.decay * learnt.reach[0] == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("seed", [10, 20, 30])
def test_surprisal_is_calibrated_on_fresh_normal_windows(seed):
    surprisal = surprisal_of_run(normal_scores(20_000, seed=seed))
    assert (surprisal > 1).mean() == pytest.approx(0.1, abs=0.02)
    assert (surprisal > 2).mean() == pytest.approx(0.01, abs=0.005)
    assert (surprisal > 3).mean() == pytest.approx(0.001, abs=0.001)


def test_a_run_that_scores_higher_throughout_is_not_more_surprising():
    scores = normal_scores(500, seed=5)
    np.testing.assert_allclose(surprisal_of_run(7.0 * scores), surprisal_of_run(scores), atol=1e-9)


def test_what_stands_out_for_most_of_a_run_still_does():
    """The quiet level is that of the quietest tenth."""
    scores = normal_scores(500, seed=5)
    scores[100:] *= 9.0
    surprisal = surprisal_of_run(scores)
    assert np.median(surprisal[100:]) > 3
    assert np.median(surprisal[:100]) < 1


def test_the_level_of_a_long_run_is_read_from_its_middle():
    scores = normal_scores(50_000, seed=6)
    tenth, half = CALIBRATION.level(scores, 0.1), CALIBRATION.level(scores, 0.5)
    np.testing.assert_allclose(half, tenth, atol=0.35 * CALIBRATION.reach.max())


def test_a_long_run_shows_its_own_reach_and_never_narrows_it():
    wide = np.random.default_rng(0).lognormal(0.0, 2.0, size=(5_000, 3))
    own = CALIBRATION.of_long_run(wide)
    assert (own.reach > 2 * CALIBRATION.reach).all()
    assert own.decay == CALIBRATION.decay
    narrow = CALIBRATION.of_long_run(np.exp(0.001 * np.random.default_rng(0).normal(size=(5_000, 3))))
    assert (narrow.reach == CALIBRATION.reach).all()
    assert CALIBRATION.of_long_run(wide[:10]) is CALIBRATION


def test_a_departure_is_how_far_a_score_is_above_the_quiet_level():
    unit = Calibration(np.array([4.0]), np.zeros(1), 0.4)
    departures = unit.weights(np.exp([[5.0], [9.0], [13.0], [1.0], [np.nan]]), np.array([5.0]))
    assert departures.ravel() == pytest.approx([0, 1, 2, 0, 0])


@settings(max_examples=50)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    st.integers(0, 2),
    st.floats(1.0, 1e3),
)
def test_a_higher_score_is_never_less_surprising(scores, which, factor):
    higher = np.array(scores)
    higher[which] *= factor
    lower_surprisal, higher_surprisal = CALIBRATION.surprisal(np.array([scores, higher]), np.zeros(3))
    assert higher_surprisal >= lower_surprisal >= 0


def test_a_detector_far_out_is_held_and_nothing_is_endless():
    scores = np.array([[1e300, 1.0, 1.0], [0.0, 0.0, 0.0], [1e300, 1e300, 1e300]])
    surprisal = CALIBRATION.surprisal(scores, np.zeros(3))
    assert np.isfinite(surprisal).all()
    assert surprisal.argmax() == 2
    assert surprisal[1] == 0


def test_unknown_scores_stay_unknown_and_are_not_learnt_from():
    scores = normal_scores(500, seed=0)
    surprisal = surprisal_of_run(np.vstack([[1.0, np.nan, 1.0], scores]))
    assert np.isnan(surprisal).tolist() == [True] + [False] * 500
    holes = np.vstack([scores, np.full((50, 3), np.nan), [[np.nan, 1e9, 1e9]]])
    run = np.r_[np.arange(500) // 100, np.zeros(51, dtype=np.int64)]
    ours = Calibration.learn(scores, run[:500], NAMES, "g", PRIOR).arrays()
    theirs = Calibration.learn(holes, run, NAMES, "g", PRIOR).arrays()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    nothing = np.full((4, 3), np.nan)
    assert (CALIBRATION.level(nothing, 0.1) == CALIBRATION.usual).all()


def test_windows_that_are_all_alike_have_a_steep_but_finite_tail():
    alike = learn(np.full((400, 2), 3.0), runs=4)
    same, above = alike.surprisal(np.array([[3.0, 3.0], [4.0, 4.0]]), np.log([3.0, 3.0]))
    assert same == 0
    assert 1 < above < np.inf


def test_arrays_survive_and_forgeries_do_not():
    stored = CALIBRATION.arrays()
    again = Calibration.from_arrays(stored, 3)
    new, level = normal_scores(100, seed=5), np.zeros(3)
    np.testing.assert_array_equal(again.surprisal(new, level), CALIBRATION.surprisal(new, level))
    for name, forged in (
        ("usual", np.zeros(2)),
        ("usual", np.full(3, np.nan)),
        ("reach", np.ones(4)),
        ("reach", np.zeros(3)),
        ("decay", np.array([0.0])),
        ("decay", np.array([np.inf])),
    ):
        with pytest.raises(ValueError, match=r"does not fit|not one of normal scores"):
            Calibration.from_arrays(stored | {name: forged}, 3)
    with pytest.raises(ValueError, match="does not fit"):
        Calibration.from_arrays(stored, 2)
    with pytest.raises(KeyError):
        Calibration.from_arrays({k: v for k, v in stored.items() if k != "decay"}, 3)


@given(st.lists(st.floats(0.0, 40.0), min_size=1, max_size=5))
def test_together_is_fishers_method(surprisals):
    peer = combine_pvalues(10.0 ** -np.array(surprisals), method="fisher").pvalue
    assert together(np.array([surprisals])) == pytest.approx([-np.log10(peer)], rel=1e-6, abs=1e-9)


def test_what_is_unknown_is_left_out_of_the_combination():
    nan = np.nan
    found = together(np.array([[2.0, nan], [nan, 2.0], [2.0, 2.0], [nan, nan], [300.0, 300.0]]))
    assert found[:2] == pytest.approx([2, 2])  # alone it stands for itself
    # Fisher's for p = q = 0.01: 1e-4 (1 - ln 1e-4)
    assert found[2] == pytest.approx(-np.log10(1e-4 * (1 - np.log(1e-4))))
    assert np.isnan(found[3])
    assert 590 < found[4] < 600  # below what a float can hold as a probability
