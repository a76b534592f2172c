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
from infrascope_core.tables import ANOMALY_SCORES, FEATURES

LARGEST_Z = 100.0
"""Standardised features are held within this bound.

In a sample of n windows none can be farther from the mean than (n - 1) / sqrt(n) standard deviations
(Samuelson's inequality), which is 100 for n = 10,000: what a baseline itself holds is not touched, so the
scores are the paper's. But a feature that hardly moved in the baseline may be a million of its tiny
standard deviations away in a new run; unbounded, that one feature would drown all others in every score.
"""
_LEAST_RELATIVE_SCALE = 1e-9
"""A standard deviation this small beside the feature's magnitude is rounding, not movement."""
_MOST_MISSING = 0.5
"""A feature missing from more of the windows than this leaves the baseline."""
_COLUMNS = 256
"""Features whose moments are taken at once, so that temporary arrays stay small beside the matrix."""
_FORMAT = 1

Array = NDArray[np.float64]


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
    location, scale : ndarray, one per name
        Mean and standard deviation (ddof 0) over the training windows that have the feature, in its own unit.
    detectors : tuple of Detector
        Z-score, Mahalanobis and Isolation Forest, fitted on the standardised windows.
    thresholds : dict of str to float
        By detector name; a score above it is flagged.
    """

    identity: Identity
    names: tuple[tuple[str, str], ...]
    location: Array
    scale: Array
    detectors: tuple[Detector, ...]
    thresholds: dict[str, float]

    @property
    def metrics(self) -> int:
        """Number of metrics the baseline knows."""
        return len({metric for metric, _ in self.names})

    def standardise(self, matrix: Array) -> Array:
        """Express windows x names in standard deviations from the mean, within +-LARGEST_Z; NaN stays."""
        z: Array = matrix - self.location
        z /= self.scale
        return np.clip(z, -LARGEST_Z, LARGEST_Z, out=z)

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
            "location": self.location,
            "scale": self.scale,
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
                f"{path}: this is not a whole baseline file of format {_FORMAT} ({error}); "
                "fit the baselines again."
            ) from error


def _from_arrays(arrays: dict[str, NDArray[np.generic]]) -> Baseline:
    meta = json.loads(arrays["meta"].tobytes())
    if meta["format"] != _FORMAT:
        raise ValueError(f"format {meta['format']}")
    names = tuple((str(metric), str(feature)) for metric, feature in meta["names"])
    detectors = tuple(
        DETECTORS[name].from_state(
            {
                key.removeprefix(f"{name}."): value
                for key, value in arrays.items()
                if key.startswith(f"{name}.")
            }
        )
        for name in meta["detectors"]
    )
    location, scale = (np.asarray(arrays[key], dtype=np.float64) for key in ("location", "scale"))
    if location.shape != (len(names),) or scale.shape != (len(names),) or not (scale > 0).all():
        raise ValueError("location and scale do not fit the names")
    thresholds = {name: float(meta["thresholds"][name]) for name in meta["detectors"]}
    baseline = Baseline(Identity(**meta["identity"]), names, location, scale, detectors, thresholds)
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
    chosen = np.random.default_rng(settings.random_state).choice(
        keys.height, settings.max_windows, replace=False
    )
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
    Location and scale are the plain mean and standard deviation, as the paper's Z-score has them. Features
    that are constant to rounding, or missing from more than half of the windows, leave the baseline: no
    finite score could be given for them. Z-score and Mahalanobis flag above the `flag_quantile` of the
    training scores; the forest flags the share `contamination` of its training windows, as scikit-learn's
    offset does.
    """
    keys = sample_windows(features, settings)
    if keys.height < settings.min_windows:
        return None
    features = features.join(keys, on=WINDOW, how="semi")
    names = [(metric, name) for metric in features["metric"].unique().sort() for name in FEATURES]
    windows, x = feature_matrix(features, names)
    location, scale, keep = (
        np.concatenate(part)
        for part in zip(
            *(_moments(x[:, i : i + _COLUMNS]) for i in range(0, x.shape[1], _COLUMNS)), strict=True
        )
    )
    if not keep.any():
        return None
    names = [name for name, kept in zip(names, keep, strict=True) if kept]
    x, location, scale = (x if keep.all() else x[:, keep]), location[keep], scale[keep]
    identity = Identity(
        platform, phase, workload, windows.height, windows["run_key"].n_unique(), _version(x, names, settings)
    )
    detectors = tuple(unfitted(settings))
    baseline = Baseline(identity, tuple(names), location, scale, detectors, {})
    z = baseline.standardise(x)
    del x
    for detector in detectors:
        scores = detector.fit(z).score(z)
        forest = isinstance(detector, IsolationForest)
        quantile = 1 - settings.contamination if forest else settings.flag_quantile
        baseline.thresholds[detector.name] = float(np.nanquantile(scores, quantile))
    return baseline


def _moments(x: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Mean and standard deviation of each column's known values, and which columns can be judged by them."""
    known = ~np.isnan(x)
    count = known.sum(axis=0)
    with np.errstate(all="ignore"):
        location = np.where(known, x, 0.0).sum(axis=0) / count
        location += np.where(known, x - location, 0.0).sum(axis=0) / count
        scale = np.sqrt(np.where(known, (x - location) ** 2, 0.0).sum(axis=0) / count)
        magnitude = np.where(known, np.abs(x), 0.0).max(axis=0)
        keep = np.isfinite(scale) & (scale > _LEAST_RELATIVE_SCALE * magnitude)
    return location, scale, keep & (count >= (1 - _MOST_MISSING) * len(x))


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
    z = baseline.standardise(matrix)
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
