"""The metric catalogue of a platform: status from all runs, class and selection from a sample of them.

What belongs here: the one pass over telemetry that metric classes and selection share, and putting the parts together.
Memory is bounded by one run's telemetry and the matrices of one workload's sampled runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from infrascope_core.numeric import Array
from infrascope_core.quality import classes as metric_classes
from infrascope_core.quality import kinds, reanalysis, selection, status
from infrascope_core.quality.reanalysis import Plan
from infrascope_core.quality.selection import Correlations
from infrascope_core.quality.settings import SelectionSettings
from infrascope_core.quality.tables import METRIC_CATALOG, PRUNING_CURVE
from infrascope_core.recipes import Recipe
from infrascope_core.run_files.columns import catalogue_name, subsystem, unit
from infrascope_core.run_files.telemetry import metric_names, split_hosts
from infrascope_core.settings import Settings
from infrascope_core.store.lake import fingerprint

CODE_VERSION = fingerprint("3", reanalysis.CODE_VERSION, selection.CODE_VERSION, kinds.CODE_VERSION)
"""Raise the number when a catalogue of the same runs would differ."""
ReadTelemetry = Callable[[str], pl.DataFrame]
"""Telemetry of a run, by its key."""


class Sample(NamedTuple):
    """Runs of a workload that are looked at.

    Attributes
    ----------
    phase, workload : str
    runs : list of str
        Run keys.
    of_interest, rates : frozenset of str
        Metrics, as the catalogue names them: those whose samples are looked at, and those that count.
    behaviours : bool
        Whether it is asked how metrics behave, or only how they go together.
    """

    phase: str
    workload: str
    runs: list[str]
    of_interest: frozenset[str]
    rates: frozenset[str]
    behaviours: bool


Seen = tuple[pl.DataFrame, Correlations]
"""What the runs of a sample show: see `Study`."""
Look = Callable[[Sequence[Sample]], Iterable[Seen]]
"""Gives what `look_at` sees in each sample, in their order, whoever looks."""

_WATCHED = (metric_classes.DYNAMIC, metric_classes.EVENT_COUNTER)
_OF_INTEREST = (pl.col("status") == "usable") | (
    (pl.col("status") == "near_constant") & (pl.col("treatment") == "rate")
)
"""A counter that is near constant as it stands may well vary in its rate."""
_WORKLOAD = ("platform", "phase", "workload")


@dataclass(frozen=True)
class Study:
    """What the sampled runs of a platform show.

    Attributes
    ----------
    behaviours : pl.DataFrame
        A row per run, host and metric, as `metric_classes.behaviour` gives it; run_key, unit, subsystem, and formula of
        derived metrics beside it.
    correlations : dict
        Mean matrix by (phase, workload).
    """

    behaviours: pl.DataFrame
    correlations: dict[tuple[str, str], Correlations]


def sampled_runs(runs: pl.DataFrame, settings: SelectionSettings) -> pl.DataFrame:
    """At most `max_runs` runs of each workload: a seeded choice that does not depend on the order of the runs."""
    parts = [runs.clear()]
    for _, own in sorted(runs.sort("run_key").partition_by(_WORKLOAD, as_dict=True).items(), key=lambda p: p[0]):
        if own.height > settings.max_runs:
            rng = np.random.default_rng(settings.random_state)
            own = own[np.sort(rng.choice(own.height, settings.max_runs, replace=False))]  # noqa: PLW2901
        parts.append(own)
    return pl.concat(parts)


def look_at(sample: Sample, read: ReadTelemetry, recipe: Recipe) -> Seen:
    """Read the runs of a sample, one after the other.

    Parameters
    ----------
    sample : Sample
        Which runs, and which of their metrics.
    read : callable
        Telemetry by run key.
    recipe : Recipe
        How metrics are named.
    """
    plan, matrices, behaviours = Plan(sample.rates, recipe.names), [], [_NO_BEHAVIOUR]
    for key in sample.runs:
        for part in split_hosts(read(key)):
            after = _reanalysed(part, plan, sample.of_interest)
            if sample.behaviours:
                behaviours.append(_behaviour(part, after, plan))
            matrices.append((after.names, selection.pearson(after.values)))
    return pl.concat(behaviours), Correlations.mean(matrices)


def study(
    runs: pl.DataFrame, catalog: pl.DataFrame, look: Look, settings: SelectionSettings, *, behaviours: bool = True
) -> Study:
    """Look at the sampled runs of one platform.

    Parameters
    ----------
    runs : pl.DataFrame
        Rows of `run_files`, of one platform.
    catalog : pl.DataFrame
        Rows of the platform as `status.metric_status` gives them.
    look : callable
        See `Look`.
    settings : SelectionSettings
        How many runs, and which.
    behaviours : bool
        Whether it is asked how metrics behave: that is a third of the work.
    """
    rates = frozenset(catalog.filter(treatment="rate")["metric"])
    of_interest = frozenset(catalog.filter(_OF_INTEREST)["metric"])
    chosen = sampled_runs(runs, settings).partition_by(_WORKLOAD, as_dict=True)
    samples = [
        Sample(str(phase), str(workload), own["run_key"].to_list(), of_interest, rates, behaviours)
        for (_, phase, workload), own in sorted(chosen.items(), key=lambda p: p[0])
    ]
    seen = list(look(samples))
    return Study(
        pl.concat([_NO_BEHAVIOUR, *(behaviour for behaviour, _ in seen)]),
        {(s.phase, s.workload): matrix for s, (_, matrix) in zip(samples, seen, strict=True)},
    )


class _Reanalysed(NamedTuple):
    """A host's metrics after reanalysis.

    Attributes
    ----------
    metrics, names : list of str
        As its file has them, and as the catalogue has them.
    values : ndarray, samples x metrics
    formulas : dict of str to str
        By metric, of those that are derived.
    """

    metrics: list[str]
    names: list[str]
    values: Array
    formulas: dict[str, str]


def _reanalysed(part: pl.DataFrame, plan: Plan, of_interest: frozenset[str]) -> _Reanalysed:
    host = str(part["host"][0])
    formulas = {d.metric: d.formula.words for d in reanalysis.derivations(metric_names(part))}
    after = reanalysis.reanalyse(part, plan)
    named = {metric: catalogue_name(metric, host, plan.names) for metric in metric_names(after)}
    metrics = [m for m, name in named.items() if name in of_interest or m in formulas]
    return _Reanalysed(metrics, [named[m] for m in metrics], reanalysis.matrix(after, metrics), formulas)


def _behaviour(part: pl.DataFrame, after: _Reanalysed, plan: Plan) -> pl.DataFrame:
    """How a host's metrics behave: rows of `Study.behaviours`."""
    # a derived metric is a rate or a ratio and counts nothing
    counters = np.array([name in plan.rates for name in after.names], dtype=bool)
    return metric_classes.behaviour(after.values, after.names, counters).with_columns(
        run_key=pl.lit(str(part["run_key"][0])),
        unit=pl.Series([unit(m) for m in after.metrics], dtype=pl.String),
        subsystem=pl.Series([subsystem(m) for m in after.metrics], dtype=pl.String),
        formula=pl.Series([after.formulas.get(m) for m in after.metrics], dtype=pl.String),
    )


