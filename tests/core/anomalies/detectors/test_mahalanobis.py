"""Mahalanobis of damped deviations by hand, and against the textbook formula and scikit-learn's PCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from infrascope_core.anomalies.detectors import Mahalanobis
from infrascope_core.anomalies.detectors.base import damped


def test_damping_keeps_order_and_sign_and_little_of_what_is_far_out():
    np.testing.assert_allclose(damped(np.array([0.0, 1.0, -1.0, 99.0])), np.log([1, 2, 0.5, 100]))


def test_uncorrelated_features_by_hand():
    """Two features, damped of variance 16 / 3: a window damped to (2, 1) is sqrt(5 / (16 / 3)) away."""
    one, two = np.expm1(1.0), np.expm1(2.0)
    z = np.array([[two, two], [two, -two], [-two, two], [-two, -two]])
    fitted = Mahalanobis(variance=1.0).fit(z)
    assert fitted.score(np.array([[two, one]])) == pytest.approx([(15 / 16) ** 0.5])
    np.testing.assert_allclose(
        fitted.explain(np.array([[two, one]])), [[0.8 * (15 / 16) ** 0.5, 0.2 * (15 / 16) ** 0.5]]
    )


def test_a_feature_that_moves_as_the_others_lead_one_to_expect_speaks_for_a_normal_window():
    """Covariance [[2, 1], [1, 2]] of damped features: at (4, 1) the squared distance is 28 / 3 - 2 / 3."""
    values, vectors = np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) * np.sqrt(3 / 4)
    training = corners @ (vectors * np.sqrt(values)).T
    fitted = Mahalanobis(variance=1.0).fit(undamped(training))
    window = undamped(np.array([[4.0, 1.0]]))
    distance = np.sqrt(26 / 3)
    assert fitted.score(window) == pytest.approx([distance])
    np.testing.assert_allclose(fitted.explain(window), [[28 / 3 / distance, -2 / 3 / distance]], rtol=1e-6)


def undamped(y: np.ndarray) -> np.ndarray:
    return np.sign(y) * np.expm1(np.abs(y))


def test_with_all_components_it_is_the_textbook_distance():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    y = damped(z) - damped(z).mean(axis=0)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", y, np.linalg.inv(np.cov(y.T)), y))
    np.testing.assert_allclose(Mahalanobis(variance=1.0).fit(z).score(z), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(300, 20), (5000, 10), (40, 90)], ids=["tall", "taller than a block", "wide"])
def test_the_subspace_is_scikit_learns(shape):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(shape[0], 8)) @ rng.normal(size=(8, shape[1])) + 0.1 * rng.normal(size=shape)
    pca = PCA(n_components=0.95, svd_solver="full").fit(damped(z))
    fitted = Mahalanobis(variance=0.95, windows=shape[0]).fit(z)
    assert fitted.projection.shape == (shape[1], pca.n_components_)
    t = pca.transform(damped(z)) / np.sqrt(pca.explained_variance_)
    np.testing.assert_allclose(fitted.score(z), np.sqrt((t**2).sum(axis=1)), rtol=1e-5)


def test_breaking_a_correlation_is_abnormal_though_each_feature_is_not():
    x = np.random.default_rng(0).normal(size=(500, 1))
    z = np.hstack([x, x + 0.3 * np.random.default_rng(1).normal(size=(500, 1))])
    together, apart = Mahalanobis(variance=1.0).fit(z).score(np.array([[1.5, 1.5], [1.5, -1.5]]))
    assert apart > 5 * together


def test_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        Mahalanobis.from_state({"centre": np.zeros(3), "projection": np.zeros((2, 1))}, 3)


def test_windows_that_never_differ_have_no_distance():
    assert Mahalanobis().fit(np.zeros((5, 3))).score(np.ones((2, 3))).tolist() == [0.0, 0.0]


def test_every_third_of_overlapping_windows_gives_nearly_the_same_distances():
    rng = np.random.default_rng(0)
    course = np.cumsum(rng.normal(size=(3600, 12)), axis=0)
    signal = course - np.convolve(course[:, 0], np.ones(400) / 400, "same")[:, None]
    z = (signal @ rng.normal(size=(12, 60)) / 10 + rng.normal(size=(3600, 60))) / 2
    z = np.stack([z[i : i + 3].mean(axis=0) for i in range(len(z) - 2)])  # windows share two thirds of their samples
    every, third = (Mahalanobis(windows=n).fit(z).score(z) for n in (len(z), 1_200))
    ranks = [np.argsort(np.argsort(scores)) / len(z) for scores in (every, third)]
    assert np.abs(ranks[0] - ranks[1]).mean() < 0.02
    loudest = every > np.quantile(every, 0.99)
    assert (third[loudest] > np.quantile(third, 0.97)).all()
