"""What every detector keeps to, whatever its method; the methods' own values are in one file each."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no stubs

from infrascope_core.anomalies.detectors import DETECTORS, Detector, calibration_groups, unfitted
from infrascope_core.anomalies.detectors.isolation_forest import IsolationForest
from infrascope_core.anomalies.detectors.mahalanobis import Mahalanobis
from infrascope_core.anomalies.detectors.sustained_deviation import SustainedDeviation
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import ANOMALY_SCORES

FEATURES, PLANTED, CONSTANT = 6, 2, 4
METRICS = ["a", "a", "b", "b", "c", "c"]
SETTINGS = DetectorSettings(trees=50)


def new_detector(name: str, metrics: list[str] = METRICS) -> Detector:
    (new,) = (d for d in unfitted(SETTINGS, metrics) if d.name == name)
    return new


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
    return new_detector(request.param).fit(normal())


def test_their_order_is_the_tables_order():
    assert list(DETECTORS) == [d.name for d in unfitted(SETTINGS, METRICS)]
    assert list(DETECTORS) == ["zscore", "mahalanobis", "isolation_forest", "bursts", "peaks"]
    assert calibration_groups(unfitted(SETTINGS, METRICS)) == [[0, 1, 2], [3, 4]]
    assert [name for name in ANOMALY_SCORES.schema if name in DETECTORS] == list(DETECTORS)


def test_they_have_names_of_their_own():
    """Lists of methods use the labels."""
    detectors = unfitted(SETTINGS, METRICS)
    assert len({d.label for d in detectors}) == len({d.about for d in detectors}) == len(detectors)


def test_only_sustained_deviation_looks_at_averages():
    assert {d.name: d.sees for d in unfitted(SETTINGS, METRICS)} == {
        "zscore": "instant",
        "mahalanobis": "instant",
        "isolation_forest": "instant",
        "bursts": "brief",
        "peaks": "smoothed",
    }


def test_settings_reach_them():
    settings = DetectorSettings(pca_variance=0.8, trees=7, random_state=5, peak_metrics=3)
    _, mahalanobis, forest, bursts, peaks = unfitted(settings, METRICS)
    assert isinstance(mahalanobis, Mahalanobis)
    assert isinstance(forest, IsolationForest)
    assert isinstance(peaks, SustainedDeviation)
    assert mahalanobis.variance == 0.8
    assert (forest.trees, forest.random_state) == (7, 5)
    assert isinstance(bursts, SustainedDeviation)
    assert bursts.top == peaks.top == 3
    assert peaks.starts.tolist() == [0, 2, 4]


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
    detector.explain(z)
    np.testing.assert_array_equal(z, before)


def test_rows_are_judged_one_by_one(detector):
    z = normal(200, seed=1)
    order = np.random.default_rng(2).permutation(len(z))
    np.testing.assert_allclose(detector.score(z[order]), detector.score(z)[order], rtol=1e-12)
    np.testing.assert_allclose(detector.explain(z[order]), detector.explain(z)[order], atol=1e-12)
    # and in blocks, of which these need two
    many = np.tile(z, (6, 1))
    np.testing.assert_allclose(detector.score(many), np.tile(detector.score(z), 6), rtol=1e-12)


def test_a_planted_deviation_raises_the_score_and_its_feature_explains_most(detector):
    calm = normal(5, seed=1)[:1]
    planted = calm.copy()
    planted[0, PLANTED] = 30.0
    assert detector.score(planted) > detector.score(calm)
    assert np.argmax(detector.explain(planted)) == PLANTED


@pytest.mark.parametrize("name", [name for name, d in DETECTORS.items() if d.group == "all features"])
def test_they_bear_that_the_planted_window_is_among_those_learnt_from(name):
    """As in the paper; sustained deviation does not: the largest that it has learnt is the range."""
    z = normal(200, seed=1)
    z[17, PLANTED] = 30.0
    detector = new_detector(name).fit(z)
    assert np.argmax(detector.score(z)) == 17
    assert np.argmax(detector.explain(z)[17]) == PLANTED


def test_explanations_split_the_score(detector):
    z = normal(100, seed=1)
    z[17, PLANTED] = 30.0
    split = detector.explain(z)
    assert split.shape == z.shape
    assert (split[np.isnan(z)] == 0).all()
    np.testing.assert_allclose(split.sum(axis=1), detector.score(z), rtol=1e-9)
    # only where features are expected to move together can one speak for a normal window
    assert (split >= 0).all() == (detector.name != "mahalanobis")


def test_a_window_without_features_has_no_score_and_no_reason(detector):
    z = normal(3, seed=1)
    z[1] = np.nan
    assert np.isnan(detector.score(z)).tolist() == [False, True, False]
    assert (detector.explain(z)[1] == 0).all()


def test_the_state_is_the_whole_model(detector):
    z = normal(50, seed=1)
    again = type(detector).from_state(detector.state(), FEATURES)
    np.testing.assert_array_equal(again.score(z), detector.score(z))
    np.testing.assert_array_equal(again.explain(z), detector.explain(z))


def test_threads_do_not_change_a_bit(detector):
    z = normal(300, seed=1)
    states = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            detector.fit(z)
            states.append([v.tobytes() for v in detector.state().values()] + [detector.score(z).tobytes()])
    assert states[0] == states[1]


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("shape", [(2, 50), (50, 2), (30, 1)])
def test_any_shape_can_be_learnt(name, shape):
    z = np.random.default_rng(0).normal(size=shape)
    fitted = new_detector(name, [f"m{i // 3}" for i in range(shape[1])]).fit(z)
    assert np.isfinite(fitted.score(z)).all()
    assert fitted.explain(z).shape == shape


def test_no_rows_give_no_scores(detector):
    none = np.empty((0, FEATURES))
    assert detector.score(none).shape == (0,)
    assert detector.explain(none).shape == (0, FEATURES)
