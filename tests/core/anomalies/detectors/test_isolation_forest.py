"""The forest against scikit-learn's own, and the explanation on a tree small enough to follow."""

import numpy as np
import pytest
from sklearn import ensemble

from infrascope_core.anomalies.detectors import IsolationForest
from infrascope_core.anomalies.detectors.base import damped


@pytest.mark.parametrize("windows", [1, 10, 200, 1000])
def test_scores_are_scikit_learns(windows):
    rng = np.random.default_rng(0)
    z, new = rng.normal(size=(windows, 7)), 3 * rng.normal(size=(5000, 7))
    z[:, 3] = 0.0
    peer = ensemble.IsolationForest(n_estimators=50, random_state=3).fit(damped(z).astype(np.float32))
    ours = IsolationForest(trees=50, random_state=3).fit(z)
    np.testing.assert_allclose(ours.score(new), -peer.score_samples(damped(new)), rtol=1e-12)


def one_split() -> IsolationForest:
    """One tree of 4 training windows: feature 1 <= 0.5 leaves 3 of them, above is the fourth alone."""
    c3 = 2 * (np.log(2) + np.euler_gamma) - 4 / 3
    c4 = 2 * (np.log(3) + np.euler_gamma) - 6 / 4
    return IsolationForest.from_state(
        {
            "roots": np.array([0]),
            "left": np.array([1, 1, 2]),
            "right": np.array([2, 1, 2]),
            "feature": np.array([1, 0, 0]),
            "threshold": np.array([0.5, -2.0, -2.0]),
            "length": np.array([(3 * (1 + c3) + 1) / 4, 1 + c3, 1.0]),
            "normal_length": np.array([c4]),
        },
        2,
    )


def test_the_path_length_makes_the_score_and_the_shortening_splits_it():
    alone, crowd = np.array([[9.0, 1.0]]), np.array([[9.0, 0.0]])
    c4 = 2 * (np.log(3) + np.euler_gamma) - 1.5
    assert one_split().score(alone) == pytest.approx([2 ** (-1 / c4)])
    np.testing.assert_allclose(one_split().explain(alone), [[0, 2 ** (-1 / c4)]])
    assert one_split().explain(crowd).tolist() == [[0.0, 0.0]]


def test_a_window_far_out_does_not_hide_the_others_from_the_splits():
    """Undamped, next to no split would fall between 0 and 5, with one training window at 1e6."""
    z = np.random.default_rng(0).normal(size=(256, 1))
    z[0] = 1e6
    near, far = IsolationForest(trees=50).fit(z).score(np.array([[0.0], [5.0]]))
    assert far > near + 0.2


def test_expected_lengths_are_the_training_windows_mean():
    z = np.random.default_rng(0).normal(size=(64, 3))
    forest = IsolationForest(trees=5).fit(z)
    node = forest.roots[0]
    below = [forest.left[node], forest.right[node]]
    assert min(forest.length[below]) < forest.length[node] < max(forest.length[below])


@pytest.mark.parametrize(
    "broken",
    [
        {"left": [0, 0, 2]},
        {"right": [3, 1, 2]},
        {"feature": [-1, 0, 0]},
        {"feature": [2, 0, 0]},
        {"roots": [5]},
        {"roots": []},
        {"length": [1.0]},
    ],
)
def test_arrays_that_are_not_trees_are_refused_before_any_walk(broken):
    state = one_split().state() | {k: np.array(v) for k, v in broken.items()}
    with pytest.raises(ValueError, match=r"forest|does not fit"):
        IsolationForest.from_state(state, 2)
