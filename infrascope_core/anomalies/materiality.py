"""Materiality: the smallest change of a metric that matters, by what it measures (`materiality.yaml`).

What belongs here: from names and units to the least change of each feature. A metric that never moved has no spread to
be measured by: 2 MB of shared memory on a host of 24 GB are then as improbable as a process that takes half of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from infrascope_core.anomalies.matrix import PSEUDO_FEATURES, STILL
from infrascope_core.numeric import Array
from infrascope_core.run_files.columns import is_differenced
from infrascope_core.store.lake import fingerprint

_DATA = (files(__package__) / "materiality.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("1", _DATA)
"""Raise the number when the same metrics would have other least changes."""
_MOVES = 0.1
"""A signal whose standard deviation is this share of what matters moves visibly."""
_PSEUDO = 0.1
"""A metric is missing or still, or it is not; both are shares of windows."""
SHAPE = frozenset({"skewness", "kurtosis", "autocorrelation__lag_1", 'dickey_fuller__attr_"teststat"'})
"""Features without a unit: they describe the shape of a signal, and mean nothing where the signal hardly moves."""


class Rule(BaseModel):
    """A rule of `materiality.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: re.Pattern[str]
    least: float | None = Field(None, gt=0)
    share: float | None = Field(None, gt=0, lt=1)
    of: re.Pattern[str] | None = None
    per_second: bool = False

    @model_validator(mode="after")
    def _one_of_them(self) -> Rule:
        if (self.least is None) == (self.share is None) or (self.share is None) != (self.of is None):
            raise ValueError("a rule gives a least change, or a share and of what")
        return self


@cache
def _rules() -> tuple[Rule, ...]:
    return tuple(
        Rule.model_validate(
            {
                **entry,
                **{key: re.compile(entry[key], re.IGNORECASE) for key in ("pattern", "of") if key in entry},
            }
        )
        for entry in yaml.safe_load(_DATA)
    )


@lru_cache(maxsize=65_536)
def _rule(metric: str) -> Rule | None:
    return next((rule for rule in _rules() if rule.pattern.search(metric)), None)


def least_changes(features: pl.DataFrame, samples_apart: float) -> dict[str, float]:
    """The smallest change that matters of each metric that a rule knows, in its own unit.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features`: its metrics, and the size of what shares are taken of.
    samples_apart : float
        Seconds from one sample to the next.
    """
    largest = dict(features.group_by("metric").agg(pl.col("maximum").abs().max()).drop_nulls().iter_rows())
    changes = {}
    for metric in features["metric"].unique():
        rule = _rule(metric)
        if rule is None:
            continue
        least = rule.least or 0.0
        if rule.of is not None and rule.share is not None:
            least = rule.share * max((value for name, value in largest.items() if rule.of.search(name)), default=0.0)
        if rule.per_second and is_differenced(metric):
            least *= samples_apart
        if least > 0:
            changes[metric] = least
    return changes


def by_feature(names: Sequence[tuple[str, str]], changes: Mapping[str, float], samples: int) -> Array:
    """The smallest change that matters of each feature, in the feature's own unit; 0 where it is not known.

    Parameters
    ----------
    names : sequence of (metric, feature)
        A baseline's columns.
    changes : mapping
        See `least_changes`.
    samples : int
        Samples of a window.
    """
    # a single sample may be twice as far out as what lasts; a slope adds up over the window
    times = {"maximum": 2.0, "sum_values": float(samples), 'linear_trend__attr_"slope"': 2.0 / samples}
    least = np.zeros(len(names))
    for column, (metric, feature) in enumerate(names):
        change = changes.get(metric, 0.0)
        if feature in PSEUDO_FEATURES:
            least[column] = _PSEUDO
        elif feature == "variance":
            least[column] = change * change  # a power would raise where this is infinite
        elif feature not in SHAPE:
            least[column] = change * times.get(feature, 1.0)
    # what overflowed is not known
    return np.where(np.isfinite(least), least, 0.0)


def of_shapes(names: Sequence[tuple[str, str]], changes: Mapping[str, float]) -> Array:
    """The least standard deviation of a signal that moves; 0 for features that do not depend on that, and if not known.

    They are those of a shape, and `still`: whether a signal stands that never moves by much says nothing.
    """
    share = dict.fromkeys(SHAPE, 1.0) | {STILL: _MOVES}
    return np.array([changes.get(metric, 0.0) * share.get(feature, 0.0) for metric, feature in names])
