"""Baselines: what normal looks like for a workload.

What belongs here: the fitted model and what it makes of windows. A window's features are standardised
(`standardisation`), what is expected of it is taken away (`references`), detectors score the residuals (`detectors/`),
and scores are given their probability (`calibration`). How a baseline is made is in `fitting`, its file in
`model_file`, the table of scores in `scoring`, the reasons in `attribution`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from infrascope_core.anomalies.calibration import Calibration
from infrascope_core.anomalies.detectors import BriefDeviation, Detector, calibration_groups
from infrascope_core.anomalies.levels import by_host, is_long, level, quiet_share
from infrascope_core.anomalies.matrix import window_matrix
from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.standardisation import Moments
from infrascope_core.numeric import Array, Ints

_NEAR, _NEAR_SHARE = 3, 0.02
"""Places of references that are near a place: so many before and after it, or this share of it."""
_USUAL = 0.75
"""Quantile of the references' scores near a place that is usual there: a single one of them says nothing."""
ITSELF = "itself"
"""`Identity.compared_with` of a baseline that is made of the run which it judges, for want of others."""
ANY = "any"
"""Phase or workload of a baseline that serves all of them."""


@dataclass(frozen=True)
class Identity:
    """What a baseline is of and what it was made from.

    Attributes
    ----------
    compared_with : str
        `workload`: the workload's runs; `reference`: those known to be healthy, or named; `past`: the first windows of
        the judged run itself; each with the platform's runs where phase and workload are `any`. `itself`: all windows
        of the judged run, there being no other.
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
        own = {"past": "the run's own past", ITSELF: "the run itself"}.get(self.compared_with)
        known = f"{runs} known to be healthy" if self.compared_with == "reference" else runs
        return own or f"{known} of {whose}"


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
    between : ndarray, names
        How far the levels of references lie apart, in scales (`levels.between_runs`).
    heights : ndarray, windows x groups
        The references' own combined scores (`Calibration.combine`), by detectors that did not see them; NaN where there
        is none.
    settings : DetectorSettings
        Those that it was fitted with.
    held_out : tuple of tuple of Detector
        For each detector, the same fitted on other parts of the references (`Detector.folds`): that which run number i
        took no part in is at i, modulo their number. Empty where there is one run.
    """

    identity: Identity
    names: tuple[tuple[str, str], ...]
    moments: Moments
    references: References
    detectors: tuple[Detector, ...]
    thresholds: dict[str, float]
    calibrations: tuple[Calibration, ...]
    between: Array
    heights: Array
    settings: DetectorSettings
    held_out: tuple[tuple[Detector, ...], ...] = ()

    def without(self, run_key: str) -> Baseline:
        """The baseline that judges a run: without what its detectors learnt from it, if it is a reference itself.

        A run that judges itself looks normal. (Location and scale stay; each window is compared with other runs in any
        case.) The only run of a baseline has nothing else to be judged by.
        """
        if run_key not in self.references.runs or not self.held_out:
            return self
        number = self.references.runs.index(run_key)
        return replace(
            self,
            detectors=tuple(folds[number % len(folds)] for folds in self.held_out),
            heights=np.where((self.references.run == number)[:, None], np.nan, self.heights),
        )

    def judges(self, run_key: str) -> bool:
        """Whether it can judge a run: not if the run is all that it is made of, but for that purpose."""
        return self.references.runs != (run_key,) or self.identity.compared_with in {"past", ITSELF}

    @property
    def of_itself(self) -> bool:
        """Whether it is made of the run that it judges, so that what is not anomalous is not known to be normal."""
        return self.identity.compared_with == ITSELF

    @property
    def metrics(self) -> int:
        """Number of metrics that the baseline includes."""
        return len({metric for metric, _ in self.names})

    @property
    def single_metrics(self) -> BriefDeviation:
        """The detector that knows how far each metric goes in normal times."""
        return next(detector for detector in self.detectors if isinstance(detector, BriefDeviation))

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
        expected, levels = level(self.references, z, windows, self.settings)
        z -= expected
        return Residuals.of(windows, matrix, self.moments.value(expected), z, levels=levels, settings=self.settings)

    def scores(self, residuals: Residuals) -> Array:
        """Scores of windows x detectors."""
        return np.stack([d.score(residuals.of_kind(d.sees)) for d in self.detectors], axis=1)

    def surprisal(self, scores: Array, windows: pl.DataFrame) -> Array:
        """-log10 of the probability that a normal window scores as high above its run's own level: windows x groups."""
        surprisal = np.full((len(scores), len(self.groups)), np.nan)
        for rows, group, surprising, _ in self._calibrated(scores, windows):
            surprisal[rows, group] = surprising
        return surprisal

    def departures(self, scores: Array, windows: pl.DataFrame) -> Array:
        """How far each score is above its run's own level, 1 being a healthy 90th percentile: windows x detectors."""
        departures = np.zeros_like(scores)
        for rows, group, _, weights in self._calibrated(scores, windows):
            departures[rows[:, None], self.groups[group]] = weights
        return departures

    def _calibrated(self, scores: Array, windows: pl.DataFrame) -> Iterator[tuple[Ints, int, Array, Array]]:
        """For each run, host and group of detectors: its rows, the group, their surprisals and departures."""
        for _, rows in by_host(windows):
            long = is_long(windows["start_ts"].gather(rows), self.settings)
            for group, (calibration, columns) in enumerate(zip(self.calibrations, self.groups, strict=True)):
                own = scores[rows[:, None], columns]
                here = calibration.of_long_run(own) if long else calibration
                here = calibration.of_itself(own) if self.of_itself else here
                own_level = here.level(own, quiet_share(long, self.settings))
                usual = 0.0 if long else self._usual_height(group, windows["window"].gather(rows).to_numpy())
                yield rows, group, here.surprisal(own, own_level, usual), here.weights(own, own_level)

    def _usual_height(self, group: int, place: Ints) -> Array | float:
        """How far above a healthy 90th percentile the references are at about the same place: windows.

        No two starts of a program are the same, nor are its ends: what stands out there in runs that are known to be
        normal says little in another.
        """
        if self.references.band is None:
            return 0.0
        usual = self._usual_heights[:, group]
        return np.where(place < len(usual), usual[np.minimum(place, len(usual) - 1)], 0.0)

    @cached_property
    def _usual_heights(self) -> Array:
        """The same of all places that the references have: places x groups."""
        order = np.argsort(self.references.place, kind="stable")
        at, heights = self.references.place[order], self.heights[order]
        places = np.arange(int(at[-1]) + 1)
        near = np.maximum(_NEAR, (_NEAR_SHARE * places).astype(np.int64))
        usual = np.zeros((len(places), heights.shape[1]))
        for place, (low, high) in enumerate(
            zip(np.searchsorted(at, places - near), np.searchsorted(at, places + near, side="right"), strict=True)
        ):
            known = heights[low:high][~np.isnan(heights[low:high]).any(axis=1)]
            if len(known):
                usual[place] = np.maximum(np.quantile(known, _USUAL, axis=0) - 1.0, 0.0)
        return usual
