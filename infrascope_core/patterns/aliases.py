"""Aliases: metric groups that say what another one says, and are left out of patterns.

What belongs here: the finding of them. What is high whenever something else is low by construction (memory in use and
available memory) makes rules that are true and say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Array, median
from infrascope_core.patterns.tables import GROUP_ALIASES
from infrascope_core.recipes import Recipe

_ALIKE = 0.95
"""Rank correlation from which two groups say one thing, the median over runs."""
_FEWEST = 10
"""Windows of a run in which two groups must both be known, to be compared in it."""


def group_aliases(
    windows: Iterable[pl.DataFrame], groups: Sequence[str], platform: str, recipe: Recipe
) -> pl.DataFrame:
    """Find the aliases of a platform.

    Parameters
    ----------
    windows : iterable of polars.DataFrame
        Table `group_windows` of its runs, of many of them of some: a median does not need them all.
    groups : sequence of str
        Its informative groups, in the order of the recipe: of those that are alike, the first stands for the others.
    platform : str
        Written into the column `platform`.
    recipe : Recipe
        Its groups' `same_as`.

    Returns
    -------
    polars.DataFrame
        Table `group_aliases`, by group. The correlation is Spearman's, within each run and host (pandas).
    """
    by_run = [
        _rank_correlations(part, groups)
        for table in windows
        for _, part in sorted(table.partition_by(HOST_KEY, as_dict=True).items())
    ]
    shape = (len(groups), len(groups))
    alike = median(np.stack(by_run), axis=0) if by_run else np.full(shape, np.nan)
    place = {name: i for i, name in enumerate(groups)}
    rows: dict[str, tuple[str, str, str, bool, float | None, bool, int]] = {}
    for group in recipe.groups:
        if group.name in place and group.same_as in place:
            r = alike[place[group.name], place[group.same_as]]
            known = None if np.isnan(r) else float(r)
            rows[group.name] = (platform, group.name, group.same_as, group.inverse, known, True, len(by_run))
    for i, name in enumerate(groups):
        for other in groups[:i]:
            r = alike[i, place[other]]
            if name not in rows and other not in rows and abs(r) >= _ALIKE:
                rows[name] = (platform, name, other, bool(r < 0), float(r), False, len(by_run))
    return pl.DataFrame([rows[name] for name in sorted(rows)], schema=GROUP_ALIASES.schema, orient="row")


def _rank_correlations(windows: pl.DataFrame, groups: Sequence[str]) -> Array:
    """Spearman's correlation of each group with each other in one run: NaN where too little is known."""
    wide = windows.filter(pl.col("metric_group").is_in(groups)).pivot(on="metric_group", index="window", values="value")
    frame = wide.drop("window").to_pandas().reindex(columns=list(groups))
    found: Array = frame.corr(method="spearman", min_periods=_FEWEST).to_numpy(dtype=np.float64)
    return found
