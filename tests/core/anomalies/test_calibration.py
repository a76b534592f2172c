"""From scores to probabilities: on samples whose distribution is known, and against scipy's Fisher."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import combine_pvalues

from infrascope_core.anomalies.calibration import Calibration, together


def normal_scores(windows: int, seed: int) -> np.ndarray:
    """Scores of three detectors, each on a scale of its own; their logarithms have exponential tails."""
    common = np.random.default_rng(seed).exponential(size=(windows, 1))
    noise = np.random.default_rng(seed + 1).exponential(size=(windows, 3))
    return np.array([1.0, 100.0, 1e-3]) * np.exp(0.2 * (common + 0.3 * noise))


CALIBRATION = Calibration.learn(normal_scores(4_000, seed=0))


def test_median_and_ninetieth_percentile_of_the_logarithms_are_learnt():
    scores = np.exp(np.arange(11.0))[:, None]
    learnt = Calibration.learn(scores)
    assert learnt.middle == pytest.approx([5])
    assert learnt.reach == pytest.approx([4])
    assert learnt.combine(np.exp([[5.0], [9.0], [1.0]])) == pytest.approx([0, 1, -1])
    assert learnt.count == 11
    # the 90th percentile of -1.25, -1, ..., 1.25 is 1, and the 95th, half way to its end, 1/8 beyond
    assert learnt.start == pytest.approx(1, abs=2e-3)
    assert learnt.decay == pytest.approx(0.125 / np.log(2), abs=4e-3)


def test_a_departure_is_how_far_a_score_is_above_a_median_windows():
    learnt = Calibration.learn(np.exp(np.arange(11.0))[:, None])
    departures = learnt.weights(np.exp([[5.0], [9.0], [13.0], [1.0], [np.nan]]))
    assert departures.ravel() == pytest.approx([0, 1, 2, 0, 0])


def test_a_median_window_is_as_surprising_as_one_of_two():
    combined = CALIBRATION.surprisal(normal_scores(4_001, seed=0))
    assert np.median(combined) == pytest.approx(np.log10(2), abs=0.01)


@pytest.mark.parametrize("seed", [10, 20, 30])
def test_surprisal_is_calibrated_on_fresh_normal_windows(seed):
    surprisal = CALIBRATION.surprisal(normal_scores(20_000, seed=seed))
    assert np.median(surprisal) == pytest.approx(0.3, abs=0.03)
    assert (surprisal > 1).mean() == pytest.approx(0.1, abs=0.015)
    assert (surprisal > 2).mean() == pytest.approx(0.01, abs=0.004)
    assert (surprisal > 3).mean() == pytest.approx(0.001, abs=0.001)


def test_one_odd_run_of_several_does_not_set_the_scale():
    calm, odd = normal_scores(200, seed=0), 50.0 * normal_scores(200, seed=1)
    runs = np.repeat([0, 1, 2, 3], 200)
    alike = Calibration.learn(np.concatenate([calm] * 4), runs)
    three_and_one = Calibration.learn(np.concatenate([calm, odd, calm, calm]), runs)
    np.testing.assert_allclose(three_and_one.grid, alike.grid)
    # without telling runs apart, what is odd becomes normal
    assert Calibration.learn(np.concatenate([calm, odd, calm, calm])).surprisal(odd).mean() < 1.5
    assert three_and_one.surprisal(odd).mean() > 10


def test_rare_events_of_healthy_runs_do_not_set_the_scale():
    clean = normal_scores(1_000, seed=0)
    eventful = clean.copy()
    eventful[:10] *= 1e6
    strange = np.full((1, 3), 3.0) * np.median(clean, axis=0)
    ours, theirs = Calibration.learn(clean).surprisal(strange), Calibration.learn(eventful).surprisal(strange)
    assert theirs == pytest.approx(ours, rel=0.15)


@settings(max_examples=50)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    st.integers(0, 2),
    st.floats(1.0, 1e3),
)
def test_a_higher_score_is_never_less_surprising(scores, which, factor):
    higher = np.array(scores)
    higher[which] *= factor
    lower_surprisal, higher_surprisal = CALIBRATION.surprisal(np.array([scores, higher]))
    assert higher_surprisal >= lower_surprisal >= 0


def test_a_detector_far_out_is_held_and_nothing_is_endless():
    surprisal = CALIBRATION.surprisal(np.array([[1e300, 1.0, 1.0], [0.0, 0.0, 0.0], [1e300, 1e300, 1e300]]))
    assert np.isfinite(surprisal).all()
    assert surprisal.argmax() == 2
    assert surprisal[1] == pytest.approx(0)


def test_unknown_scores_stay_unknown_and_are_not_learnt_from():
    scores = normal_scores(500, seed=0)
    surprisal = CALIBRATION.surprisal(np.array([[1.0, np.nan, 1.0], scores[0]]))
    assert np.isnan(surprisal).tolist() == [True, False]
    holes = np.vstack([scores, np.full((50, 3), np.nan), [[np.nan, 1e9, 1e9]]])
    ours, theirs = Calibration.learn(scores).arrays(), Calibration.learn(holes).arrays()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_windows_that_are_all_alike_have_a_steep_but_finite_tail():
    alike = Calibration.learn(np.full((100, 2), 3.0))
    same, above = alike.surprisal(np.array([[3.0, 3.0], [3.3, 3.3]]))
    assert same <= 1 < above
    assert np.isfinite(above)


def test_arrays_survive_and_forgeries_do_not():
    stored = CALIBRATION.arrays()
    again = Calibration.from_arrays(stored, 3)
    new = normal_scores(100, seed=5)
    np.testing.assert_array_equal(again.surprisal(new), CALIBRATION.surprisal(new))
    for name, forged in (
        ("middle", np.zeros(2)),
        ("middle", np.full(3, np.nan)),
        ("reach", np.ones(4)),
        ("reach", np.zeros(3)),
        ("grid", np.zeros(7)),
        ("count", np.array([np.inf])),
        ("count", np.array([-1.0])),
        ("decay", np.array([0.0])),
        ("start", np.array([np.nan])),
    ):
        with pytest.raises(ValueError, match="does not fit"):
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
