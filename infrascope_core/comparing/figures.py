"""What is compared of a run: how long it took, what was abnormal, what it did and took, and its usual levels.

What belongs here: one value a run and figure, from the tables of a data folder.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import polars as pl

from infrascope_core.anomalies.reference_runs import baseline_of
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.comparing.throughput import telling_metrics, throughputs
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.errors import NotFittedError
from infrascope_core.quality.kinds import known_kinds
from infrascope_core.quality.metrics import INTERVAL
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.recipes import Recipe, recipe_of
from infrascope_core.run_files.columns import SUBSYSTEMS, family, is_differenced
from infrascope_core.run_files.jobs import find_jobs, job_of_run
from infrascope_core.run_files.runs import accepted, run_file
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.run_files.telemetry import metrics_by_host
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import GROUP_WINDOWS

TIME, ANOMALOUS = "run time", "anomalous time"
LEADING = (TIME, ANOMALOUS)
"""The two figures that a verdict rests on."""
THROUGHPUT, ENERGY = "throughput", "energy"
"""How the names of the figures begin that not every run has."""
RUN, SUBSYSTEM, METRIC, LEVEL = "run", "subsystem", "metric", "level"
"""Kinds of figures: of the whole run; anomalous time by subsystem and by metric; usual levels of metric groups."""
SHARE = "share"
READ = (TELEMETRY, QUALITY_METRICS, GROUP_WINDOWS, ANOMALY_SCORES, ANOMALY_REASONS)
"""The tables that figures are taken from."""


@dataclass(frozen=True)
class Figure:
    """A figure of a run.

    Attributes
    ----------
    name : str
        What it is.
    unit : str
        `s`, `J`, `share`, work per second, or that of a metric group.
    kind : str
        `run`, `subsystem`, `metric` or `level`.
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
    values : dict of Figure to float
        Finite. A metric that is never the reason of an alarm has no figure of kind `metric`.
    steady : dict of str to float
        Metrics that keep one value throughout, and that value; counters are not among them.
    reference : bool
        Whether what is normal was learnt from this run, too.
    job : str
        Run key of the first run of its job: hosts of one job are no cases of their own.
    """

    run_key: str
    workload: str
    host: str
    interval_s: float | None
    baseline: str
    values: dict[Figure, float]
    steady: dict[str, float] = field(default_factory=dict)
    reference: bool = False
    job: str = ""

    @property
    def judged(self) -> bool:
        """Whether any of its windows was."""
        return any(figure.name == ANOMALOUS for figure in self.values)


def figures_of(folder: DataFolder, keys: Iterable[str]) -> list[RunFigures]:
    """The figures of runs, in the order of their keys; which of them are one job, no other run has a say in."""
    wanted = sorted(keys)
    runs = accepted(folder).filter(pl.col("run_key").is_in(wanted))
    job_of = job_of_run(find_jobs(runs, folder.settings.hosts.start_within_s))
    return [replace(_remembered(folder, key), job=job_of.get(key, key)) for key in wanted]


def _remembered(folder: DataFolder, key: str) -> RunFigures:
    """A run may be in several comparisons, and on their pages."""
    made_from = tuple(folder.lake.made_from(table, key) for table in READ)
    return folder.once(("figures", key, made_from), lambda: _of_run(folder, key))


def by_job(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """The runs with the hosts of each job put together: they are no cases of their own.

    A job takes as long as the longest of its runs; energy and work add up, of all else the mean is taken.
    """
    jobs: dict[str, list[RunFigures]] = {}
    for run in sorted(runs, key=lambda run: run.run_key):
        jobs.setdefault(run.job or run.run_key, []).append(run)
    return [_together(hosts) if len(hosts) > 1 else hosts[0] for hosts in jobs.values()]


def _together(hosts: Sequence[RunFigures]) -> RunFigures:
    values: dict[Figure, list[float]] = {}
    for host in hosts:
        for figure, value in host.values.items():
            values.setdefault(figure, []).append(value)
    first = hosts[0]
    common = {name: value for name, value in first.steady.items() if all(h.steady.get(name) == value for h in hosts)}
    return replace(
        first,
        host=", ".join(dict.fromkeys(host.host for host in hosts)),
        baseline=", ".join(dict.fromkeys(host.baseline for host in hosts if host.baseline)),
        values={figure: _of_job(figure, each) for figure, each in values.items()},
        steady=common,
        reference=any(host.reference for host in hosts),
    )


def _of_job(figure: Figure, hosts: Sequence[float]) -> float:
    if figure.name == TIME:
        return max(hosts)
    return sum(hosts) / (1 if figure.name.startswith((THROUGHPUT, ENERGY)) else len(hosts))


def _of_run(folder: DataFolder, key: str) -> RunFigures:
    run, scores = run_file(folder, key), folder.lake.read(ANOMALY_SCORES, key)
    seconds = float(run["seconds"] or 0.0)
    found: list[tuple[Figure, float]] = [(Figure(TIME, "s", RUN), seconds)] if seconds else []
    judged = scores.filter(pl.col("anomalous").is_not_null())
    if judged.height:
        found.append((Figure(ANOMALOUS, SHARE, RUN), int(judged["anomalous"].sum()) / judged.height))
        found += _by_reason(judged, folder.lake.read(ANOMALY_REASONS, key))
    found += _throughput(folder, key)
    windows, recipe = folder.lake.read(GROUP_WINDOWS, key), recipe_of(folder)
    found += _energy(windows, recipe, seconds)
    found += _levels(windows, recipe)
    versions = scores["baseline_version"].drop_nulls().unique().sort().to_list()
    return RunFigures(
        run_key=key,
        workload=f"{run['platform']}/{run['phase']}/{run['workload']}",
        host=str(run["host"]),
        interval_s=None if run["interval_s"] is None else float(run["interval_s"]),
        baseline=", ".join(map(str, versions)),
        values={figure: value for figure, value in found if math.isfinite(value)},
        steady=dict(_steady(folder.lake.read(QUALITY_METRICS, key))),
        reference=_is_reference(folder, key, versions),
    )


def _is_reference(folder: DataFolder, key: str, versions: Sequence[str]) -> bool:
    """Whether a run is among those of the baseline that judged it."""
    if not versions or folder.settings.detectors.compare_with == "past":
        return False
    try:
        baseline = baseline_of(folder, key)
    except NotFittedError:  # it was fitted anew, or is gone
        return False
    return baseline is not None and baseline.identity.version in versions and key in baseline.references.runs


def _by_reason(judged: pl.DataFrame, reasons: pl.DataFrame) -> Iterator[tuple[Figure, float]]:
    """Share of the judged windows that have an alarm, by the subsystem with most evidence and by the first reason.

    Metrics are families: a disturbance that wanders over 48 cores is one.
    """
    own = judged.filter("anomalous").select(WINDOW_KEY).join(reasons, on=WINDOW_KEY)
    blamed = own.sort(*WINDOW_KEY, "subsystem_share", "rank", descending=[False, False, False, True, False])
    first = own.sort(*WINDOW_KEY, "rank").group_by(WINDOW_KEY, maintain_order=True).first()
    of_subsystem = Counter(blamed.group_by(WINDOW_KEY, maintain_order=True).first()["subsystem"])
    for name in SUBSYSTEMS:
        yield Figure(f"{ANOMALOUS}, {name}", SHARE, SUBSYSTEM), of_subsystem[name] / judged.height
    for name, windows in sorted(Counter(map(family, first["metric"])).items()):
        yield Figure(f"{ANOMALOUS}, {name}", SHARE, METRIC), windows / judged.height


def _throughput(folder: DataFolder, key: str) -> Iterator[tuple[Figure, float]]:
    hosts = metrics_by_host(folder.lake, key)
    wanted = {name for _, metrics in hosts for _, names in telling_metrics(metrics).values() for name in names}
    if wanted:
        telemetry = folder.lake.read(TELEMETRY, key, ["host", "ts", *sorted(wanted)])
        for work, value in throughputs(telemetry.partition_by("host", maintain_order=True)):
            yield Figure(f"{THROUGHPUT}, {work}", f"{work}/s", RUN), value


def _energy(windows: pl.DataFrame, recipe: Recipe, seconds: float) -> Iterator[tuple[Figure, float]]:
    """Mean power times the run's length, over hosts; windows without a value are taken as the mean.

    Power is what the recipe adds up over metrics in W: a typical device is not the sum of all. What is measured is part
    of the name, so that a run of which less is measured does not seem to take less.
    """
    powers = [group for group in recipe.groups if group.unit == "W" and group.over_metrics == "sum"]
    mean = (
        windows.filter(pl.col("metric_group").is_in([group.name for group in powers]))
        .group_by("host", "metric_group")
        .agg(pl.col("value").mean())
        .drop_nulls("value")
        .sort("host", "metric_group")
    )
    if mean.height and seconds:
        measured = " and ".join(
            group.words or group.name for group in powers if group.name in set(mean["metric_group"])
        )
        yield Figure(f"{ENERGY} ({measured})", "J", RUN), float(mean["value"].sum()) * seconds


def _levels(windows: pl.DataFrame, recipe: Recipe) -> Iterator[tuple[Figure, float]]:
    """The median of each metric group over the run."""
    middle = windows.group_by("metric_group").agg(pl.col("value").median()).drop_nulls("value").sort("metric_group")
    uses = Counter(group.words for group in recipe.groups)
    for name, value in middle.iter_rows():
        group = recipe.by_name.get(name)
        words = group.words if group and uses[group.words] == 1 else ""
        yield Figure(words or name, group.unit if group else "", LEVEL), float(value)


def _steady(quality: pl.DataFrame) -> Iterator[tuple[str, float]]:
    """Metrics with one value throughout, the same on all hosts, by which settings of a machine can be told."""
    by_metric = quality.group_by("metric").agg(pl.col("min").min(), pl.col("max").max(), pl.col("samples").sum())
    still = by_metric.filter(pl.col("min") == pl.col("max"), pl.col("min").is_finite(), pl.col("samples") > 1)
    for name, value in still.sort("metric").select("metric", "min").iter_rows():
        if not (is_differenced(name) or _counters().fullmatch(name) or name == INTERVAL):
            yield name, float(value)


@lru_cache(maxsize=1)
def _counters() -> re.Pattern[str]:
    return re.compile(known_kinds().counters, re.IGNORECASE)
