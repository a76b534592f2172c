"""What is known of metrics: facts per run, the catalogue of each platform, and the curve of metric selection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from infrascope_core.contract import WORKLOAD_KEY, Table
from infrascope_core.quality import catalogue
from infrascope_core.quality.metrics import quality_metrics
from infrascope_core.quality.tables import METRIC_CATALOG, PRUNING_CURVE, QUALITY_METRICS
from infrascope_core.quality.trust import platform_of_unit
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.pruned import as_learnt, whole
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import METRIC_TYPES, TELEMETRY
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Part, Product, Scope, Tick

_STAGE = "quality"


def _quality_metrics(folder: DataFolder, key: str) -> pl.DataFrame:
    return quality_metrics(folder.lake.read(TELEMETRY, key), folder.lake.read(METRIC_TYPES, key))


def _metric_catalog(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """Judge the metrics of platforms that were not judged yet."""
    runs = accepted(folder).join(known, on="platform", how="anti")
    kept = _without_samples(folder, METRIC_CATALOG, runs, ["platform"])
    runs = runs.join(kept, on="platform", how="anti")
    files = folder.lake.files(QUALITY_METRICS, runs["run_key"])
    fresh = catalogue.metric_catalog(
        files, runs, _look(folder, tick), recipe_of(folder), folder.settings, looked_at=whole(folder, runs)
    )
    return pl.concat([known, kept, fresh]).sort("platform", "metric")


def _pruning_curve(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """Draw the curves of workloads that have none yet, or whose catalogue changed."""
    runs = accepted(folder).join(known, on=WORKLOAD_KEY, how="anti")
    kept, runs = _without_samples(folder, PRUNING_CURVE, runs, WORKLOAD_KEY), whole(folder, runs)
    fresh = catalogue.pruning_curves(runs, folder.lake.read(METRIC_CATALOG), _look(folder, tick), folder.settings)
    return pl.concat([known, kept, fresh]).sort(*PRUNING_CURVE.key)


def _without_samples(folder: DataFolder, table: Table, runs: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Rows of a table as it stands, of those of the platforms or workloads of which no run has samples any more."""
    lacking = runs.join(whole(folder, runs), on=by, how="anti")
    return as_learnt(folder, table, lacking.select(by).unique())


def _look(folder: DataFolder, tick: Tick) -> catalogue.Look:
    """Looks at workloads by the folder's processes, and reports how many of them were looked at."""
    return partial(folder.each, _look_at, tick=tick)


def _look_at(folder: DataFolder, sample: catalogue.Sample) -> catalogue.Seen:
    return catalogue.look_at(sample, lambda key: folder.lake.read(TELEMETRY, key), recipe_of(folder))


def _catalogue_rests_on(folder: DataFolder, platform: str) -> str:
    return recipe_of(folder).model_dump_json() + folder.settings.selection.fitted().digest()


def _rows_of_platform(folder: DataFolder, unit: str) -> str:
    return folder.lake.read_cached(METRIC_CATALOG).filter(platform=platform_of_unit(folder, unit)).write_json()


PRODUCTS = (
    Product(
        _STAGE,
        (QUALITY_METRICS,),
        Scope.PER_RUN,
        _quality_metrics,
        inputs=(TELEMETRY, METRIC_TYPES),
        code_version="4",
        libraries=("polars", "numpy"),
        decisions=(16, 37),
    ),
    Product(
        _STAGE,
        (METRIC_CATALOG,),
        Scope.FITTED,
        _metric_catalog,
        inputs=(QUALITY_METRICS, TELEMETRY),
        code_version=catalogue.CODE_VERSION,
        settings=("reanalysis", "classes"),
        depends_on=_catalogue_rests_on,
        libraries=("duckdb", "numpy"),
        decisions=(3, 16, 17, 37),
    ),
    Product(
        _STAGE,
        (PRUNING_CURVE,),
        Scope.FITTED,
        _pruning_curve,
        inputs=(TELEMETRY, Part(METRIC_CATALOG, _rows_of_platform)),
        code_version=catalogue.CODE_VERSION,
        settings=("pruning_curve",),
        depends_on=lambda folder, _: folder.settings.selection.fitted().digest(),
        libraries=("numpy",),
        decisions=(17,),
    ),
)
