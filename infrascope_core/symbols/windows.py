"""Symbolic windows: one value per metric group and window of consecutive samples."""

from __future__ import annotations

import polars as pl

from infrascope_core.recipes import Recipe
from infrascope_core.store.sql import Relation, run_sql
from infrascope_core.symbols.settings import WindowSettings
from infrascope_core.symbols.tables import GROUP_WINDOWS


def window_samples(recipe: Recipe, settings: WindowSettings, interval_s: float | None) -> int:
    """Length of a run's windows, in samples.

    Parameters
    ----------
    recipe : Recipe
        Whether windows are counted in seconds or in samples.
    settings : WindowSettings
        How many.
    interval_s : float or None
        Time between the run's samples; None where there are not two. At slower sampling a sample is a window.
    """
    if recipe.windows == "samples":
        return settings.samples
    return max(1, round(settings.seconds / interval_s)) if interval_s else 1


def group_windows(curated: Relation, recipe: Recipe, samples: int) -> pl.DataFrame:
    """Reduce a run's curated samples to windows (`sql/window.sql`; docs/design.md, Recipes).

    Parameters
    ----------
    curated : pl.DataFrame or Parquet files
        The table `curated_metrics` of one run.
    recipe : Recipe
        The reducers of each group, over samples and then over columns.
    samples : int
        Length of a window.

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
    windows = run_sql(__package__, "window", {"curated": curated, "groups": reducers}, samples=samples)
    return windows.cast(GROUP_WINDOWS.schema)
