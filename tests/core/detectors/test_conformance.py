"""What every detector keeps to, whatever its method; the methods' own values are in one file each."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from infrascope_core.detectors import DETECTORS, Detector, unfitted
from infrascope_core.settings import DetectorSettings

FEATURES, PLANTED, CONSTANT = 6, 2, 4


def normal(windows: int = 400, seed: int = 0) -> np.ndarray:
    """Standardised windows: correlated features, one constant, holes, and one column nobody sees."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(windows, 2)) @ np.ones((2, FEATURES)) / 2 + rng.normal(size=(windows, FEATURES))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    z[:, CONSTANT] = 0.0
    z[rng.random(z.shape) < 0.03] = np.nan
    z[:, FEATURES - 1] = np.nan
    return z


@pytest.fixture(params=list(DETECTORS))
def detector(request) -> Detector:
    (new,) = (d for d in unfitted(DetectorSettings()) if d.name == request.param)
    return new.fit(normal())


def test_their_order_is_the_tables_order():
    assert list(DETECTORS) == [d.name for d in unfitted(DetectorSettings())]
    assert list(DETECTORS) == ["zscore", "mahalanobis", "isolation_forest"]


def test_scores_are_finite_one_a_window_and_at_least_zero(detector):
    scores = detector.score(normal(57, seed=1))
    assert scores.shape == (57,)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()


def test_fitting_and_scoring_leave_the_input_alone(detector):
    z = normal()
    before = z.copy()
    detector.fit(z)
    detector.score(z)
    detector.contributions(z)
    np.testing.assert_array_equal(z, before)


def test_rows_are_judged_one_by_one(detector):
    z = normal(200, seed=1)
    order = np.random.default_rng(2).permutation(len(z))
    np.testing.assert_allclose(detector.score(z[order]), detector.score(z)[order], rtol=1e-12)
    np.testing.assert_allclose(detector.contributions(z[order]), detector.contributions(z)[order], atol=1e-12)


def test_the_planted_window_scores_highest_and_its_feature_contributes_most(detector):
    """As in the paper the window is among those learnt from; contamination is what detectors must bear."""
    z = normal(200, seed=1)
    z[17, PLANTED] = 30.0
    detector.fit(z)
    assert np.argmax(detector.score(z)) == 17
    assert np.argmax(detector.contributions(z)[17]) == PLANTED


def test_contributions_split_the_score(detector):
    z = normal(100, seed=1)
    z[17, PLANTED] = 30.0
    split = detector.contributions(z)
    assert split.shape == z.shape
    assert (split >= 0).all()
    assert (split[np.isnan(z)] == 0).all()
    np.testing.assert_allclose(split.sum(axis=1), detector.score(z), rtol=1e-9)


def test_a_window_without_features_has_no_score_and_no_reason(detector):
    z = normal(3, seed=1)
    z[1] = np.nan
    assert np.isnan(detector.score(z)).tolist() == [False, True, False]
    assert (detector.contributions(z)[1] == 0).all()


def test_the_state_is_the_whole_model(detector):
    z = normal(50, seed=1)
    again = type(detector).from_state(detector.state())
    np.testing.assert_array_equal(again.score(z), detector.score(z))
    np.testing.assert_array_equal(again.contributions(z), detector.contributions(z))


def test_threads_do_not_change_a_bit(detector):
    z = normal(300, seed=1)
    states = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            detector.fit(z)
            states.append([v.tobytes() for v in detector.state().values()] + [detector.score(z).tobytes()])
    assert states[0] == states[1]


@pytest.mark.parametrize("shape", [(2, 50), (50, 2), (30, 1)])
def test_any_shape_can_be_learnt(detector, shape):
    z = np.random.default_rng(0).normal(size=shape)
    assert np.isfinite(detector.fit(z).score(z)).all()


def test_no_rows_give_no_scores(detector):
    none = np.empty((0, FEATURES))
    assert detector.score(none).shape == (0,)
    assert detector.contributions(none).shape == (0, FEATURES)
