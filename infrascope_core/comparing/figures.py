"""What is compared of a run: how long it took, what was abnormal, which energy it took, and its usual levels.

What belongs here: one value a run and figure, from the tables of a data folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.recipes import Recipe, recipe_of
from infrascope_core.run_files.columns import SUBSYSTEMS
from infrascope_core.run_files.runs import run_file
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import GROUP_WINDOWS

TIME, ANOMALOUS = "run time", "anomalous time"
"""The two figures that a verdict rests on."""
_POWER = ("GPU_power", "CPU_power")
_SHARE = "share"


@dataclass(frozen=True)
class Figure:
    """A figure of a run.

    Attributes
    ----------
    name : str
        What it is.
    unit : str
        `s`, `J`, `share`, or that of a metric group.
    kind : str
        `run`, `subsystem` or `level`.
    """

    name: str
    unit: str
    kind: str


@dataclass(frozen=True)
class RunFigures:
    """A run with its figures, and what must be the same for a comparison.

    Attributes
    ----------
    baseline : str
        Version of the baseline that judged it; empty where none did.
    """

    run_key: str
    workload: str
    host: str
    interval_s: float | None
    baseline: str
    values: dict[Figure, float]


def figures_of(folder: DataFolder, keys: Sequence[str]) -> list[RunFigures]:
    """The figures of runs, in the order of their keys."""
    return [_of_run(folder, key) for key in sorted(keys)]


def _of_run(folder: DataFolder, key: str) -> RunFigures:
    run, scores = run_file(folder, key), folder.lake.read(ANOMALY_SCORES, key)
    seconds = float((run["samples"] or 0) * (run["interval_s"] or 0.0))
    values: dict[Figure, float] = {}
    if seconds:
        values[Figure(TIME, "s", "run")] = seconds
    judged = scores.filter(pl.col("anomalous").is_not_null())
    if judged.height:
        values[Figure(ANOMALOUS, _SHARE, "run")] = int(judged["anomalous"].sum()) / judged.height
        values |= dict(_by_subsystem(folder, key, judged))
    windows = folder.lake.read(GROUP_WINDOWS, key)
    values |= dict(_levels(windows, recipe_of(folder)))
    values |= dict(_energy(windows, seconds))
    versions = scores["baseline_version"].drop_nulls().unique().sort().to_list()
    return RunFigures(
        run_key=key,
        workload=f"{run['platform']}/{run['phase']}/{run['workload']}",
        host=str(run["host"]),
        interval_s=None if run["interval_s"] is None else float(str(run["interval_s"])),
        baseline=", ".join(map(str, versions)),
        values=values,
    )


def _by_subsystem(folder: DataFolder, key: str, judged: pl.DataFrame) -> Iterable[tuple[Figure, float]]:
    """Share of the judged windows with an alarm in which each subsystem has most of the evidence."""
    reasons = folder.lake.read(ANOMALY_REASONS, key)
    blamed = (
        judged.filter("anomalous")
        .select(WINDOW_KEY)
        .join(reasons, on=WINDOW_KEY)
        .sort(*WINDOW_KEY, "subsystem_share", "rank", descending=[False, False, False, True, False])
        .group_by(WINDOW_KEY, maintain_order=True)
        .agg(pl.col("subsystem").first())
    )
    count: dict[Any, int] = dict(blamed["subsystem"].value_counts().iter_rows())
    for name in SUBSYSTEMS:
        yield Figure(f"{ANOMALOUS}, {name}", _SHARE, "subsystem"), count.get(name, 0) / judged.height


def _levels(windows: pl.DataFrame, recipe: Recipe) -> Iterable[tuple[Figure, float]]:
    """The median of each metric group over the run."""
    middle = windows.group_by("metric_group").agg(pl.col("value").median()).drop_nulls("value").sort("metric_group")
    for name, value in middle.iter_rows():
        group = recipe.by_name.get(name)
        yield Figure(group.words or name if group else name, group.unit if group else "", "level"), float(value)


def _energy(windows: pl.DataFrame, seconds: float) -> Iterable[tuple[Figure, float]]:
    """Power times the run's length, over all that is measured; windows without a value are taken as the mean."""
    power = windows.filter(pl.col("metric_group").is_in(_POWER)).group_by("metric_group").agg(pl.col("value").mean())
    if power.height and seconds:
        yield Figure("energy", "J", "run"), float(power["value"].sum()) * seconds
