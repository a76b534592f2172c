"""Status of metrics over many runs: which are trusted, which are cumulative counters (`sql/catalog.sql`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from infrascope_core.quality.kinds import known_kinds
from infrascope_core.quality.metrics import SAMPLING
from infrascope_core.quality.settings import ReanalysisSettings
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.recipes import Recipe
from infrascope_core.store.sql import run_sql


def metric_status(
    quality_files: Sequence[Path],
    runs: pl.DataFrame,
    recipe: Recipe,
    settings: ReanalysisSettings | None = None,
    levels: Collection[str] = (),
) -> pl.DataFrame:
    """Verdict per platform and metric over all runs.

    The rules of the status are the recipe's (docs/design.md, Recipes): always missing, always zero, near constant. The
    treatment says which metrics are cumulative counters (Reveal, appendix B; docs/adr/0016).

    Parameters
    ----------
    quality_files : sequence of Path
        Parquet files of `quality_metrics`, in sorted order.
    runs : pl.DataFrame
        run_key and platform of the runs to pool; started_at, samples and interval_s tell which of them are successive.
    recipe : Recipe
        Says how metrics are named and which constancy counts.
    settings : ReanalysisSettings, optional
        What makes a cumulative counter.
    levels : collection of str
        Units of metrics that are none, however they move.

    Returns
    -------
    pl.DataFrame
        The table `metric_catalog`, in which metric_class, formula, represented_by and correlation are still null.
    """
    if not quality_files:
        return METRIC_CATALOG.empty()
    lasted = pl.duration(microseconds=(pl.col("samples") - 1) * pl.col("interval_s") * 1e6)
    times = {"started_at": pl.col("started_at"), "ended_at": pl.col("started_at") + lasted}
    if "started_at" not in runs.columns:
        times = dict.fromkeys(times, pl.lit(None, pl.Datetime("us")))
    pooled = run_sql(
        __package__,
        "catalog",
        {"quality": quality_files, "runs": runs.select("run_key", "platform", **times)},
        names=recipe.names,
        constancy=recipe.constancy,
        near_constant=recipe.near_constant,
        levels=sorted(levels),
        known_counters=known_kinds().counters,
        known_levels=known_kinds().levels,
        **(settings or ReanalysisSettings()).model_dump(),
    )
    treatment = pl.when("cumulative").then(pl.lit("rate")).otherwise(pl.lit("as_is"))
    pooled = pooled.filter(pl.col("subsystem") != SAMPLING).with_columns(treatment=treatment)
    return pl.concat([METRIC_CATALOG.empty(), pooled.drop("cumulative").cast({"runs": pl.Int64})], how="diagonal")
