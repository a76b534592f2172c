"""Baselines: what normal looks like for a workload, and the judging of windows against it.

What belongs here: fitting, the model file, and scores with flags (Reveal, section 4.3). A window's features are
standardised (`standardisation`), what is expected of it is taken away (`references`), detectors score what is left
(`detectors/`), and scores are given their probability (`calibration`). The reasons are in `attribution`.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from infrascope_core.anomalies.alarms import anomalous
from infrascope_core.anomalies.calibration import Calibration, together
from infrascope_core.anomalies.detectors import (
    DETECTORS,
    JUDGED_TOGETHER,
    Detector,
    IsolationForest,
    MetricPeaks,
    unfitted,
)
from infrascope_core.anomalies.features import feature_matrix
from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.anomalies.standardisation import Array, Mask, Moments, fit_moments
from infrascope_core.anomalies.tables import ANOMALY_SCORES, FEATURES
from infrascope_core.contract import WINDOW_KEY as WINDOW
from infrascope_core.errors import NotFittedError

_FORMAT = 3
CODE_VERSION = "2"
"""Raise it when a baseline fitted on the same windows would differ."""
ANY = "any"
"""Phase or workload of a baseline that serves all of them."""
_TURN = 10
"""Windows of a run that go into one fold together, because neighbours share samples."""
_STRETCH = 60
"""Windows of a run that go into a baseline together, if not all do."""
_TOGETHER = tuple([list(DETECTORS).index(name) for name in names] for names in JUDGED_TOGETHER)
"""Columns of the score matrix that are judged together."""
_PEAKS = JUDGED_TOGETHER.index((MetricPeaks.name,))
_LARGEST = 10.0
_LEAST_LIMIT = 1e-12
"""Where no window of a baseline deviates at all, a severity is large, but finite."""
_STANDS_FOR_CONSTANT = "maximum"
"""Of a metric that never moved, one feature is watched: all others would say the same again."""
_REPEATS = "sum_values"
"""Of a metric that has a mean, this says the same again."""
MISSING, STILL = "missing", "still"
"""Pseudo-features, 0 or 1: the metric has no value in the window, or only one."""


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
class Judged:
    """Windows beside what a baseline expects of them.

    Attributes
    ----------
    windows : polars.DataFrame
        `run_key`, `host`, `window`, `start_ts`, sorted.
    values, expected : ndarray, windows x names
        In the features' own units.
    now : ndarray, windows x names
        Deviations in scales; NaN where a feature is missing.
    lasting : ndarray, windows x names
        Their moving averages, see `lasting`.
    """

    windows: pl.DataFrame
    values: Array
    expected: Array
    now: Array
    lasting: Array

    def seen_by(self, detector: Detector) -> Array:
        """The deviations that a detector looks at."""
        return self.now if detector.sees == "now" else self.lasting

    def rows(self, chosen: NDArray[np.int64]) -> Judged:
        """Some of the windows."""
        parts = (part[chosen] for part in (self.values, self.expected, self.now, self.lasting))
        return Judged(self.windows[chosen], *parts)


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
    span : int
        See `lasting`.
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

    def judge(self, features: pl.DataFrame) -> Judged:
        """How windows depart from what is expected of them.

        Parameters
        ----------
        features : polars.DataFrame
            Table `window_features`. Metrics that the baseline does not know are passed over; those that it knows and
            the features lack are missing.
        """
        windows, matrix = baseline_matrix(features, self.names)
        z = self.moments.standardise(matrix.copy())
        expected = self.references.expected(z, windows["run_key"].to_list(), windows["window"].to_numpy())
        z -= expected
        return Judged(windows, matrix, self.moments.value(expected), z, lasting(z, windows, self.span))

    def scores(self, judged: Judged) -> Array:
        """Scores of windows x detectors."""
        return np.stack([d.score(judged.seen_by(d)) for d in self.detectors], axis=1)

    def surprisal(self, scores: Array) -> Array:
        """-log10 of the probability that a normal window scores as high: windows x `JUDGED_TOGETHER`.

        Of peaks it is unknown to a baseline that does not know the metrics' ranges.
        """
        each = [c.surprisal(scores[:, columns]) for c, columns in zip(self.calibrations, _TOGETHER, strict=True)]
        if not self.knows_ranges:
            each[_PEAKS] = np.full(len(scores), np.nan)
        return np.stack(each, axis=1)

    @property
    def knows_ranges(self) -> bool:
        """Whether it can tell how far a metric's level may differ from run to run: not from one other run."""
        return len(self.references.runs) > 1 or self.identity.compared_with == "past"

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
            "span": self.span,
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
            SyntaxError,
            struct.error,
            tokenize.TokenError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise NotFittedError(
                f"{path}: this is not a whole baseline file of format {_FORMAT} ({error}); fit the baselines again."
            ) from error


