"""Fitting: from the windows of a workload's runs to a baseline.

What belongs here: which features are watched, folds, and thresholds and calibration from scores out of fold (Reveal,
section 4.3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from infrascope_core.anomalies import calibration, materiality
from infrascope_core.anomalies.baseline import ANY, ITSELF, Baseline, Identity
from infrascope_core.anomalies.calibration import Calibration, Prior, shipped_prior
from infrascope_core.anomalies.detectors import Detector, calibration_groups, unfitted
from infrascope_core.anomalies.features import of_windows
from infrascope_core.anomalies.levels import between_runs, by_host, is_long, level, quiet_share
from infrascope_core.anomalies.materiality import by_feature, least_changes, of_shapes
from infrascope_core.anomalies.matrix import PSEUDO_FEATURES, Names, all_names, window_matrix
from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.residuals import Residuals, seconds_apart
from infrascope_core.anomalies.sampling import sample_windows
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.anomalies.standardisation import Moments, fit_moments
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.store.lake import fingerprint

CODE_VERSION = fingerprint("6", materiality.CODE_VERSION, calibration.CODE_VERSION)
"""Raise it when a baseline fitted on the same windows would differ."""
_TURN = 10
"""Windows of a run that go into one fold together, because neighbours share samples."""
_STANDS_FOR_CONSTANT = "maximum"
"""Of a metric that never moved, one feature is watched: all others would repeat it."""
_FAR = 0.2
"""A run that is judged by itself is compared with what lies this share of it away: what lasts less has no like."""
_REPEATS = "sum_values"
"""Of a metric that has a mean, this is the same again."""


def fit_baseline(
    features: pl.DataFrame,
    platform: str,
    phase: str,
    workload: str,
    settings: DetectorSettings,
    *,
    windows: FeatureSettings | None = None,
    compared_with: str = "workload",
    prior: Prior | None = None,
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
    prior : Prior, optional
        What is known of the scores of healthy runs beforehand; by default, what ships with the package.

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
    if keys.height < features.select(WINDOW_KEY).unique().height or features["windows"].max() != 1:
        features = of_windows(features, keys)
    names = all_names(features["metric"].unique())
    index, x = window_matrix(features, names)
    moments, keep = _moments(x, names, settings)
    if not keep.any():
        return None
    cut = windows or FeatureSettings()
    moments = moments.material(*_material(features, index, names, cut))
    names = [name for name, kept in zip(names, keep, strict=True) if kept]
    x, moments = (x, moments) if keep.all() else (x[:, keep], moments.select(keep))
    version = _version(x, names, settings)
    z = moments.standardise(x)
    del x
    run_keys, place = index["run_key"].to_list(), index["window"].to_numpy()
    same_program = ANY not in {phase, workload} and compared_with not in {"past", ITSELF}
    references = References.learn(
        z,
        run_keys,
        place,
        (settings.place_windows, settings.place_share) if same_program else None,
        -(-cut.samples // cut.stride),
        most=settings.pca_windows,
    )
    if compared_with == ITSELF:
        references = replace(references, apart=max(references.overlap, int((place.max() + 1) * _FAR)))
    expected, levels = level(references, z, index, settings)
    z -= expected
    del expected
    # detectors learn from residuals alone: values and what was expected need no memory here
    residuals = Residuals.of(index, z, z, z, levels=levels, settings=settings)
    # what is missing or still is judged by itself, not as one feature of many
    metrics = [f"{metric} {name}" if name in PSEUDO_FEATURES else metric for metric, name in names]
    scores, held_out = _out_of_fold(residuals, run_keys, settings, metrics)
    detectors = tuple(d.fit(residuals.of_kind(d.sees), references.run) for d in unfitted(settings, metrics))
    limits = np.nanquantile(scores, settings.flag_quantile, axis=0)
    groups = calibration_groups(detectors)
    calibrations = tuple(
        Calibration.learn(
            scores[:, columns],
            references.run,
            [detectors[column].name for column in columns],
            detectors[columns[0]].group,
            prior or shipped_prior(),
        )
        for columns in groups
    )
    return Baseline(
        Identity(platform, phase, workload, compared_with, index.height, len(references.runs), version),
        tuple(names),
        moments,
        references,
        detectors,
        {d.name: float(limit) for d, limit in zip(detectors, limits, strict=True)},
        calibrations,
        between_runs(levels),
        _heights(scores, index, calibrations, groups, settings),
        settings,
        held_out if len(references.runs) > 1 else (),
    )


def _material(
    features: pl.DataFrame, index: pl.DataFrame, names: Names, cut: FeatureSettings
) -> tuple[Array, Array, Ints]:
    """Least changes that matter, of the names and of their shapes, and where each one's standard deviation is."""
    apart = seconds_apart(index)
    changes = least_changes(features, apart / cut.stride if apart else 1.0)
    spread = {metric: column for column, (metric, name) in enumerate(names) if name == "standard_deviation"}
    return (
        by_feature(names, changes, cut.samples),
        of_shapes(names, changes),
        np.array([spread.get(metric, -1) for metric, _ in names], dtype=np.int64),
    )


