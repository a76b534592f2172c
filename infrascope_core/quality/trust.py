"""Trust in metrics, by the catalogue of their platform: which are used, and how each is watched window by window."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from infrascope_core.quality.classes import STATIC
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.columns import catalogue_name
from infrascope_core.run_files.runs import platform_of
from infrascope_core.run_files.tables import PLATFORMS
from infrascope_core.store.folder import DataFolder

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
    """How a platform's metrics are watched, by the catalogue.

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
    # what was always 0 is watched too: errors that never happened, an interface that nobody used
    silent = (pl.col("status") == "always_zero") & (pl.col("treatment") != "derived")
    classes = dict(
        rows.filter(watched | silent)
        .select("metric", pl.when(silent).then(pl.lit(STATIC)).otherwise("metric_class"))
        .iter_rows()
    )
    return FeaturePlan(
        names=names,
        rates=frozenset(rows.filter(treatment="rate")["metric"]),
        classes=classes,
        left_out=frozenset(rows["metric"]) - set(classes),
    )


def excluded_metrics(catalog: pl.DataFrame, platform: str, reanalysed: bool = False) -> frozenset[str]:
    """Names of the metrics that the catalogue does not trust on a platform.

    Where values are reanalysed, a counter that hardly changes as it stands is trusted: its rate may well change.
    """
    trusted = pl.col("status").is_in(TRUSTED)
    if reanalysed:
        trusted |= (pl.col("status") == "near_constant") & (pl.col("treatment") == "rate")
    return frozenset(catalog.filter((pl.col("platform") == platform) & ~trusted)["metric"])


def plan_of_platform(folder: DataFolder, platform: str) -> FeaturePlan:
    """How a platform's metrics are watched, by the folder's catalogue."""
    names, select = recipe_of(folder).names, folder.settings.selection.enabled
    version = folder.lake.version(METRIC_CATALOG)
    return folder.once(
        ("feature plan", version, platform),
        lambda: feature_plan(folder.lake.read_cached(METRIC_CATALOG), platform, names, select),
    )


def excluded_on_platform(folder: DataFolder, platform: str) -> frozenset[str]:
    """Names of the metrics that the folder's catalogue does not trust on a platform."""
    version, reanalysed = folder.lake.version(METRIC_CATALOG), recipe_of(folder).values == "reanalysed"
    return folder.once(
        ("excluded metrics", version, platform),
        lambda: excluded_metrics(folder.lake.read_cached(METRIC_CATALOG), platform, reanalysed),
    )


def platform_of_unit(folder: DataFolder, unit: str) -> str:
    """Platform of a unit of a product: that of the run, or the platform itself, of a fitted product."""
    return unit if unit in PLATFORMS else platform_of(folder, unit)


def watched_as_text(folder: DataFolder, unit: str) -> str:
    """How the metrics of a unit's platform are watched: the part of the catalogue that features rest on."""
    return plan_of_platform(folder, platform_of_unit(folder, unit)).as_text()


def excluded_as_text(folder: DataFolder, unit: str) -> str:
    """Which metrics of a unit's platform are not trusted, and which are counters: the catalogue as groups see it."""
    platform = platform_of_unit(folder, unit)
    rates = plan_of_platform(folder, platform).rates if recipe_of(folder).values == "reanalysed" else ()
    return "\n".join([*sorted(excluded_on_platform(folder, platform)), "", *sorted(rates)])
