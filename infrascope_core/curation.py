"""Curation: the columns of a run that belong to the recipe's metric groups, and those that are watched by window."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from infrascope_core.recipes import MetricGroup, Recipe
from infrascope_core.run_file.columns import catalogue_name
from infrascope_core.tables import CURATED_METRICS
from infrascope_core.telemetry import metric_names, split_hosts

TRUSTED = ("usable", "redundant")
"""Statuses of metrics that hold information. Redundant ones stay in their group: groups are chosen by a person."""


@dataclass(frozen=True)
class FeaturePlan:
    """Which metrics of a platform are watched window by window, and how.

    Attributes
    ----------
    names : str
        `metric` or `column`: how the catalogue names metrics.
    rates : frozenset of str
        Cumulative counters.
    classes : mapping
        Class by name of the metrics that are watched.
    left_out : frozenset of str
        Metrics that are not: distrusted or, if so chosen, redundant. What was never judged is watched.
    """

    names: str = "metric"
    rates: frozenset[str] = frozenset()
    classes: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def of_host(self, metrics: list[str], host: str) -> dict[str, str | None]:
        """The watched among a host's metrics, with their class; None for those that were never judged."""
        named = ((metric, catalogue_name(metric, host, self.names)) for metric in metrics)
        return {metric: self.classes.get(name) for metric, name in named if name not in self.left_out}

    def as_text(self) -> str:
        """All of it, for fingerprints."""
        parts = [self.names, sorted(self.rates), sorted(self.classes.items()), sorted(self.left_out)]
        return json.dumps(parts)


def feature_plan(catalog: pl.DataFrame, platform: str, names: str, select: bool) -> FeaturePlan:
    """What the catalogue says of a platform's window features.

    Parameters
    ----------
    catalog : pl.DataFrame
        The table `metric_catalog`.
    platform : str
        The platform.
    names : str
        How the catalogue names metrics (`Recipe.names`).
    select : bool
        Whether redundant metrics are left out.
    """
    rows = catalog.filter(platform=platform)
    # a counter that hardly changes as it stands may well change in its rate; a level that never does is watched for
    # the day on which it does
    trusted = pl.col("status").is_in(TRUSTED) | (
        (pl.col("status") == "near_constant") & ((pl.col("treatment") == "rate") | (pl.col("metric_class") == "static"))
    )
    classed = pl.col("metric_class").is_not_null()
    watched = trusted & classed & (pl.col("represented_by").is_null() | pl.lit(not select))
    classes = dict(rows.filter(watched).select("metric", "metric_class").iter_rows())
    return FeaturePlan(
        names=names,
        rates=frozenset(rows.filter(treatment="rate")["metric"]),
        classes=classes,
        left_out=frozenset(rows["metric"]) - set(classes),
    )


def excluded_metrics(catalog: pl.DataFrame, platform: str) -> frozenset[str]:
    """Names of the metrics that the catalogue does not trust on a platform."""
    distrusted = (pl.col("platform") == platform) & ~pl.col("status").is_in(TRUSTED)
    return frozenset(catalog.filter(distrusted)["metric"])


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
