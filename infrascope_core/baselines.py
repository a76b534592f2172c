"""Baselines: what normal looks like for a workload, and the judging of windows against it.

What belongs here: fitting, the model file, and scores with flags (Reveal, section 4.3). The methods live in
`detectors/`, the reasons for a flag in `attribution.py`.
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

from infrascope_core.detectors import DETECTORS, Detector, IsolationForest, unfitted
from infrascope_core.errors import NotFittedError
from infrascope_core.features import WINDOW, feature_matrix
from infrascope_core.settings import DetectorSettings
from infrascope_core.standardisation import Array, Moments, fit_moments
from infrascope_core.tables import ANOMALY_SCORES, FEATURES

_FORMAT = 2
CODE_VERSION = "1"
"""Raise it when a baseline fitted on the same windows would differ."""


@dataclass(frozen=True)
class Identity:
    """What a baseline is of and what it was made from."""

    platform: str
    phase: str
    workload: str
    windows: int
    runs: int
    version: str


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fitted baseline.

    Attributes
    ----------
    identity : Identity
    names : tuple of (metric, feature)
        Columns of the matrices, sorted by metric.
    moments : Moments
        What is expected of each name, and its spread.
    detectors : tuple of Detector
        Z-score, Mahalanobis and Isolation Forest, fitted on the standardised windows.
    thresholds : dict of str to float
        By detector name; a score above it is flagged.
    """

    identity: Identity
    names: tuple[tuple[str, str], ...]
    moments: Moments
    detectors: tuple[Detector, ...]
    thresholds: dict[str, float]

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
        }
        arrays: dict[str, NDArray[np.generic]] = {
            "meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8),
            **self.moments.arrays(),
        }
        for detector in self.detectors:
            arrays |= {f"{detector.name}.{key}": value for key, value in detector.state().items()}
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
    detectors = tuple(
        DETECTORS[name].from_state(
            {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
        )
        for name in meta["detectors"]
    )
    moments = Moments.from_arrays(arrays, len(names))
    thresholds = {name: float(meta["thresholds"][name]) for name in meta["detectors"]}
    baseline = Baseline(Identity(**meta["identity"]), names, moments, detectors, thresholds)
    for detector in detectors:
        detector.score(np.zeros((1, len(names))))
        if isinstance(detector, IsolationForest) and detector.feature.max() >= len(names):
            raise ValueError("the forest splits features that have no name")
    return baseline


def sample_windows(windows: pl.DataFrame, settings: DetectorSettings) -> pl.DataFrame:
    """Choose at most `max_windows` windows at random, seeded, whatever the order of the rows.

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
        `run_key`, `host`, `window`, sorted.
    """
    keys = windows.select(WINDOW).unique().sort(WINDOW)
    if keys.height <= settings.max_windows:
        return keys
    chosen = np.random.default_rng(settings.random_state).choice(keys.height, settings.max_windows, replace=False)
    return keys[np.sort(chosen)]


def fit_baseline(
    features: pl.DataFrame, platform: str, phase: str, workload: str, settings: DetectorSettings
) -> Baseline | None:
    """Learn what is normal from the windows of a workload's runs.

    Parameters
    ----------
    features : polars.DataFrame
        Table `window_features` of the runs, in any order.
    platform, phase, workload : str
        What the baseline is of.
    settings : DetectorSettings
        All of it but `reasons_per_window`.

    Returns
    -------
    Baseline or None
        None below `min_windows` windows, or where no feature moves.

    Notes
    -----
    Features that cannot be judged (see `fit_moments`) leave the baseline. Z-score and Mahalanobis flag above the
    `flag_quantile` of the training scores; the forest flags the share `contamination` of its training windows,
    as scikit-learn's offset does.
    """
    keys = sample_windows(features, settings)
    if keys.height < settings.min_windows:
        return None
    features = features.join(keys, on=WINDOW, how="semi")
    names = [(metric, name) for metric in features["metric"].unique().sort() for name in FEATURES]
    windows, x = feature_matrix(features, names)
    window = windows["window"].to_numpy()
    moments, keep = fit_moments(x, window, settings.opening_windows)
    if not keep.any():
        return None
    names = [name for name, kept in zip(names, keep, strict=True) if kept]
    x = x if keep.all() else x[:, keep]
    identity = Identity(
        platform, phase, workload, windows.height, windows["run_key"].n_unique(), _version(x, names, settings)
    )
    detectors = tuple(unfitted(settings))
    baseline = Baseline(identity, tuple(names), moments.select(keep), detectors, {})
    z = baseline.moments.standardise(x, window)
    del x
    for detector in detectors:
        scores = detector.fit(z).score(z)
        forest = isinstance(detector, IsolationForest)
        quantile = 1 - settings.contamination if forest else settings.flag_quantile
        baseline.thresholds[detector.name] = float(np.nanquantile(scores, quantile))
    return baseline


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
        has null scores and no flag. `flagged_by` names detectors in the order Z-score, Mahalanobis,
        Isolation Forest.
    """
    windows, matrix = feature_matrix(features, baseline.names)
    z = baseline.moments.standardise(matrix, windows["window"].to_numpy())
    order = [d.name for d in baseline.detectors]
    scores = np.stack([d.score(z) for d in baseline.detectors], axis=1)
    limits = np.array([baseline.thresholds[name] for name in order])
    flags = scores > limits
    tiny = np.finfo(float).tiny
    return (
        windows.with_columns(
            *(pl.Series(name, scores[:, i], nan_to_null=True) for i, name in enumerate(order)),
            pl.Series("severity", (scores / np.maximum(limits, tiny)).max(axis=1), nan_to_null=True),
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
