"""Mahalanobis by hand, and against the textbook formula and scikit-learn's PCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from infrascope_core.detectors import Mahalanobis


def test_uncorrelated_features_by_hand():
    """Two features of variance 16 / 3: a window at (2, 1) is sqrt(5 / (16 / 3)) away."""
    z = np.array([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])
    fitted = Mahalanobis(variance=1.0).fit(z)
    assert fitted.score(np.array([[2.0, 1.0]])) == pytest.approx([(15 / 16) ** 0.5])
    np.testing.assert_allclose(
        fitted.contributions(np.array([[2.0, 1.0]])), [[0.8 * (15 / 16) ** 0.5, 0.2 * (15 / 16) ** 0.5]]
    )


def test_with_all_components_it_is_the_textbook_distance():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    y = z - z.mean(axis=0)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", y, np.linalg.inv(np.cov(z.T)), y))
    np.testing.assert_allclose(Mahalanobis(variance=1.0).fit(z).score(z), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [(300, 20), (5000, 10), (40, 90)], ids=["tall", "taller than a block", "wide"])
def test_the_subspace_is_scikit_learns(shape):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(shape[0], 8)) @ rng.normal(size=(8, shape[1])) + 0.1 * rng.normal(size=shape)
    pca = PCA(n_components=0.95, svd_solver="full").fit(z)
    fitted = Mahalanobis(variance=0.95).fit(z)
    assert fitted.projection.shape == (shape[1], pca.n_components_)
    t = pca.transform(z) / np.sqrt(pca.explained_variance_)
    np.testing.assert_allclose(fitted.score(z), np.sqrt((t**2).sum(axis=1)), rtol=1e-7)


def test_breaking_a_correlation_is_abnormal_though_each_feature_is_not():
    x = np.random.default_rng(0).normal(size=(500, 1))
    z = np.hstack([x, x + 0.3 * np.random.default_rng(1).normal(size=(500, 1))])
    together, apart = Mahalanobis(variance=1.0).fit(z).score(np.array([[1.5, 1.5], [1.5, -1.5]]))
    assert apart > 5 * together


def test_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="fit together"):
        Mahalanobis.from_state({"centre": np.zeros(3), "projection": np.zeros((2, 1))})


def test_windows_that_never_differ_have_no_distance():
    assert Mahalanobis().fit(np.zeros((5, 3))).score(np.ones((2, 3))).tolist() == [0.0, 0.0]
