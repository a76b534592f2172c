"""Fitted products of a data folder: catalogue, thresholds, baselines.

They keep what they hold: fitting adds what is missing (a platform, a group, a workload) and changes nothing else,
unless it is told to refit, or what a product rests on has changed (docs/adr/0003).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

import polars as pl

from infrascope_core import baselines, catalogue, curation, discretization, reanalysis
from infrascope_core.baselines import ANY, Baseline
from infrascope_core.errors import NotFittedError
from infrascope_core.features import WINDOW
from infrascope_core.lake import fingerprint
from infrascope_core.pipeline import Pipeline
from infrascope_core.tables import BASELINES, METRIC_CATALOG, PRUNING_CURVE, TABLES, THRESHOLDS

_MODELS = "models"
_OF = ("platform", "phase", "workload")


def fit_metric_catalog(pipeline: Pipeline, refit: bool = False) -> pl.DataFrame:
    """Judge the metrics of platforms that were not judged yet; of all, on a refit."""
    known = _fitted(pipeline, METRIC_CATALOG.name, refit)
    runs = pipeline.accepted().join(known, on="platform", how="anti")
    files = pipeline.lake.files("quality_metrics", runs["run_key"].to_list())
    fresh = catalogue.metric_catalog(files, runs, _telemetry(pipeline), pipeline.recipe, pipeline.settings)
    return _keep_fitted(pipeline, METRIC_CATALOG.name, pl.concat([known, fresh]).sort("platform", "metric"))


def _telemetry(pipeline: Pipeline) -> catalogue.ReadTelemetry:
    return lambda key: pipeline.lake.read("telemetry", key)


def fit_pruning_curve(pipeline: Pipeline, refit: bool = False) -> pl.DataFrame:
    """Draw the curves of workloads that have none yet, or whose catalogue changed; of all, on a refit."""
    known = _fitted(pipeline, PRUNING_CURVE.name, refit)
    runs = pipeline.accepted().join(known, on=["platform", "phase", "workload"], how="anti")
    catalog = pipeline.lake.read_cached(METRIC_CATALOG.name)
    fresh = catalogue.pruning_curves(runs, catalog, _telemetry(pipeline), pipeline.recipe, pipeline.settings)
    return _keep_fitted(pipeline, PRUNING_CURVE.name, pl.concat([known, fresh]).sort(*PRUNING_CURVE.key))


def fit_thresholds(pipeline: Pipeline, refit: bool = False) -> pl.DataFrame:
    """Fit levels for groups of platforms that have none yet; for all, on a refit."""
    known = _fitted(pipeline, THRESHOLDS.name, refit)
    parts = [known]
    for (platform,), runs in sorted(pipeline.accepted().partition_by("platform", as_dict=True).items()):
        keys = runs["run_key"].to_list()
        curated, windows = pipeline.lake.files("curated_metrics", keys), pipeline.lake.files("group_windows", keys)
        has = set(known.filter(pl.col("platform") == platform)["metric_group"])
        lacking = _groups(windows) - has
        parts.append(discretization.fit_thresholds(curated, windows, runs, pipeline.recipe, lacking))
    return _keep_fitted(pipeline, THRESHOLDS.name, discretization.with_version(pl.concat(parts)))


def _groups(window_files: Sequence[Path]) -> set[str]:
    scans = [pl.scan_parquet(file, glob=False).select("metric_group").unique() for file in window_files]
    return set(pl.concat(scans).collect()["metric_group"]) if scans else set()


def fit_baselines(pipeline: Pipeline, refit: bool = False) -> pl.DataFrame:
    """Fit baselines of workloads that have none yet; of all, on a refit.

    A workload with too few windows of reference runs is compared with its platform, whose baseline is fitted as
    soon as one such workload is there.
    """
    known = _fitted(pipeline, BASELINES.name, refit)
    known = known.filter(pl.Series([(pipeline.data / file).is_file() for file in known["file"]], dtype=pl.Boolean))
    settings, runs = pipeline.settings.detectors, pipeline.accepted()
    rows = [known]
    if settings.compare_with != "past":
        if settings.across_phases:
            runs = runs.with_columns(phase=pl.lit(ANY))
        unknown = runs.join(known, on=_OF, how="anti").partition_by(_OF, as_dict=True)
        lacking = set()
        for (platform, phase, workload), own in sorted(unknown.items()):
            row = _fit_baseline(pipeline, str(platform), str(phase), str(workload), own)
            rows += [row] if row is not None else []
            lacking |= {platform} if row is None else set()
        for platform in sorted(lacking - set(known.filter(workload=ANY)["platform"])):
            row = _fit_baseline(pipeline, str(platform), ANY, ANY, runs.filter(platform=platform))
            rows += [row] if row is not None else []
    fitted = _keep_fitted(pipeline, BASELINES.name, pl.concat(rows).sort(_OF))
    for model in set((pipeline.data / _MODELS).glob("*.npz")) - {pipeline.data / file for file in fitted["file"]}:
        model.unlink(missing_ok=True)
    return fitted


def _references(pipeline: Pipeline, runs: pl.DataFrame) -> tuple[list[str], str]:
    """Which of the runs a baseline is made of, and what they are called."""
    settings, keys = pipeline.settings.detectors, runs["run_key"].to_list()
    if settings.compare_with == "workload":
        return keys, "workload"
    if settings.reference_runs:
        named = [key for key in keys if any(fnmatchcase(key, pattern) for pattern in settings.reference_runs)]
    else:
        healthy = pipeline.healthy()
        named = [key for key in keys if key in healthy]
    return (named, "reference") if named or settings.compare_with == "reference" else (keys, "workload")


def _fit_baseline(
    pipeline: Pipeline, platform: str, phase: str, workload: str, runs: pl.DataFrame
) -> pl.DataFrame | None:
    keys, compared_with = _references(pipeline, runs)
    files = pipeline.lake.files("window_features", keys)
    if not files:
        return None
    # first choose the windows, then read the features of those alone: memory does not grow with the runs
    index = pl.concat(pl.scan_parquet(f, glob=False).select(WINDOW).unique() for f in files)
    chosen = baselines.sample_windows(index.collect(), pipeline.settings.detectors)
    features = pl.concat(
        pl.scan_parquet(f, glob=False).join(chosen.lazy(), on=WINDOW, how="semi") for f in files
    ).collect()
    fitted = baselines.fit_baseline(
        features,
        platform,
        phase,
        workload,
        pipeline.settings.detectors,
        windows=pipeline.settings.features,
        compared_with=compared_with,
    )
    if fitted is None:
        return None
    # a name of its own per version: a fit that is cut off leaves the old model with the old row
    file = Path(_MODELS, f"{platform}_{phase}_{workload}_{fitted.identity.version}.npz")
    fitted.save(pipeline.data / file)
    row = {
        **asdict(fitted.identity),
        "metrics": fitted.metrics,
        "fitted_at": datetime.now(UTC).replace(tzinfo=None),
        "file": str(file),
    }
    return pl.DataFrame([row], schema=BASELINES.schema)


def _fitted(pipeline: Pipeline, table: str, refit: bool) -> pl.DataFrame:
    """What is fitted already and rests on today's choices; nothing on a refit."""
    fitted = pipeline.lake.read(table)
    if refit or fitted.is_empty():
        return TABLES[table].empty()
    then = json.loads(pipeline.lake.made_from(table) or "{}")
    platforms = [p for p in fitted["platform"].unique() if then.get(p) == _fitted_under(pipeline, table, p)]
    return fitted.filter(pl.col("platform").is_in(platforms))


