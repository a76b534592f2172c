"""The matrix that a baseline looks at: features of windows, and two pseudo-features of every metric.

What belongs here: the names of its columns, and how they are read off the table `window_features`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from infrascope_core.anomalies.features import feature_matrix
from infrascope_core.anomalies.tables import FEATURES
from infrascope_core.numeric import Array

MISSING, STILL = "missing", "still"
"""Pseudo-features, 0 or 1: the metric has no value in the window, or only one."""
PSEUDO_FEATURES = (MISSING, STILL)

Names = Sequence[tuple[str, str]]
"""Columns of a matrix: (metric, feature), those of a metric together."""


def all_names(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """All names that a baseline of these metrics may have, those of a metric together."""
    return [(metric, name) for metric in sorted(metrics) for name in (*FEATURES, *PSEUDO_FEATURES)]


def window_matrix(features: pl.DataFrame, names: Names) -> tuple[pl.DataFrame, Array]:
    """Pivot window features into a matrix, with the pseudo-features `missing` and `still`.

    Returns
    -------
    tuple
        As `feature_matrix`. A metric is missing from a window in which it has no maximum, and still where it has and
        its standard deviation is 0: in single precision, a minimum and a maximum may be the same that are not.
    """
    pseudo = {kind: [i for i, (_, name) in enumerate(names) if name == kind] for kind in PSEUDO_FEATURES}
    # what the pseudo-features are made from, where it is not among the names itself
    read = {(names[i][0], "maximum") for part in pseudo.values() for i in part}
    read |= {(names[i][0], "standard_deviation") for i in pseudo[STILL]}
    wanted = [*names, *sorted(read.difference(names))]
    windows, matrix = feature_matrix(features, wanted)
    column = {name: i for i, name in enumerate(wanted)}
    for kind, columns in pseudo.items():
        missing = np.isnan(matrix[:, [column[names[i][0], "maximum"] for i in columns]])
        if kind == STILL:
            spread = matrix[:, [column[names[i][0], "standard_deviation"] for i in columns]]
            matrix[:, columns] = np.where(missing | np.isnan(spread), np.nan, spread == 0)
        else:
            matrix[:, columns] = missing
    return windows, matrix[:, : len(names)]
