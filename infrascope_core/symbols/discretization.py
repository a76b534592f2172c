"""Discretization: what LOW, MED and HIGH mean for a metric group, and the baskets that follow from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from infrascope_core.recipes import Recipe
from infrascope_core.store.sql import Relation, run_sql
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS

CODE_VERSION = "2"
"""Raise it when thresholds fitted on the same values would differ."""
_MODE_MASS = 1 / 3
"""A value that holds more than this share of a group's mass becomes a level of its own (docs/design.md, Recipes)."""
_LEVEL_MASS = 0.05
"""A level with a smaller share of the windows counts as empty: what hardly ever happens cannot be tied to anything."""
_LEVEL_RUNS = 3
"""Two levels must both occur in so many runs, where there are so many."""


@dataclass(frozen=True)
class Pooled:
    """A group's values over a platform: a row of `sql/pool.sql`."""

    samples: int
    lower: float
    upper: float
    smallest: float
    smallest_samples: int
    largest: float
    largest_samples: int
    mode: float
    mode_samples: int
    rest_median: float | None


def cut(pooled: Pooled, method: str) -> tuple[float, float, str]:
    """Find (low, high, method): at or below low is LOW, at or below high is MED, above it HIGH.

    `mode_aware`: where one value holds more than a third of the mass it is a level of its own; LOW if it is
    the smallest value, HIGH if the largest, else MED; what remains is split at its median, or, where the mode
    is MED, by the mode itself. Where both ends hold more than a third (a device that works or waits), MED is
    what lies between. So that one comparison serves all cases, a bound that must exclude a value lies one
    floating-point step below it.
    """
    mass = _MODE_MASS * pooled.samples
    if method == "terciles" or pooled.mode_samples <= mass:
        return pooled.lower, pooled.upper, "terciles"
    under_largest = math.nextafter(pooled.largest, -math.inf)
    if pooled.rest_median is None:
        return pooled.mode, pooled.mode, "mode_low"
    if pooled.smallest_samples > mass and pooled.largest_samples > mass:
        return pooled.smallest, under_largest, "mode_both"
    if pooled.mode == pooled.smallest:
        # a rest that is mostly its largest value keeps that value as HIGH
        return pooled.mode, min(pooled.rest_median, under_largest), "mode_low"
    if pooled.mode == pooled.largest:
        return pooled.rest_median, under_largest, "mode_high"
    return math.nextafter(pooled.mode, -math.inf), pooled.mode, "mode_med"


def fit_thresholds(
    curated_files: Sequence[Path],
    window_files: Sequence[Path],
    runs: pl.DataFrame,
    recipe: Recipe,
    groups: Collection[str],
) -> pl.DataFrame:
    """Fit the thresholds of every platform and the given metric groups.

    One group is in memory at a time.

    Parameters
    ----------
    curated_files, window_files : sequence of Path
        Parquet files of `curated_metrics` and `group_windows`; the recipe says which are the population.
    runs : pl.DataFrame
        run_key and platform of the runs to pool.
    recipe : Recipe
        Method, population and quantiles.
    groups : collection of str
        Metric groups to fit.

    Returns
    -------
    pl.DataFrame
        The table `thresholds`, without `version` (see `with_version`).
    """
    rows = []
    for group in sorted(groups):
        windows = _values(group, window_files)
        population = _values(group, curated_files) if recipe.population == "samples" else windows
        rows += _fit_group(group, population, windows, runs.select("run_key", "platform"), recipe)
    fitted = pl.DataFrame(rows, schema=THRESHOLDS.schema, orient="row")
    return fitted.sort("platform", "metric_group")


def _values(group: str, files: Sequence[Path]) -> pl.DataFrame:
    if not files:
        return pl.DataFrame(schema={"run_key": pl.String, "value": pl.Float64})
    return pl.scan_parquet(list(files), glob=False).filter(metric_group=group).select("run_key", "value").collect()


def _fit_group(
    group: str, population: pl.DataFrame, windows: pl.DataFrame, runs: pl.DataFrame, recipe: Recipe
) -> list[tuple[object, ...]]:
    lower, upper = recipe.quantiles
    pooled = run_sql(__package__, "pool", {"observed": population, "runs": runs}, lower=lower, upper=upper)
    fitted = {}
    for row in pooled.iter_rows(named=True):
        platform = str(row.pop("platform"))
        fitted[platform] = (*cut(Pooled(**row), recipe.method), row["samples"])
    cuts = pl.DataFrame(
        [(platform, low, high) for platform, (low, high, *_) in fitted.items()],
        schema={"platform": pl.String, "low": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    # the shares are those of windows, whatever the population: baskets are made of windows, and drift is theirs
    levels = run_sql(__package__, "count_levels", {"observed": windows, "runs": runs, "cuts": cuts})
    rows: list[tuple[object, ...]] = []
    for platform, low, med, high, seen, *together in levels.iter_rows():
        shares = [count / (low + med + high) for count in (low, med, high)]
        alive = [share >= _LEVEL_MASS for share in shares]
        least = _LEVEL_RUNS if seen >= _LEVEL_RUNS else 1
        informative = any(
            alive[one] and alive[other] and with_both >= least
            for (one, other), with_both in zip(((0, 1), (0, 2), (1, 2)), together, strict=True)
        )
        rows.append((platform, group, *fitted[platform], *shares, not informative, None))
    return rows


def with_version(thresholds: pl.DataFrame) -> pl.DataFrame:
    """Stamp the rows of each platform with a hash of them."""
    parts = [THRESHOLDS.empty()]
    for part in thresholds.sort("platform", "metric_group").partition_by("platform", maintain_order=True):
        version = hashlib.sha256(part.drop("version").write_json().encode()).hexdigest()[:12]
        parts.append(part.with_columns(version=pl.lit(version)))
    return pl.concat(parts)


def baskets(group_windows: Relation, thresholds: pl.DataFrame, platform: str) -> pl.DataFrame:
    """Give every window its levels (`sql/discretize.sql`).

    Parameters
    ----------
    group_windows : pl.DataFrame or Parquet files
        The table `group_windows` of one run.
    thresholds : pl.DataFrame
        The table `thresholds`.
    platform : str
        Platform of the run.

    Returns
    -------
    pl.DataFrame
        The table `baskets`; a group without data in a window, or without thresholds, has no item.
    """
    own = thresholds.filter(pl.col("platform") == platform).select("metric_group", "low", "high")
    levels = run_sql(__package__, "discretize", {"group_windows": group_windows, "thresholds": own})
    return levels.cast(BASKETS.schema)