def _keep_fitted(pipeline: Pipeline, table: str, fitted: pl.DataFrame) -> pl.DataFrame:
    under = {p: _fitted_under(pipeline, table, p) for p in sorted(fitted["platform"].unique())}
    pipeline.lake.write(fitted, table, made_from=json.dumps(under))
    return fitted


def _fitted_under(pipeline: Pipeline, table: str, platform: str) -> str:
    """Fingerprint of what a fitted product rests on, for a platform: another recipe, other settings or,
    for what follows the catalogue, another catalogue start anew.
    """
    settings, recipe = pipeline.settings, pipeline.recipe.model_dump_json()
    if table == METRIC_CATALOG.name:
        parts = (settings.reanalysis, settings.classes, settings.selection.fitted())
        return fingerprint(table, catalogue.CODE_VERSION, recipe, *(part.digest() for part in parts))
    catalog = pipeline.lake.read_cached(METRIC_CATALOG.name)
    if table == PRUNING_CURVE.name:
        own = catalog.filter(platform=platform).write_json()
        return fingerprint(table, catalogue.CODE_VERSION, own, settings.pruning_curve.digest())
    excluded = "\n".join(sorted(curation.excluded_metrics(catalog, platform)))
    if table == THRESHOLDS.name:
        return fingerprint(table, discretization.CODE_VERSION, recipe, excluded, settings.windows.digest())
    plan = curation.feature_plan(catalog, platform, pipeline.recipe.names, settings.selection.enabled)
    watched = plan.as_text() + reanalysis.CODE_VERSION
    return fingerprint(table, baselines.CODE_VERSION, watched, settings.features.digest(), settings.detectors.digest())


