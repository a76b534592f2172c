"""The symbolic view of runs: metric groups, windows, the thresholds of their levels, and baskets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from infrascope_core.quality import reanalysis
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import excluded_as_text, excluded_on_platform, plan_of_platform
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.pruned import as_learnt, whole
from infrascope_core.run_files.runs import accepted, platform_of, platforms, rows_of_run, run_file
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.run_files.telemetry import KEY_COLUMNS, metrics_by_host
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Part, Product, Scope, Tick
from infrascope_core.symbols import curation, discretization, windows
from infrascope_core.symbols.levels import thresholds_of_run
from infrascope_core.symbols.tables import BASKETS, CURATED_METRICS, GROUP_WINDOWS, THRESHOLDS

_STAGE = "symbols"


def _curated_metrics(folder: DataFolder, key: str) -> pl.DataFrame:
    recipe, platform = recipe_of(folder), platform_of(folder, key)
    excluded = excluded_on_platform(folder, platform)
    rates = plan_of_platform(folder, platform).rates if recipe.values == "reanalysed" else frozenset()
    parts = [CURATED_METRICS.empty()]
    for host, metrics in metrics_by_host(folder.lake, key):
        derivable = reanalysis.derivations(metrics) if recipe.values == "reanalysed" else []
        known = [*metrics, *(d.metric for d in derivable)]
        wanted = {m for group in recipe.groups for m in curation.members(group, known, host, recipe, excluded)}
        telemetry = folder.lake.read(TELEMETRY, key, [*KEY_COLUMNS, *reanalysis.needed(metrics, wanted)])
        telemetry = reanalysis.reanalyse(
            telemetry.filter(host=host),
            reanalysis.Plan(rates, recipe.names),
            [d for d in derivable if d.metric in wanted],
        )
        parts.append(curation.curated_metrics(telemetry.select(*KEY_COLUMNS, *sorted(wanted)), recipe, excluded))
    return pl.concat(parts)


def _group_windows(folder: DataFolder, key: str) -> pl.DataFrame:
    recipe = recipe_of(folder)
    interval = run_file(folder, key)["interval_s"]
    assert interval is None or isinstance(interval, float)
    samples = windows.window_samples(recipe, folder.settings.windows, interval)
    return windows.group_windows([folder.lake.path(CURATED_METRICS, key)], recipe, samples)


def _thresholds(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """Fit levels for groups of platforms that have none yet."""
    lacking = []
    for platform in platforms(folder):
        runs = accepted(folder).filter(platform=platform)
        groups = _groups(folder.lake.files(GROUP_WINDOWS, runs["run_key"]))
        lacking += [(platform, g) for g in sorted(groups - set(known.filter(platform=platform)["metric_group"]))]
    parts, left = [known], []
    for unit, fitted in zip(lacking, folder.each(_fit, lacking, tick), strict=True):
        parts.append(fitted)
        left += [unit] if fitted.is_empty() else []
    runs = accepted(folder)
    pruned = set(runs.join(whole(folder, runs), on="run_key", how="anti")["platform"])
    of = [(platform, group) for platform, group in left if platform in pruned]
    columns = dict.fromkeys(("platform", "metric_group"), pl.String)
    parts.append(as_learnt(folder, THRESHOLDS, pl.DataFrame(of, columns, orient="row")))
    return discretization.with_version(pl.concat(parts))


def _fit(folder: DataFolder, lacking: tuple[str, str]) -> pl.DataFrame:
    platform, group = lacking
    runs = accepted(folder).filter(platform=platform)
    curated, cut = (folder.lake.files(table, runs["run_key"]) for table in (CURATED_METRICS, GROUP_WINDOWS))
    return discretization.fit_thresholds(curated, cut, runs, recipe_of(folder), [group])


def _groups(window_files: Sequence[Path]) -> set[str]:
    if not window_files:
        return set()
    groups = pl.scan_parquet(list(window_files), glob=False).select("metric_group").unique().collect()
    return set(groups["metric_group"])


def _baskets(folder: DataFolder, key: str) -> pl.DataFrame:
    cut, thresholds = [folder.lake.path(GROUP_WINDOWS, key)], rows_of_run(folder, THRESHOLDS, key)
    return discretization.baskets(cut, thresholds, platform_of(folder, key))


def _recipe(folder: DataFolder, unit: str) -> str:
    return recipe_of(folder).model_dump_json()


PRODUCTS = (
    Product(
        _STAGE,
        (CURATED_METRICS,),
        Scope.PER_RUN,
        _curated_metrics,
        inputs=(TELEMETRY, Part(METRIC_CATALOG, excluded_as_text)),
        depends_on=lambda folder, unit: _recipe(folder, unit) + reanalysis.CODE_VERSION,
        decisions=(16,),
    ),
    Product(
        _STAGE,
        (GROUP_WINDOWS,),
        Scope.PER_RUN,
        _group_windows,
        inputs=(CURATED_METRICS,),
        settings=("windows",),
        depends_on=_recipe,
        libraries=("duckdb",),
    ),
    Product(
        _STAGE,
        (THRESHOLDS,),
        Scope.FITTED,
        _thresholds,
        inputs=(CURATED_METRICS, GROUP_WINDOWS, Part(METRIC_CATALOG, excluded_as_text)),
        code_version=discretization.CODE_VERSION,
        settings=("windows",),
        depends_on=_recipe,
        libraries=("duckdb",),
        decisions=(3, 6),
    ),
    Product(
        _STAGE,
        (BASKETS,),
        Scope.PER_RUN,
        _baskets,
        inputs=(GROUP_WINDOWS, Part(THRESHOLDS, thresholds_of_run)),
        libraries=("duckdb",),
        decisions=(6,),
    ),
)
