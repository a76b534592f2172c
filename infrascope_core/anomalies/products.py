"""What is abnormal: features of windows, baselines of what is normal, and each run's scores with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from infrascope_core.anomalies import attribution
from infrascope_core.anomalies.attribution import reasons
from infrascope_core.anomalies.baseline import ANY, Baseline
from infrascope_core.anomalies.deviations import metric_deviations
from infrascope_core.anomalies.findings import structural_findings, usual_kinds, with_findings
from infrascope_core.anomalies.fitting import CODE_VERSION, fit_baseline
from infrascope_core.anomalies.judging import without_itself
from infrascope_core.anomalies.model_file import FORMAT, OLDER_SUFFIXES, SUFFIX, load_baseline, save_baseline
from infrascope_core.anomalies.offsets import level_offsets
from infrascope_core.anomalies.reference_runs import baseline_of, baseline_row, baseline_version, reference_runs
from infrascope_core.anomalies.run_features import features_of_run, structure_of_run, window_length
from infrascope_core.anomalies.sampling import sampled_features
from infrascope_core.anomalies.scoring import score
from infrascope_core.anomalies.tables import (
    ANOMALY_REASONS,
    ANOMALY_SCORES,
    BASELINES,
    LEVEL_OFFSETS,
    METRIC_DEVIATIONS,
    STRUCTURAL_CHANGES,
    WINDOW_FEATURES,
)
from infrascope_core.anomalies.trends import growing
from infrascope_core.contract import TEXTS, WINDOW_KEY, WORKLOAD_KEY
from infrascope_core.errors import NotFittedError
from infrascope_core.quality import reanalysis
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import watched_as_text
from infrascope_core.run_files.pruned import as_learnt, is_pruned
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS, TELEMETRY
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Part, Product, Scope, Tick

_STAGE = "anomalies"
_MODELS = "models"
_FEATURES = "5"
"""Code version of features: raise it when those of the same telemetry would differ."""


def _baselines(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """Fit baselines of workloads that have none yet.

    A workload with too few windows of reference runs is compared with its platform, whose baseline is fitted as soon
    as one such workload is there. One that cannot be fitted anew, because samples were dropped, stays as it is.
    """
    known = known.filter(pl.Series([(folder.root / file).is_file() for file in known["file"]], dtype=pl.Boolean))
    settings, runs = folder.settings.detectors, accepted(folder)
    rows = [known]
    if settings.compare_with != "past":
        if settings.across_phases:
            runs = runs.with_columns(phase=pl.lit(ANY))
        unknown = [
            _Lacking(str(platform), str(phase), str(workload), own["run_key"].to_list())
            for (platform, phase, workload), own in sorted(
                runs.join(known, on=WORKLOAD_KEY, how="anti").partition_by(WORKLOAD_KEY, as_dict=True).items()
            )
        ]
        lacking: list[_Lacking] = []
        for unit, row in zip(unknown, folder.each(_fit, unknown, tick), strict=True):
            rows += [row] if row is not None else []
            lacking += [unit] if row is None else []
        kept = _without_samples(folder, lacking)
        rows.append(kept)
        judged = set(kept.select(WORKLOAD_KEY).iter_rows())
        unjudged = {unit.platform for unit in lacking if unit.of not in judged}
        whole = [
            _Lacking(platform, ANY, ANY, runs.filter(platform=platform)["run_key"].to_list())
            for platform in sorted(unjudged - set(known.filter(workload=ANY)["platform"]))
        ]
        for unit, row in zip(whole, folder.each(_fit, whole), strict=True):
            rows.append(row if row is not None else _without_samples(folder, [unit]))
    fitted = pl.concat(rows).sort(WORKLOAD_KEY)
    used = {folder.root / file for file in fitted["file"]}
    for model in (folder.root / _MODELS).glob("*"):
        if model.suffix in (SUFFIX, *OLDER_SUFFIXES) and model not in used:
            model.unlink(missing_ok=True)
    return fitted


class _Lacking(NamedTuple):
    """What has no baseline yet, and the keys of its runs; phase and workload are `ANY` of a whole platform."""

    platform: str
    phase: str
    workload: str
    runs: list[str]

    @property
    def of(self) -> tuple[str, str, str]:
        """Platform, phase and workload."""
        return self.platform, self.phase, self.workload


def _fit(folder: DataFolder, lacking: _Lacking) -> pl.DataFrame | None:
    keys, compared_with = reference_runs(folder, lacking.runs)
    files = folder.lake.files(WINDOW_FEATURES, [key for key in keys if not is_pruned(folder, key)])
    if not files:
        return None
    features = sampled_features(files, folder.settings.detectors)
    fitted = fit_baseline(
        features, *lacking.of, folder.settings.detectors, windows=folder.settings.features, compared_with=compared_with
    )
    if fitted is None:
        return None
    # a name of its own per version: a fit that is cut off leaves the old model with the old row
    file = Path(_MODELS, f"{'_'.join(lacking.of)}_{fitted.identity.version}{SUFFIX}")
    save_baseline(fitted, folder.root / file)
    row = {
        **asdict(fitted.identity),
        "metrics": fitted.metrics,
        "features": _how_features_are_made(folder),
        "fitted_at": datetime.now(UTC).replace(tzinfo=None),
        "file": str(file),
    }
    return pl.DataFrame([row], schema=BASELINES.schema)


def _without_samples(folder: DataFolder, lacking: Sequence[_Lacking]) -> pl.DataFrame:
    """Rows of baselines as they were fitted, for workloads with too few windows because samples were dropped."""
    of = [unit.of for unit in lacking if any(is_pruned(folder, key) for key in reference_runs(folder, unit.runs)[0])]

    def unfit(row: dict[str, Any]) -> str:
        if row["features"] != _how_features_are_made(folder):
            return "its features are computed in another way now"
        try:
            load_baseline(folder.root / row["file"])
        except NotFittedError as error:
            return str(error)
        return ""

    return as_learnt(folder, BASELINES, pl.DataFrame(of, dict.fromkeys(WORKLOAD_KEY, pl.String), orient="row"), unfit)


def _how_features_are_made(folder: DataFolder) -> str:
    return fingerprint(_FEATURES, reanalysis.CODE_VERSION, folder.settings.features.digest())


def _model_files(folder: DataFolder, unit: str) -> Sequence[Path]:
    return [folder.root / file for file in folder.lake.read_cached(BASELINES)["file"]]


def _judge(folder: DataFolder, key: str) -> tuple[pl.DataFrame, ...]:
    settings, baseline = folder.settings.detectors, baseline_of(folder, key)
    changes, length = folder.lake.read(STRUCTURAL_CHANGES, key), window_length(folder, key)
    if baseline is None:
        scores = _unjudged(folder, key) if changes.height else ANOMALY_SCORES.empty()
        why, offsets, deviations = ANOMALY_REASONS.empty(), LEVEL_OFFSETS.empty(), METRIC_DEVIATIONS.empty()
        findings = structural_findings(changes, frozenset(), length)
    else:
        usual, features = _usual_structure(folder, baseline, key), folder.lake.read(WINDOW_FEATURES, key)
        baseline = without_itself(folder, key, baseline, features)
        residuals = baseline.judge(features)
        scores = score(baseline, residuals)
        why = reasons(baseline, residuals, scores, settings)
        # a run has no level of its own beside itself
        offsets = LEVEL_OFFSETS.empty() if baseline.of_itself else level_offsets(baseline, residuals, settings)
        deviations = metric_deviations(baseline.names, residuals, length)
        findings = structural_findings(changes, usual, length)
        if not baseline.of_itself:
            findings = pl.concat([findings, growing(baseline, residuals)])
    return *with_findings(scores, why, findings, settings), offsets, deviations


def _unjudged(folder: DataFolder, key: str) -> pl.DataFrame:
    """The windows of a run that has no baseline, as rows of `anomaly_scores`."""
    windows = folder.lake.read(WINDOW_FEATURES, key, [*WINDOW_KEY, "start_ts"]).unique().sort(WINDOW_KEY)
    nothing = {"flagged_by": pl.lit([], dtype=TEXTS), "agreement": pl.lit(0)}
    return windows.select(
        name if name in windows.columns else nothing.get(name, pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in ANOMALY_SCORES.schema.items()
    )


def _usual_structure(folder: DataFolder, baseline: Baseline, key: str) -> frozenset[tuple[str, str]]:
    """What happens to metrics in the references as well, but for the run itself."""
    runs = [run for run in baseline.references.runs if run != key and folder.lake.has(STRUCTURAL_CHANGES, run)]
    if not runs:
        return frozenset()
    kinds = folder.once(
        ("structure of references", baseline.identity.version),
        lambda: {
            run: folder.lake.read(STRUCTURAL_CHANGES, run).select("metric", "kind").rows()
            for run in baseline.references.runs
            if folder.lake.has(STRUCTURAL_CHANGES, run)
        },
    )
    return usual_kinds([kinds[run] for run in runs])


def _fitted_here(folder: DataFolder, key: str) -> str:
    """How a baseline is fitted, where it is fitted for this run alone: on its own past, or on it for want of others."""
    if folder.settings.detectors.compare_with == "past":
        return CODE_VERSION
    row = baseline_row(folder, key)
    return CODE_VERSION if row is not None and row["runs"] == 1 else ""


PRODUCTS = (
    Product(
        _STAGE,
        (WINDOW_FEATURES, STRUCTURAL_CHANGES),
        Scope.PER_RUN,
        lambda folder, key: (features_of_run(folder, key), structure_of_run(folder, key)),
        inputs=(TELEMETRY, Part(METRIC_CATALOG, watched_as_text)),
        code_version=_FEATURES,
        settings=("features",),
        depends_on=lambda folder, _: reanalysis.CODE_VERSION,
        libraries=("numpy",),
        decisions=(8, 29, 40),
    ),
    Product(
        _STAGE,
        (BASELINES,),
        Scope.FITTED,
        _baselines,
        inputs=(WINDOW_FEATURES, FAULTS, Part(METRIC_CATALOG, watched_as_text)),
        code_version=f"{CODE_VERSION}.{FORMAT}.2",
        settings=("features", "detectors"),
        depends_on=lambda folder, _: reanalysis.CODE_VERSION,
        files=_model_files,
        libraries=("scikitlearn", "numpy"),
        decisions=(3, 20, 24),
    ),
    Product(
        _STAGE,
        (ANOMALY_SCORES, ANOMALY_REASONS, LEVEL_OFFSETS, METRIC_DEVIATIONS),
        Scope.PER_RUN,
        _judge,
        inputs=(WINDOW_FEATURES, STRUCTURAL_CHANGES, Part(BASELINES, baseline_version)),
        depends_on=_fitted_here,
        code_version=f"{attribution.CODE_VERSION}.2",
        settings=("detectors", "features"),
        libraries=("numpy", "scikitlearn"),
        decisions=(20, 21, 28, 29),
    ),
)