_NO_BEHAVIOUR = metric_classes.behaviour(np.empty((0, 0)), []).with_columns(
    pl.lit(None, pl.String).alias(name) for name in ("run_key", "unit", "subsystem", "formula")
)


def metric_catalog(
    quality_files: Sequence[Path],
    runs: pl.DataFrame,
    look: Look,
    recipe: Recipe,
    settings: Settings,
    *,
    looked_at: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Judge all metrics of the platforms of some runs.

    Parameters
    ----------
    quality_files : sequence of Path
        Parquet files of `quality_metrics` of the runs, in sorted order.
    runs : pl.DataFrame
        Rows of `run_files`.
    look : callable
        See `Look`.
    recipe : Recipe
        How metrics are named, and which are near constant.
    settings : Settings
        What makes a counter and a class, and when a metric is redundant.
    looked_at : pl.DataFrame, optional
        Those of the runs that have telemetry; by default all.

    Returns
    -------
    pl.DataFrame
        The table `metric_catalog`.
    """
    looked_at = runs if looked_at is None else looked_at
    judged = status.metric_status(quality_files, runs, recipe, settings.reanalysis, reanalysis.level_units())
    parts = [METRIC_CATALOG.empty()]
    for platform in sorted(runs["platform"].unique()):
        rows = judged.filter(platform=platform)
        seen = study(looked_at.filter(platform=platform), rows, look, settings.selection)
        parts.append(_of_platform(platform, rows, seen, recipe, settings))
    return pl.concat(parts).sort("platform", "metric")


def _of_platform(platform: str, judged: pl.DataFrame, seen: Study, recipe: Recipe, settings: Settings) -> pl.DataFrame:
    classes = metric_classes.classify(seen.behaviours, reanalysis.level_units(), settings.classes)
    rows = pl.concat([judged, _derived(platform, seen.behaviours, classes, judged["metric"], recipe)]).drop(
        "metric_class"
    )
    rows = rows.join(classes.select("metric", "metric_class", "why"), on="metric", how="left")
    # what never moves anywhere needs no look at telemetry; what has no value or is always 0 has no class
    constant = (pl.col("status") == "near_constant") & (pl.col("treatment") == "as_is")
    # the mean of a code says nothing; what matters is that it changes
    state = pl.col("declared") == "state"
    unseen = _OF_INTEREST & pl.col("metric_class").is_null() & ~state.fill_null(False)
    rows = rows.with_columns(
        metric_class=pl.when(constant | (state & pl.col("status").is_in(["usable", "near_constant"])))
        .then(pl.lit(metric_classes.STATIC))
        .when(unseen)
        .then(pl.lit(metric_classes.DYNAMIC))
        .when(pl.col("status").is_in(["usable", "near_constant"]))
        .then("metric_class"),
        why=pl.when(unseen)
        .then(pl.lit("dynamic: not in the runs that were looked at"))
        .when(state & (pl.col("status") == "usable"))
        .then(pl.lit("static: declared to be a state"))
        .otherwise("why"),
    )
    candidates = rows.filter(pl.col("metric_class").is_in(_WATCHED))
    groups = _groups(candidates)
    matrices = {"/".join(workload): matrix.of(groups) for workload, matrix in seen.correlations.items()}
    if not settings.selection.across_subsystems:
        matrices = {workload: matrix.within(groups) for workload, matrix in matrices.items()}
    redundant = selection.select(matrices, settings.selection.max_correlation)
    rows = rows.drop("represented_by", "correlation").join(redundant, on="metric", how="left")
    because = pl.format("r {} with {} in {}", pl.col("correlation").round(3), "represented_by", "workload")
    is_redundant = pl.col("represented_by").is_not_null()
    return rows.with_columns(
        unit=pl.when(pl.col("treatment") == "rate").then(pl.col("unit") + "/s").otherwise("unit"),
        # a counter that is near constant as it stands keeps that status: metric groups go by it
        status=pl.when(is_redundant & (pl.col("status") == "usable")).then(pl.lit("redundant")).otherwise("status"),
        reason=pl.concat_str("reason", "why", pl.when(is_redundant).then(because), separator="; ", ignore_nulls=True),
    ).select(METRIC_CATALOG.schema.names())


def _derived(
    platform: str, behaviours: pl.DataFrame, classes: pl.DataFrame, in_files: pl.Series, recipe: Recipe
) -> pl.DataFrame:
    """Catalogue rows of the derived metrics, judged by the same rules as the others."""
    # a file may bring a column of that name; then it is the file's
    derived = behaviours.filter(pl.col("formula").is_not_null() & ~pl.col("metric").is_in(in_files.implode()))
    known = derived.group_by("metric", maintain_order=True).agg(
        pl.first("unit", "subsystem", "formula"), runs=pl.col("run_key").n_unique()
    )
    rows = known.join(classes.select("metric", "samples", "zeros", "cv"), on="metric", how="left").with_columns(
        platform=pl.lit(platform),
        treatment=pl.lit("derived"),
        status=pl.when(pl.col("samples").is_null())
        .then(pl.lit("always_missing"))
        .when(pl.col("zeros") == pl.col("samples"))
        .then(pl.lit("always_zero"))
        .when(pl.col("cv") < recipe.near_constant)
        .then(pl.lit("near_constant"))
        .otherwise(pl.lit("usable")),
    )
    return pl.concat(
        [METRIC_CATALOG.empty(), rows.drop("samples", "zeros", "cv").cast({"runs": pl.Int64})], how="diagonal"
    )


def _groups(candidates: pl.DataFrame) -> dict[str, str]:
    """Subsystem of the metrics among which is selected."""
    return dict(candidates.select("metric", "subsystem").iter_rows())


def pruning_curves(runs: pl.DataFrame, catalog: pl.DataFrame, look: Look, settings: Settings) -> pl.DataFrame:
    """What selection would keep at other thresholds, for every workload (Reveal, figure 4).

    Parameters
    ----------
    runs : pl.DataFrame
        Rows of `run_files`.
    catalog : pl.DataFrame
        The table `metric_catalog`: the metrics among which is selected are those with a class of their own.
    look : callable
        See `Look`.
    settings : Settings
        The thresholds, and the sample of runs.

    Returns
    -------
    pl.DataFrame
        The table `pruning_curve`.
    """
    parts = [PRUNING_CURVE.empty()]
    for (platform,), own in sorted(runs.partition_by("platform", as_dict=True).items()):
        rows = catalog.filter(platform=platform)
        candidates = rows.filter(pl.col("metric_class").is_in(_WATCHED))
        # redundancy is what is studied here: it must not decide who takes part
        open_rows = rows.with_columns(status=pl.col("status").replace("redundant", "usable"))
        seen = study(own, open_rows, look, settings.selection, behaviours=False)
        groups = _groups(candidates)
        apart = None if settings.selection.across_subsystems else groups
        for (phase, workload), matrix in seen.correlations.items():
            curve = selection.pruning_curve(matrix.of(groups), settings.pruning_curve, apart)
            names = {"platform": str(platform), "phase": phase, "workload": workload}
            parts.append(curve.select(*(pl.lit(value).alias(name) for name, value in names.items()), pl.all()))
    return pl.concat(parts).sort(*PRUNING_CURVE.key)
