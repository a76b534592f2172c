"""Curation: the columns of a run that belong to the recipe's metric groups."""

from __future__ import annotations

import re

import polars as pl

from infrascope_core.recipes import MetricGroup, Recipe
from infrascope_core.run_files.columns import catalogue_name
from infrascope_core.run_files.telemetry import metric_names, split_hosts
from infrascope_core.symbols.tables import CURATED_METRICS


def curated_metrics(telemetry: pl.DataFrame, recipe: Recipe, excluded: frozenset[str]) -> pl.DataFrame:
    """Long frame of the group's columns, every sample kept (a missing value stays as a null).

    Parameters
    ----------
    telemetry : pl.DataFrame
        run_key, host, sample, ts, then one column per metric; the rows of one run.
    recipe : Recipe
        The metric groups.
    excluded : frozenset of str
        Metrics that leave their group, named as the recipe names them.

    Returns
    -------
    pl.DataFrame
        The table `curated_metrics`.
    """
    parts = [CURATED_METRICS.empty()]
    for part in split_hosts(telemetry):
        host = str(part["host"][0])
        for group in recipe.groups:
            for metric in members(group, metric_names(part), host, recipe, excluded):
                parts.append(
                    part.select(
                        "run_key",
                        "host",
                        pl.lit(group.name).alias("metric_group"),
                        pl.lit(metric).alias("metric"),
                        "sample",
                        "ts",
                        pl.col(metric).alias("value"),
                    )
                )
    return pl.concat(parts)


def members(group: MetricGroup, metrics: list[str], host: str, recipe: Recipe, excluded: frozenset[str]) -> list[str]:
    """Metrics of a host that belong to a group: those of its first pattern that finds any, less the excluded.

    A fallback pattern is for hosts that lack the preferred metric, not for those where it is excluded.
    """
    named = [(metric, catalogue_name(metric, host, recipe.names)) for metric in metrics]
    for pattern in group.patterns:
        search = re.compile(pattern, re.IGNORECASE).search
        found = [(metric, name) for metric, name in named if search(name)]
        if found:
            return [metric for metric, name in found if name not in excluded]
    return []
