"""Baselines: what normal looks like for a workload.

What belongs here: the fitted model and what it makes of windows. A window's features are standardised
(`standardisation`), what is expected of it is taken away (`references`), detectors score the residuals (`detectors/`),
and scores are given their probability (`calibration`). How a baseline is made is in `fitting`, its file in
`model_file`, the table of scores in `scoring`, the reasons in `attribution`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.anomalies.calibration import Calibration
from infrascope_core.anomalies.detectors import Detector, calibration_groups
from infrascope_core.anomalies.matrix import window_matrix
from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.residuals import Residuals, moving_average
from infrascope_core.anomalies.standardisation import Moments
from infrascope_core.numeric import Array

ANY = "any"
"""Phase or workload of a baseline that serves all of them."""


@dataclass(frozen=True)
class Identity:
    """What a baseline is of and what it was made from.

    Attributes
    ----------
    compared_with : str
        `workload`: the workload's runs; `reference`: those known to be healthy, or named; `past`: the first windows of
        the judged run itself; each with the platform's runs where phase and workload are `any`.
    """

    platform: str
    phase: str
    workload: str
    compared_with: str
    windows: int
    runs: int
    version: str

    def __str__(self) -> str:
        """In words, for claims and reports."""
        whose = f"{self.phase} {self.workload}" if self.workload != ANY else f"all workloads on {self.platform}"
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        kind = {"reference": f"{runs} known to be healthy", "past": "the run's own past"}.get(self.compared_with, runs)
        return f"{kind} of {whose}" if self.compared_with != "past" else kind


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fitted baseline.

    Attributes
    ----------
    identity : Identity
    names : tuple of (metric, feature)
        Columns of the matrices, sorted by metric.
    moments : Moments
        Location and scale of each name.
    references : References
        The windows that new ones are compared with.
    detectors : tuple of Detector
        One of each kind, fitted on the references' residuals against each other.
    thresholds : dict of str to float
        By detector name; a score above it is flagged.
    calibrations : tuple of Calibration
        What the scores mean, one per group of detectors (`detectors.calibration_groups`).
    alarm, allowance : float
        See `alarms.anomalous`.
    span : int
        See `residuals.moving_average`.
    """

    identity: Identity
    names: tuple[tuple[str, str], ...]
    moments: Moments
    references: References
    detectors: tuple[Detector, ...]
    thresholds: dict[str, float]
    calibrations: tuple[Calibration, ...]
    alarm: float
    allowance: float
    span: int

    @property
    def metrics(self) -> int:
        """Number of metrics that the baseline includes."""
        return len({metric for metric, _ in self.names})

    @property
    def has_ranges(self) -> bool:
        """Whether it holds how far a metric's level may differ from run to run: one other run does not show that."""
        return len(self.references.runs) > 1 or self.identity.compared_with == "past"

    @property
    def groups(self) -> list[list[int]]:
        """Columns of the score matrix that are calibrated together."""
        return calibration_groups(self.detectors)

    def judge(self, features: pl.DataFrame) -> Residuals:
        """How windows depart from what is expected of them.

        Parameters
        ----------
        features : polars.DataFrame
            Table `window_features`. Metrics that are not in the baseline are ignored; those that are, and that the
            features lack, are missing.
        """
        windows, matrix = window_matrix(features, self.names)
        z = self.moments.standardise(matrix.copy())
        expected = self.references.expected(z, windows["run_key"].to_list(), windows["window"].to_numpy())
        z -= expected
        return Residuals(windows, matrix, self.moments.value(expected), z, moving_average(z, windows, self.span))

    def scores(self, residuals: Residuals) -> Array:
        """Scores of windows x detectors."""
        return np.stack([d.score(residuals.of_kind(d.sees)) for d in self.detectors], axis=1)

    def silent(self, detector: Detector) -> bool:
        """Whether a detector's scores mean nothing here: it depends on ranges that the baseline does not have."""
        return detector.needs_ranges and not self.has_ranges

    def surprisal(self, scores: Array) -> Array:
        """-log10 of the probability that a normal window scores as high: windows x groups; NaN for a silent group."""
        surprisal = np.full((len(scores), len(self.groups)), np.nan)
        for group, (calibration, columns) in enumerate(zip(self.calibrations, self.groups, strict=True)):
            if not any(self.silent(self.detectors[column]) for column in columns):
                surprisal[:, group] = calibration.surprisal(scores[:, columns])
        return surprisal

    def departures(self, scores: Array) -> Array:
        """How far each score departs from a median window's, 1 being the 90th percentile: windows x detectors."""
        departures = np.zeros_like(scores)
        for calibration, columns in zip(self.calibrations, self.groups, strict=True):
            departures[:, columns] = calibration.weights(scores[:, columns])
        return departures