def fitted_rows(pipeline: Pipeline, table: str, key: str) -> pl.DataFrame:
    """Rows of a fitted product that concern a run: those of its platform, and of its workload.

    Raises
    ------
    NotFittedError
        The product was never fitted.
    """
    if not pipeline.lake.has(table):
        raise NotFittedError(f"{table} is not fitted yet; materialize it before the products of {key}")
    run = pipeline.run_file(key)
    fitted = pipeline.lake.read_cached(table)
    concerns = [name for name in ("platform", "phase", "workload") if name in fitted.columns]
    return fitted.filter(pl.all_horizontal(pl.col(name) == run[name] for name in concerns))


def baseline_row(pipeline: Pipeline, key: str) -> dict[str, object] | None:
    """The row of `baselines` that judges a run: its workload's, else its platform's; None if neither is there.

    Raises
    ------
    NotFittedError
        Baselines were never fitted.
    """
    if not pipeline.lake.has(BASELINES.name):
        raise NotFittedError(f"{BASELINES.name} is not fitted yet; materialize it before the products of {key}")
    run, fitted = pipeline.run_file(key), pipeline.lake.read_cached(BASELINES.name)
    phase = ANY if pipeline.settings.detectors.across_phases else str(run["phase"])
    for of in ((run["platform"], phase, run["workload"]), (run["platform"], ANY, ANY)):
        row = fitted.filter(pl.all_horizontal(pl.col(name) == value for name, value in zip(_OF, of, strict=True)))
        if row.height:
            return row.row(0, named=True)
    return None


def baseline_of(pipeline: Pipeline, key: str) -> Baseline | None:
    """The baseline that judges a run, or None where there are too few windows for any."""
    if pipeline.settings.detectors.compare_with == "past":
        return _own_past(pipeline, key)
    row = baseline_row(pipeline, key)
    return None if row is None else _load(pipeline.data / str(row["file"]), str(row["version"]))


def _own_past(pipeline: Pipeline, key: str) -> Baseline | None:
    """A baseline of a run's own first windows."""
    run, settings = pipeline.run_file(key), pipeline.settings
    features = pipeline.lake.read("window_features", key).filter(pl.col("window") < settings.detectors.past_windows)
    return baselines.fit_baseline(
        features,
        str(run["platform"]),
        str(run["phase"]),
        str(run["workload"]),
        settings.detectors,
        windows=settings.features,
        compared_with="past",
    )


@lru_cache(maxsize=8)
def _load(path: Path, version: str) -> Baseline:
    baseline = Baseline.load(path)
    if baseline.identity.version != version:
        raise NotFittedError(f"{path}: holds version {baseline.identity.version}, expected {version}; refit")
    return baseline
