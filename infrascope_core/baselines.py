"""Baselines: what normal looks like for a workload, and the judging of windows against it.

What belongs here: fitting, the model file, and scores with flags (Reveal, section 4.3). A window's features are
standardised (`standardisation`), what is expected of it is taken away (`references`), detectors score what is left
(`detectors/`), and scores are given their probability (`calibration`). The reasons are in `attribution`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.alarms import anomalous
from infrascope_core.calibration import Calibration
from infrascope_core.detectors import DETECTORS, JUDGED_TOGETHER, Detector, IsolationForest, unfitted
from infrascope_core.errors import NotFittedError
from infrascope_core.features import WINDOW, feature_matrix
from infrascope_core.references import References
from infrascope_core.settings import DetectorSettings, FeatureSettings
from infrascope_core.standardisation import Array, Mask, Moments, fit_moments
from infrascope_core.tables import ANOMALY_SCORES, FEATURES

_FORMAT = 3
CODE_VERSION = "2"
"""Raise it when a baseline fitted on the same windows would differ."""
ANY = "any"
"""Phase or workload of a baseline that serves all of them."""
_FOLDS = 3
"""Parts of the windows, each scored by detectors that were fitted on the others."""
_STRETCH = 10
"""Windows of a run that go into one fold together, because neighbours share samples."""
_LEAST_PER_RUN = 30
"""Windows that a run gives at least, if it is chosen for a baseline; runs are left out rather than thinned more."""
_TOGETHER = tuple([list(DETECTORS).index(name) for name in names] for names in JUDGED_TOGETHER)
"""Columns of the score matrix that are judged together."""
_STANDS_FOR_CONSTANT = ("mean", "sum_values")
"""Of a metric that never moved, one feature is watched: all others would say the same again."""


@dataclass(frozen=True)
class Identity:
    """What a baseline is of and what it was made from.

    Attributes
    ----------
    compared_with : str
        `workload`: the workload's runs; `reference`: those known to be healthy, or named; `past`: the run's own first
        windows; each with the platform's runs where phase and workload are `any`.
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
        One of each kind, fitted on the references' deviations from each other.
    thresholds : dict of str to float
        By detector name; a score above it is flagged.
    calibrations : tuple of Calibration
        What the scores mean, for each of `JUDGED_TOGETHER`.
    alarm, allowance : float
        See `alarms.anomalous`.
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

    def deviations(self, windows: pl.DataFrame, matrix: Array) -> tuple[Array, Array]:
        """How windows depart from what is expected of them, and what that is.

        Parameters
        ----------
        windows : polars.DataFrame
            run_key and window of each row.
        matrix : ndarray, windows x names
            Features in their own units.

        Returns
        -------
        tuple
            Deviations in scales (NaN where a feature is missing), and the expected values in the features' units.
        """
        z = self.moments.standardise(matrix)
        expected = self.references.expected(z, windows["run_key"].to_list(), windows["window"].to_numpy())
        z -= expected
        return z, self.moments.value(expected)

    def scores(self, deviations: Array) -> Array:
        """Scores of windows x detectors."""
        return np.stack([d.score(deviations) for d in self.detectors], axis=1)

    def surprisal(self, scores: Array) -> Array:
        """-log10 of the probability that a normal window scores as high: windows x `JUDGED_TOGETHER`."""
        each = [c.surprisal(scores[:, columns]) for c, columns in zip(self.calibrations, _TOGETHER, strict=True)]
        return np.stack(each, axis=1)

    def departures(self, scores: Array) -> Array:
        """How far each score departs from a median window's, 1 being the 90th percentile: windows x detectors."""
        departures = np.zeros_like(scores)
        for calibration, columns in zip(self.calibrations, _TOGETHER, strict=True):
            departures[:, columns] = calibration.weights(scores[:, columns])
        return departures

    @property
    def metrics(self) -> int:
        """Number of metrics the baseline knows."""
        return len({metric for metric, _ in self.names})

    def save(self, path: Path) -> None:
        """Write the model file, aside and then renamed; equal baselines give equal bytes, and no pickle."""
        meta = {
            "format": _FORMAT,
            "identity": asdict(self.identity),
            "names": self.names,
            "thresholds": self.thresholds,
            "detectors": [d.name for d in self.detectors],
            "alarm": self.alarm,
            "allowance": self.allowance,
        }
        arrays: dict[str, NDArray[np.generic]] = {
            "meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8),
        }
        parts = {"moments": self.moments.arrays(), "references": self.references.arrays()}
        parts |= {d.name: d.state() for d in self.detectors}
        parts |= {f"calibration{i}": calibration.arrays() for i, calibration in enumerate(self.calibrations)}
        for part, state in parts.items():
            arrays |= {f"{part}.{key}": value for key, value in state.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Read a model file.

        Raises
        ------
        NotFittedError
            There is no such file, or it is not a whole model file of this format.
        """
        try:
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return _from_arrays(arrays)
        except FileNotFoundError:
            raise NotFittedError(f"{path}: there is no such baseline; fit the baselines first.") from None
        # Whatever a damaged or forged file makes the readers say, it is one fault: not a model file.
        except (
            OSError,
            EOFError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            MemoryError,
            OverflowError,
            RecursionError,
            NotImplementedError,
            RuntimeError,
            zipfile.BadZipFile,
        ) as error:
            raise NotFittedError(
                f"{path}: this is not a whole baseline file of format {_FORMAT} ({error}); fit the baselines again."
            ) from error


def _from_arrays(arrays: dict[str, NDArray[np.generic]]) -> Baseline:
    meta = json.loads(arrays["meta"].tobytes())
    if meta["format"] != _FORMAT:
        raise ValueError(f"format {meta['format']}")
    names = tuple((str(metric), str(feature)) for metric, feature in meta["names"])

    def part(name: str) -> dict[str, NDArray[np.generic]]:
        return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

    baseline = Baseline(
        Identity(**meta["identity"]),
        names,
        Moments.from_arrays(part("moments"), len(names)),
        References.from_arrays(part("references"), len(names)),
        tuple(DETECTORS[name].from_state(part(name)) for name in meta["detectors"]),
        {name: float(meta["thresholds"][name]) for name in meta["detectors"]},
        tuple(Calibration.from_arrays(part(f"calibration{i}"), len(of)) for i, of in enumerate(_TOGETHER)),
        float(meta["alarm"]),
        float(meta["allowance"]),
    )
    for detector in baseline.detectors:
        detector.score(np.zeros((1, len(names))))
        if isinstance(detector, IsolationForest) and detector.feature.max() >= len(names):
            raise ValueError("the forest splits features that have no name")
    return baseline


def sample_windows(windows: pl.DataFrame, settings: DetectorSettings) -> pl.DataFrame:
    """Choose at most `max_windows` windows, evenly from all runs and from all places in them.

    Parameters
    ----------
    windows : polars.DataFrame
        At least `run_key`, `host`, `window`; repeated rows count once. A caller with many runs may read just
        these columns, choose, and then read the features of the chosen windows only: the fit is the same.
    settings : DetectorSettings
        `max_windows`, `random_state`.

    Returns
    -------
    polars.DataFrame
        `run_key`, `host`, `window`, sorted. Of more runs than `max_windows` has room for, a seeded choice.
    """
    keys = windows.select(WINDOW).unique().sort(WINDOW)
    if keys.height <= settings.max_windows:
        return keys
    runs = keys.partition_by("run_key", "host", maintain_order=True)
    room = max(1, settings.max_windows // _LEAST_PER_RUN)
    if len(runs) > room:
        chosen = np.random.default_rng(settings.random_state).choice(len(runs), room, replace=False)
        runs = [runs[i] for i in np.sort(chosen)]
    quota = _quota([run.height for run in runs], settings.max_windows)
    return pl.concat([run[_evenly(run.height, quota)] for run in runs])


def _quota(heights: Sequence[int], total: int) -> int:
    """The largest number of windows a run may give, so that all together give no more than the total."""
    room, quota = total, 0
    for left, height in zip(range(len(heights), 0, -1), sorted(heights), strict=True):
        quota = room // left
        if height > quota:
            break
        room -= height
    return max(1, quota)


def _evenly(height: int, quota: int) -> NDArray[np.int64]:
    return np.arange(height) if height <= quota else np.arange(quota) * height // quota


def fit_baseline(
    features: pl.DataFrame,
    platform: str,
    phase: str,
    workload: str,
    settings: DetectorSettings,
    *,
    windows: FeatureSettings | None = None,
    compared_with: str = "workload",
) -> Baseline | None:
    """Learn what is normal from the windows of a workload's runs.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features` of the runs, in any order.
    platform, phase, workload : str
        What the baseline is of; `ANY` where it serves all phases or workloads.
    settings : DetectorSettings
        All of it but `reasons_per_window`.
    windows : FeatureSettings, optional
        How the windows were cut: which of them share samples.
    compared_with : str
        See `Identity`.

    Returns
    -------
    Baseline or None
        None below `min_windows` windows, or where no feature is known.

    Notes
    -----
    Thresholds and calibration rest on scores of windows that were compared with other runs and judged by detectors
    fitted on other windows (folds of whole runs; of stretches where there is one run): scores of windows that a
    detector has seen are too low to judge others by.
    """
    keys = sample_windows(features, settings)
    if keys.height < settings.min_windows:
        return None
    features = features.join(keys, on=WINDOW, how="semi")
    names = [(metric, name) for metric in features["metric"].unique().sort() for name in FEATURES]
    index, x = feature_matrix(features, names)
    moments, keep = fit_moments(x, settings.scale)
    keep &= ~moments.constant | np.array([name in _STANDS_FOR_CONSTANT for _, name in names])
    if not keep.any():
        return None
    names = [name for name, kept in zip(names, keep, strict=True) if kept]
    x, moments = (x, moments) if keep.all() else (x[:, keep], moments.select(keep))
    version = _version(x, names, settings)
    z = moments.standardise(x)
    del x
    run_keys, place = index["run_key"].to_list(), index["window"].to_numpy()
    same_program = ANY not in {phase, workload} and compared_with != "past"
    cut = windows or FeatureSettings()
    references = References.learn(
        z,
        run_keys,
        place,
        (settings.place_windows, settings.place_share) if same_program else None,
        -(-cut.samples // cut.stride),
    )
    z -= references.expected(z, run_keys, place)
    metrics = [metric for metric, _ in names]
    scores = _out_of_fold(z, _folds(run_keys), settings, metrics)
    detectors = tuple(d.fit(z) for d in unfitted(settings, metrics))
    limits = np.nanquantile(scores, settings.flag_quantile, axis=0)
    return Baseline(
        Identity(platform, phase, workload, compared_with, index.height, len(references.runs), version),
        tuple(names),
        moments,
        references,
        detectors,
        {d.name: float(limit) for d, limit in zip(detectors, limits, strict=True)},
        tuple(Calibration.learn(scores[:, columns]) for columns in _TOGETHER),
        -float(np.log10(settings.alarm_probability)),
        settings.allowance,
    )


def _folds(run_keys: Sequence[str]) -> NDArray[np.int64]:
    """Which fold each window is in: whole runs, or short stretches of the only one, in turn."""
    runs = {key: i for i, key in enumerate(sorted(set(run_keys)))}
    if len(runs) == 1:
        return np.arange(len(run_keys)) // _STRETCH % _FOLDS
    return np.array([runs[key] % _FOLDS for key in run_keys])


def _out_of_fold(z: Array, fold: NDArray[np.int64], settings: DetectorSettings, metrics: Sequence[str]) -> Array:
    """Scores of windows x detectors, each by detectors that were fitted on the other folds."""
    scores = np.full((len(z), len(DETECTORS)), np.nan)
    for part in np.unique(fold):
        inside = fold == part
        for column, detector in enumerate(unfitted(settings, metrics)):
            scores[inside, column] = detector.fit(z[~inside]).score(z[inside])
    return scores


def _version(x: Array, names: Sequence[tuple[str, str]], settings: DetectorSettings) -> str:
    digest = hashlib.sha256(json.dumps([settings.digest(), *names]).encode())
    digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()[:12]


def score(baseline: Baseline, features: pl.DataFrame) -> pl.DataFrame:
    """Judge windows against a baseline.

    Parameters
    ----------
    baseline : Baseline
        A fitted one.
    features : polars.DataFrame
        Table `window_features`. Metrics that the baseline does not know are passed over; those it knows and
        the features lack are missing (see `Detector`).

    Returns
    -------
    polars.DataFrame
        Table `anomaly_scores`, by run, host and window. A window with no feature that the baseline knows
        has null scores and no flag. `flagged_by` names detectors in the order of `DETECTORS`.
    """
    windows, matrix = feature_matrix(features, baseline.names)
    deviations, _ = baseline.deviations(windows, matrix)
    scores = baseline.scores(deviations)
    order = [d.name for d in baseline.detectors]
    limits = np.array([baseline.thresholds[name] for name in order])
    flags = scores > limits
    surprisal = baseline.surprisal(scores)
    tiny = np.finfo(float).tiny
    return (
        windows.with_columns(
            *(pl.Series(name, scores[:, i], nan_to_null=True) for i, name in enumerate(order)),
            pl.Series("severity", (scores / np.maximum(limits, tiny)).max(axis=1), nan_to_null=True),
            pl.Series("surprisal", surprisal[:, 0], nan_to_null=True),
            pl.Series("peak_surprisal", surprisal[:, 1], nan_to_null=True),
            pl.Series("anomalous", _anomalous(baseline, windows, surprisal)),
            pl.Series("agreement", flags.sum(axis=1)),
            pl.Series(
                "flagged_by",
                [[name for name, flag in zip(order, row, strict=True) if flag] for row in flags.tolist()],
                dtype=pl.List(pl.String),
            ),
            baseline_version=pl.lit(baseline.identity.version),
        )
        .select(ANOMALY_SCORES.schema.names())
        .cast(ANOMALY_SCORES.schema)
    )


def _anomalous(baseline: Baseline, windows: pl.DataFrame, surprisal: Array) -> Mask:
    """Alarms of every host's windows, which are in order; each kind of surprisal raises its own."""
    raised = np.zeros(len(surprisal), dtype=bool)
    rows = windows.with_row_index("row").group_by("run_key", "host", maintain_order=True).agg("row")["row"]
    for row in rows:
        own = row.to_numpy()
        for column in surprisal[own].T:
            raised[own] |= anomalous(column, baseline.alarm, baseline.allowance, baseline.references.overlap)
    return raised
