"""The Z-score by hand."""

import numpy as np

from infrascope_core.anomalies.detectors import ZScore

Z = np.array([[1.0, -3.0, 2.0, np.nan], [0.0, 0.0, 0.0, 0.0]])


def test_the_score_is_the_mean_deviation_of_known_features():
    assert ZScore().score(Z).tolist() == [2.0, 0.0]


def test_each_feature_has_its_share_of_the_mean():
    np.testing.assert_allclose(ZScore().explain(Z), [[1 / 3, 1, 2 / 3, 0], [0.0, 0, 0, 0]])
