"""A further detector: its class is all that it takes to be fitted, saved, heard and attributed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies import fitting
from infrascope_core.anomalies.attribution import reasons
from infrascope_core.anomalies.calibration import shipped_prior
from infrascope_core.anomalies.detectors import DETECTORS, Detector
from infrascope_core.anomalies.model_file import load_baseline, save_baseline
from infrascope_core.anomalies.scoring import score
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.numeric import Array, Arrays, Ints, Mask
from tests.core.anomalies.generated import SETTINGS, changed, features, fitted, runs


class Largest(Detector):
    """Score is the largest |z|."""

    name: ClassVar[str] = "largest"
    label: ClassVar[str] = "MAX"
    about: ClassVar[str] = "largest |z| over features"

    @classmethod
    def of(cls, settings: DetectorSettings, metrics: Sequence[str]) -> Self:
        return cls()

    def state(self) -> Arrays:
        return {}

    @classmethod
    def from_state(cls, state: Arrays, features: int) -> Self:
        return cls()

    def _fit(self, z: Array, run: Ints) -> None:
        pass

    def _score(self, z: Array, known: Mask) -> Array:
        return np.asarray(np.abs(z).max(axis=1))

    def _explain(self, z: Array, known: Mask) -> Array:
        size = np.abs(z)
        return np.where(size == size.max(axis=1, keepdims=True), size, 0.0)


@pytest.mark.parametrize("group", ["all features", "single metrics"])
def test_a_class_that_is_listed_takes_part_in_everything(monkeypatch, tmp_path, group):
    monkeypatch.setitem(DETECTORS, Largest.name, Largest)
    monkeypatch.setattr(Largest, "group", group)
    prior = shipped_prior()
    monkeypatch.setattr(fitting, "shipped_prior", lambda: replace(prior, reach={**prior.reach, Largest.name: 0.4}))
    monkeypatch.setattr(Largest, "sees", "instant" if group == "all features" else "smoothed")
    save_baseline(fitted(runs(3)), tmp_path / "model")
    baseline = load_baseline(tmp_path / "model")
    assert [d.name for d in baseline.detectors] == [*DETECTORS]
    assert baseline.groups == ([[0, 1, 2, 5], [3, 4]] if group == "all features" else [[0, 1, 2], [3, 4, 5]])
    new = changed(features("new", 60, seed=9), pl.col("window").is_between(20, 39) & (pl.col("metric") == "b"), 50.0)
    residuals = baseline.judge(new)
    scores = score(baseline, residuals)
    at = scores.row(35, named=True)
    assert at["flagged_by"] == [*DETECTORS] and at["agreement"] == 6 and at["anomalous"]
    # the table got its columns before the class was listed
    scores = scores.with_columns(largest=pl.Series(baseline.scores(residuals)[:, 5]))
    assert reasons(baseline, residuals, scores, SETTINGS).filter(window=35)["metric"][0] == "b"
