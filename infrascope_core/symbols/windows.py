"""Symbolic windows: one value per metric group and window of consecutive samples."""

from __future__ import annotations

import polars as pl

from infrascope_core.recipes import Recipe
from infrascope_core.store.sql import Relation, run_sql
from infrascope_core.symbols.settings import WindowSettings
from infrascope_core.symbols.tables import GROUP_WINDOWS


def group_windows(curated: Relation, recipe: Recipe, settings: WindowSettings) -> pl.DataFrame:
    """Reduce a run's curated samples to windows (`sql/window.sql`; docs/design.md, Recipes).

    Parameters
    ----------
    curated : pl.DataFrame or Parquet files
        The table `curated_metrics` of one run.
    recipe : Recipe
        The reducers of each group, over samples and then over columns.
    settings : WindowSettings
        Samples per window.

    Returns
    -------
    pl.DataFrame
        The table `group_windows`; infinite values count as missing.
    """
    reducers = pl.DataFrame(
        [(group.name, group.over_samples, group.over_metrics) for group in recipe.groups],
        schema=["metric_group", "over_samples", "over_metrics"],
        orient="row",
    )
    windows = run_sql(__package__, "window", {"curated": curated, "groups": reducers}, samples=settings.samples)
    return windows.cast(GROUP_WINDOWS.schema)