def _from_arrays(arrays: dict[str, NDArray[np.generic]]) -> Baseline:
    meta = json.loads(arrays["meta"].tobytes())
    if meta["format"] != _FORMAT:
        raise ValueError(f"format {meta['format']}")
    names = tuple((str(metric), str(feature)) for metric, feature in meta["names"])
    if not {feature for _, feature in names} <= {*FEATURES, MISSING, STILL}:
        raise ValueError("unknown features")
    if meta["detectors"] != list(DETECTORS) or meta["span"] < 1:
        raise ValueError("other detectors, or nothing to average over")

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
        int(meta["span"]),
    )
    for detector in baseline.detectors:
        detector.score(np.zeros((1, len(names))))
        if isinstance(detector, IsolationForest) and detector.feature.max() >= len(names):
            raise ValueError("the forest splits features that have no name")
    return baseline


def sample_windows(windows: pl.DataFrame, settings: DetectorSettings) -> pl.DataFrame:
    """Choose at most `max_windows` windows, from all runs and from all places in them.

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
        `run_key`, `host`, `window`, sorted. Whole runs, if there is room; else stretches of 60 windows (what lasts is
        seen in neighbours only), which begin at other places in every run. Of more runs than there is room for, a
        seeded choice.
    """
    keys = windows.select(WINDOW).unique().sort(WINDOW)
    if keys.height <= settings.max_windows:
        return keys
    runs = keys.partition_by("run_key", "host", maintain_order=True)
    room = max(1, settings.max_windows // _STRETCH)
    if len(runs) > room:
        chosen = np.random.default_rng(settings.random_state).choice(len(runs), room, replace=False)
        runs = [runs[i] for i in np.sort(chosen)]
    stretches = max(1, room // len(runs))
    return pl.concat([run[_stretches(run.height, stretches, turn)] for turn, run in enumerate(runs)])


def _stretches(height: int, number: int, turn: int) -> NDArray[np.int64]:
    """Rows of a run: so many stretches evenly over it; where they begin takes turns over the runs."""
    if height <= number * _STRETCH:
        return np.arange(height)
    spare = height - number * _STRETCH
    # multiples of the golden ratio fill the interval evenly, however many there are
    shift = turn * 0.6180339887498949 % 1.0
    begins = np.floor((np.arange(number) + shift) * spare / number).astype(int) + np.arange(number) * _STRETCH
    return np.asarray((begins[:, None] + np.arange(_STRETCH)).ravel())


def baseline_names(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """All names that a baseline of these metrics may have, those of a metric together."""
    return [(metric, name) for metric in sorted(metrics) for name in (*FEATURES, MISSING, STILL)]


def baseline_matrix(features: pl.DataFrame, names: Sequence[tuple[str, str]]) -> tuple[pl.DataFrame, Array]:
    """Pivot window features into a matrix, with the pseudo-features `missing` and `still`.

    Returns
    -------
    tuple
        As `feature_matrix`. A metric is missing from a window in which it has no maximum, and still where it has and
        its minimum is the same.
    """
    real = [i for i, (_, name) in enumerate(names) if name not in {MISSING, STILL}]
    pseudo = {name: [i for i, (_, of) in enumerate(names) if of == name] for name in (MISSING, STILL)}
    asked = [names[i] for i in real]
    # what the pseudo-features are made from, where it is not among the names itself
    ends = {(names[i][0], "maximum") for part in pseudo.values() for i in part}
    ends |= {(names[i][0], "minimum") for i in pseudo[STILL]}
    asked += sorted(ends - set(asked))
    windows, found = feature_matrix(features, asked)
    if not ends:
        return windows, found
    column = {name: i for i, name in enumerate(asked)}
    matrix = np.empty((windows.height, len(names)))
    matrix[:, real] = found[:, : len(real)]
    for name, of in pseudo.items():
        high = found[:, [column[names[i][0], "maximum"] for i in of]]
        if name == MISSING:
            matrix[:, of] = np.isnan(high)
        else:
            low = found[:, [column[names[i][0], "minimum"] for i in of]]
            matrix[:, of] = np.where(np.isnan(high) | np.isnan(low), np.nan, high == low)
    return windows, matrix


def lasting(deviations: Array, windows: pl.DataFrame, span: int) -> Array:
    """Moving averages of deviations, over successive windows of a run and host.

    Parameters
    ----------
    deviations : ndarray, windows x names
        NaN is missing, and counts as no deviation; what is beyond 10 counts as 10, so that a single window far out
        does not last.
    windows : polars.DataFrame
        `run_key`, `host`, `window` of each row, sorted; what was before a window that is left out is forgotten.
    span : int
        How many windows are averaged, this one and those before it; at the start of a run, what was before counts as
        no deviation.
    """
    follows = windows.select(
        (pl.col("window").diff() == 1)
        & (pl.col("run_key") == pl.col("run_key").shift())
        & (pl.col("host") == pl.col("host").shift())
    )["window"].fill_null(False)
    begins = [*np.flatnonzero(~follows.to_numpy()), len(deviations)]
    averages = np.clip(np.nan_to_num(deviations), -_LARGEST, _LARGEST)
    for begin, end in pairwise(begins):
        uniform_filter1d(
            averages[begin:end], span, axis=0, output=averages[begin:end], mode="constant", origin=(span - 1) // 2
        )
    return averages


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
    names = baseline_names(features["metric"].unique())
    index, x = baseline_matrix(features, names)
    moments, keep = _moments(x, names, settings)
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
    # what is missing or still is judged for itself, not as one feature of many
    metrics = [f"{metric} {name}" if name in {MISSING, STILL} else metric for metric, name in names]
    average = lasting(z, index, settings.lasting_windows)
    scores = _out_of_fold(z, average, run_keys, settings, metrics)
    detectors = tuple(d.fit(z if d.sees == "now" else average) for d in unfitted(settings, metrics))
    limits = np.nanquantile(scores, settings.flag_quantile, axis=0)
    return Baseline(
        Identity(platform, phase, workload, compared_with, index.height, len(references.runs), version),
        tuple(names),
        moments,
        references,
        detectors,
        {d.name: float(limit) for d, limit in zip(detectors, limits, strict=True)},
        tuple(Calibration.learn(scores[:, columns], references.run) for columns in _TOGETHER),
        -float(np.log10(settings.alarm_probability)),
        settings.allowance,
        settings.lasting_windows,
    )


def _moments(x: Array, names: Sequence[tuple[str, str]], settings: DetectorSettings) -> tuple[Moments, Mask]:
    """Moments of windows x names, and which of the names are watched."""
    moments, keep = fit_moments(x, settings.scale)
    feature = np.array([name for _, name in names])
    pseudo = np.isin(feature, (MISSING, STILL))
    if settings.scale == "robust":
        # most of what is 0 or 1 is on one side: quantiles say nothing
        plain, _ = fit_moments(x[:, pseudo], "plain")
        for part, of in zip((moments.location, moments.scale), (plain.location, plain.scale), strict=True):
            part[pseudo] = of
    keep &= ~moments.constant | pseudo | (feature == _STANDS_FOR_CONSTANT)
    has_mean = {metric for (metric, name), kept in zip(names, keep, strict=True) if name == "mean" and kept}
    keep &= ~((feature == _REPEATS) & np.array([metric in has_mean for metric, _ in names]))
    watched = {
        metric for (metric, name), kept in zip(names, keep, strict=True) if kept and name not in {MISSING, STILL}
    }
    keep &= np.array([metric in watched for metric, _ in names])
    return moments, keep


def _folds(run_keys: Sequence[str], number: int) -> NDArray[np.int64]:
    """Which fold each window is in: whole runs, or short stretches of the only one, in turn."""
    runs = {key: i for i, key in enumerate(sorted(set(run_keys)))}
    if len(runs) == 1:
        turn = max(1, min(_TURN, len(run_keys) // 3))
        return np.arange(len(run_keys)) // turn % number
    return np.array([runs[key] % number for key in run_keys])


def _out_of_fold(
    z: Array, average: Array, run_keys: Sequence[str], settings: DetectorSettings, metrics: Sequence[str]
) -> Array:
    """Scores of windows x detectors, each by detectors that were fitted on the other folds."""
    scores = np.full((len(z), len(DETECTORS)), np.nan)
    for column, detector in enumerate(unfitted(settings, metrics)):
        seen = z if detector.sees == "now" else average
        fold = _folds(run_keys, detector.folds)
        for part in np.unique(fold):
            inside = fold == part
            scores[inside, column] = detector.fit(seen[~inside]).score(seen[inside])
    return scores


def _version(x: Array, names: Sequence[tuple[str, str]], settings: DetectorSettings) -> str:
    digest = hashlib.sha256(json.dumps([settings.digest(), *names]).encode())
    digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()[:12]


def score(baseline: Baseline, judged: Judged) -> pl.DataFrame:
    """Judge windows against a baseline.

    Parameters
    ----------
    baseline : Baseline
        A fitted one.
    judged : Judged
        The windows, as `Baseline.judge` gives them.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_scores`, by run, host and window. A window with no metric that the baseline knows is one
        from which all are missing. `flagged_by` names detectors in the order of `DETECTORS`.
    """
    windows = judged.windows
    scores = baseline.scores(judged)
    order = [d.name for d in baseline.detectors]
    limits = np.array([baseline.thresholds[name] for name in order])
    flags = scores > limits
    if not baseline.knows_ranges:
        flags[:, order.index(MetricPeaks.name)] = False
    surprisal = baseline.surprisal(scores)
    return (
        windows.with_columns(
            *(pl.Series(name, scores[:, i], nan_to_null=True) for i, name in enumerate(order)),
            pl.Series("severity", (scores / np.maximum(limits, _LEAST_LIMIT)).max(axis=1), nan_to_null=True),
            pl.Series("surprisal", together(surprisal), nan_to_null=True),
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
        for kind, column in enumerate(surprisal[own].T):
            overlap = baseline.references.overlap
            if kind == _PEAKS:
                # averages share half of what they are made of with the others of their span, on average
                overlap = (overlap + baseline.span) // 2
            raised[own] |= anomalous(column, baseline.alarm, baseline.allowance, overlap)
    return raised
