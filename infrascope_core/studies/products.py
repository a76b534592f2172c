"""The paper's own evaluations of its method (Reveal, sections 5.3 to 5.5), on the runs at hand."""

from __future__ import annotations

import polars as pl

from infrascope_core.anomalies import fitting
from infrascope_core.anomalies.tables import BASELINES, WINDOW_FEATURES
from infrascope_core.patterns.tables import GROUP_ALIASES
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Product, Scope, Tick
from infrascope_core.studies import mining_choices
from infrascope_core.studies.detector_latency import measure_latency
from infrascope_core.studies.run_similarity import compare_runs
from infrascope_core.studies.tables import (
    DETECTOR_LATENCY,
    MINING_FEASIBILITY,
    RUN_SIMILARITY,
    WINDOW_AGREEMENT,
    WINDOW_SENSITIVITY,
)
from infrascope_core.studies.window_agreement import compare_window_lengths
from infrascope_core.symbols.tables import BASKETS, CURATED_METRICS, THRESHOLDS

_STAGE = "studies"


def _window_agreement(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return compare_window_lengths(folder, tick)


def _run_similarity(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return compare_runs(folder, tick)


def _detector_latency(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return measure_latency(folder, tick)


def _mining_feasibility(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return mining_choices.count_at_supports(folder, tick)


def _window_sensitivity(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return mining_choices.compare_window_lengths(folder, tick)


PRODUCTS = (
    Product(
        _STAGE,
        (WINDOW_AGREEMENT,),
        Scope.STUDIED,
        _window_agreement,
        inputs=(TELEMETRY, METRIC_CATALOG),
        settings=("agreement", "features", "detectors"),
        depends_on=lambda folder, _: fitting.CODE_VERSION,
        libraries=("scikitlearn",),
        decisions=(18,),
    ),
    Product(
        _STAGE,
        (RUN_SIMILARITY,),
        Scope.STUDIED,
        _run_similarity,
        inputs=(TELEMETRY, WINDOW_FEATURES, METRIC_CATALOG),
        settings=("similarity",),
        libraries=("scipy",),
        decisions=(18,),
    ),
    Product(
        _STAGE,
        (DETECTOR_LATENCY,),
        Scope.STUDIED,
        _detector_latency,
        inputs=(TELEMETRY, METRIC_CATALOG, BASELINES),
        code_version="2",
        settings=("latency", "features", "detectors"),
        libraries=("numpy",),
    ),
    Product(
        _STAGE,
        (MINING_FEASIBILITY,),
        Scope.STUDIED,
        _mining_feasibility,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        settings=("mining_choices", "mining"),
        libraries=("numpy",),
        decisions=(7,),
    ),
    Product(
        _STAGE,
        (WINDOW_SENSITIVITY,),
        Scope.STUDIED,
        _window_sensitivity,
        inputs=(CURATED_METRICS, THRESHOLDS, GROUP_ALIASES),
        settings=("mining_choices", "mining"),
        depends_on=lambda folder, _: recipe_of(folder).model_dump_json(),
        libraries=("duckdb", "numpy"),
        decisions=(31,),
    ),
)