def _moments(x: Array, names: Names, settings: DetectorSettings) -> tuple[Moments, Mask]:
    """Moments of windows x names, and which of the names are watched."""
    moments, keep = fit_moments(x, settings.scale)
    feature = np.array([name for _, name in names])
    pseudo = np.isin(feature, PSEUDO_FEATURES)
    if settings.scale == "robust":
        # most of what is 0 or 1 is on one side: its quantiles are all the same
        plain, _ = fit_moments(x[:, pseudo], "plain")
        moments.location[pseudo], moments.scale[pseudo] = plain.location, plain.scale
    keep &= ~moments.constant | pseudo | (feature == _STANDS_FOR_CONSTANT)
    has_mean = {metric for (metric, name), kept in zip(names, keep, strict=True) if name == "mean" and kept}
    keep &= ~((feature == _REPEATS) & np.array([metric in has_mean for metric, _ in names]))
    watched = {metric for (metric, _), kept, extra in zip(names, keep, pseudo, strict=True) if kept and not extra}
    keep &= np.array([metric in watched for metric, _ in names])
    return moments, keep


def _folds(run_keys: Sequence[str], number: int) -> Ints:
    """Which fold each window is in: whole runs, or short stretches of the only one, in turn."""
    runs = {key: i for i, key in enumerate(sorted(set(run_keys)))}
    if len(runs) == 1:
        turn = max(1, min(_TURN, len(run_keys) // 3))
        return np.arange(len(run_keys)) // turn % number
    return np.array([runs[key] % number for key in run_keys])


def _out_of_fold(
    residuals: Residuals, run_keys: Sequence[str], settings: DetectorSettings, metrics: Sequence[str]
) -> tuple[Array, tuple[tuple[Detector, ...], ...]]:
    """Scores of windows x detectors, each by one fitted on the other folds; and these, by detector and fold."""
    detectors = unfitted(settings, metrics)
    run = np.unique(run_keys, return_inverse=True)[1].astype(np.int64)
    scores = np.full((len(run_keys), len(detectors)), np.nan)
    held_out = []
    for column, kind in enumerate(detectors):
        seen = residuals.of_kind(kind.sees)
        fold = _folds(run_keys, kind.folds)
        of_folds = []
        for part in np.unique(fold):
            inside = fold == part
            fitted = unfitted(settings, metrics)[column].fit(seen[~inside], run[~inside])
            scores[inside, column] = fitted.score(seen[inside])
            of_folds.append(fitted)
        held_out.append(tuple(of_folds))
    return scores, tuple(held_out)


def _heights(
    scores: Array,
    windows: pl.DataFrame,
    calibrations: Sequence[Calibration],
    groups: Sequence[Sequence[int]],
    settings: DetectorSettings,
) -> Array:
    """How far references are above their own quiet levels: windows x groups."""
    heights = np.full((len(scores), len(groups)), np.nan)
    for _, rows in by_host(windows):
        share = quiet_share(is_long(windows["start_ts"].gather(rows), settings), settings)
        for group, (of_group, columns) in enumerate(zip(calibrations, groups, strict=True)):
            own = scores[rows[:, None], columns]
            heights[rows, group] = of_group.combine(own, of_group.level(own, share))
    return heights.astype(np.float32).astype(np.float64)


def _version(x: Array, names: Names, settings: DetectorSettings) -> str:
    digest = hashlib.sha256(json.dumps([settings.digest(), *names]).encode())
    digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()[:12]
