"""The matrix of a baseline: features, and what is read off them."""

from __future__ import annotations

import numpy as np

from infrascope_core.anomalies.matrix import window_matrix
from infrascope_core.anomalies.tables import FEATURES
from tests.core.anomalies.generated import features, noise

NAN = np.nan


def test_missing_and_still_are_read_off_the_maximum_and_the_spread():
    read = {"standard_deviation": [0.0, 0.5, NAN, 4.0], "maximum": [1.0, 3.0, NAN, NAN], "mean": [1.0, 2.5, 7.0, 4.0]}
    values = np.full((4, len(FEATURES)), NAN)
    for name, column in read.items():
        values[:, FEATURES.index(name)] = column
    names = [("a", "mean"), ("a", "missing"), ("a", "still"), ("b", "missing"), ("b", "still")]
    windows, matrix = window_matrix(features(a=values), names)
    assert windows["window"].to_list() == [0, 1, 2, 3]
    np.testing.assert_array_equal(
        matrix,
        [[1, 0, 1, 1, NAN], [2.5, 0, 0, 1, NAN], [7, 1, NAN, 1, NAN], [4, 1, NAN, 1, NAN]],
    )


def test_a_matrix_without_them_is_the_feature_matrix():
    _, matrix = window_matrix(features(a=noise(3)), [("a", "maximum"), ("a", "mean")])
    expected = noise(3)[:, [FEATURES.index("maximum"), FEATURES.index("mean")]]
    np.testing.assert_array_equal(matrix, expected.astype(np.float32))
