"""The report on a run: verdict, why, evidence, next step, and what limits it (Reveal, sections 4.4, 6, appendix C).

What belongs here: from a run's tables to one `RunReport`, and that as markdown and as JSON. The layout is in
`recipes/report.md.jinja`, the advice in `recipes/next_steps.yaml`. Nothing that a file names is trusted: names and
claims are escaped wherever they are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

import jinja2
import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, WINDOW_FEATURES
from infrascope_core.contract import WINDOW_KEY as WINDOW
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.quality.metrics import INTERVAL
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.reports.settings import ReportSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.run_files.columns import SUBSYSTEMS, subsystem

SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes its meaning or goes."""

PRESENCE = "maximum"
"""A feature that every metric has which has data in a window, whatever its class."""

_METHODS = {"zscore": "Z", "mahalanobis": "MAHA", "isolation_forest": "IF", "peaks": "PEAKS"}
_VERDICTS = {"anomalous": "Anomalous", "normal": "Normal", "not_judged": "Not judged"}

Verdict = Literal["anomalous", "normal", "not_judged"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Share(_Part):
    """A subsystem and its share of an episode's evidence."""

    subsystem: str
    share: float


class Change(_Part):
    """The usual level of a metric group before, during and after an episode; null: it had no data."""

    metric_group: str
    before: str | None
    during: str | None
    after: str | None


class EpisodeReport(_Part):
    """An episode: a row of `anomaly_episodes`, and what to do."""

    host: str
    start: datetime
    end: datetime
    peak: datetime
    first_window: int
    last_window: int
    peak_window: int
    windows: int
    total_surprisal: float | None = Field(description="sum over its anomalous windows: episodes rank by it")
    surprisal: float | None = Field(description="-log10 of a normal window's probability; null beyond all numbers")
    severity: float | None
    detectors: list[str]
    subsystems: list[Share] = Field(description="subsystems that carry it, by falling share")
    onset: list[str] = Field(description="the same subsystems in the order in which they became abnormal")
    metrics: list[str]
    claims: list[str]
    changes: list[Change] = Field(description="metric groups whose level differs from before or after")
    broken_rules: list[str]
    retransmissions: str | None
    headline: str
    next_step: str


class Reason(_Part):
    """A metric and the feature of it that is abnormal."""

    metric: str
    feature: str


class WindowRow(_Part):
    """A row of Reveal's table 4."""

    host: str
    window: int
    start: datetime
    methods: list[str] = Field(description="Z, MAHA, IF, as in the paper; PEAKS")
    surprisal: float | None
    subsystem: str | None
    reasons: list[Reason]
    claim: str | None


class Deviation(_Part):
    """A metric in which the host departs from the other hosts of its job."""

    host: str
    metric: str
    subsystem: str | None
    value: float | None
    expected: float | None
    robust_z: float | None
    persistence: float | None
    direction: str | None
    claim: str


class Unwatched(_Part):
    """A subsystem that no metric of the run tells of."""

    subsystem: str
    reason: str


class RunReport(_Part):
    """The report on a run. Times are naive UTC as the file gives them; null is missing."""

    schema_version: int = SCHEMA_VERSION
    run_key: str
    platform: str
    phase: str
    workload: str
    hosts: list[str]
    started_at: datetime | None
    verdict: Verdict
    why: str
    next_step: str
    baseline: str
    windows: int
    judged_windows: int
    flagged_windows: int
    anomalous_windows: int
    limits: list[str] = Field(description="what limits the verdict, one sentence each")
    episodes: list[EpisodeReport] = Field(description="the strongest first")
    table: list[WindowRow] = Field(description="anomalous windows in time; at most `table_rows`")
    table_left_out: int
    deviations: list[Deviation]
    not_watched: list[Unwatched]


@dataclass(frozen=True)
class Evidence:
    """The tables of one run.

    Attributes
    ----------
    run : mapping
        Its row of `run_files`.
    features : polars.DataFrame
        `window_features`; host, window, metric and the column `PRESENCE` are enough.
    deviations : polars.DataFrame
        Its rows of `host_deviations`, if hosts were compared.
    """

    run: Mapping[str, Any]
    quality: pl.DataFrame = field(default_factory=QUALITY_METRICS.empty)
    features: pl.DataFrame = field(default_factory=WINDOW_FEATURES.empty)
    scores: pl.DataFrame = field(default_factory=ANOMALY_SCORES.empty)
    reasons: pl.DataFrame = field(default_factory=ANOMALY_REASONS.empty)
    episodes: pl.DataFrame = field(default_factory=ANOMALY_EPISODES.empty)
    deviations: pl.DataFrame = field(default_factory=HOST_DEVIATIONS.empty)


@dataclass(frozen=True)
class ComparedWith:
    """What a run was judged by.

    Attributes
    ----------
    baseline : str
        In words.
    own : bool
        It is of the run's workload, and not of its whole platform for want of one.
    alone : bool
        It was made of this run and no other.
    hosts : frozenset of str, optional
        Hosts of the baseline's runs; None: not known.
    """

    baseline: str
    own: bool = True
    alone: bool = False
    hosts: frozenset[str] | None = None


def run_report(
    evidence: Evidence,
    compared: ComparedWith | None,
    *,
    window_samples: int,
    settings: ReportSettings,
) -> RunReport:
    """Judge a run, and say why and what follows.

    Parameters
    ----------
    evidence : Evidence
        The run's tables.
    compared : ComparedWith, optional
        What the run was judged by; None where there is no baseline for it.
    window_samples : int
        Samples of a feature window.
    settings : ReportSettings
        Lengths and limits.

    Returns
    -------
    RunReport
        `normal` needs judged windows: a run of which nothing could be judged is `not_judged`.
    """
    run, scores = evidence.run, evidence.scores
    judged = scores.filter(pl.col("anomalous").is_not_null())
    anomalous = scores.filter(pl.col("anomalous"))
    flagged = scores.filter(pl.col("agreement") > 0)
    limits = _limits(evidence, compared, window_samples, settings)
    several_days = _spans_days(scores)
    episodes = [_episode(row) for row in _worst_first(evidence.episodes).iter_rows(named=True)]
    deviations = _deviations(evidence.deviations)
    verdict: Verdict = "anomalous" if episodes else "normal" if judged.height else "not_judged"
    advice = _advice()
    if verdict == "anomalous":
        worst = episodes[0]
        number = "one episode" if len(episodes) == 1 else f"{len(episodes)} episodes"
        at = _moment(several_days, worst.start)
        why = f"{anomalous.height} of {judged.height} windows {'is' if anomalous.height == 1 else 'are'} anomalous, "
        why += f"in {number}; "
        why += f"{'from' if len(episodes) == 1 else 'the strongest from'} {at}: {worst.headline}"
        step = worst.next_step
    elif verdict == "normal":
        why = f"None of {_count(judged.height, 'window')} is anomalous"
        if flagged.height:
            share = f"{flagged.height} ({flagged.height / judged.height:.0%})"
            why += f"; detectors flag {share}, too few or too weakly for an alarm"
        if deviations:
            why += f", but the host departs from the others of its job in {_count(len(deviations), 'metric')}"
        why += "."
        step = advice["deviation"] if deviations else advice["limited" if limits else "normal"]
    else:
        why = limits[0] if limits else "The run has no window that could be judged."
        step = advice["not_judged"]
    rows = anomalous.sort("surprisal", *WINDOW, descending=[True, False, False, False], nulls_last=True)
    hosts = evidence.quality["host"].unique().sort().to_list() or [str(run.get("host"))]
    return RunReport(
        run_key=run["run_key"],
        platform=str(run.get("platform")),
        phase=str(run.get("phase")),
        workload=str(run.get("workload")),
        hosts=hosts,
        started_at=run.get("started_at"),
        verdict=verdict,
        why=why,
        next_step=step,
        baseline=compared.baseline if compared else "none",
        windows=max(_windows(evidence.features), scores.height),
        judged_windows=judged.height,
        flagged_windows=flagged.height,
        anomalous_windows=anomalous.height,
        limits=limits,
        episodes=episodes,
        table=_table(rows.head(settings.table_rows), evidence.reasons, settings),
        table_left_out=max(0, rows.height - settings.table_rows),
        deviations=deviations,
        not_watched=_not_watched(evidence),
    )


def as_row(report: RunReport, markdown: str, json_file: str) -> pl.DataFrame:
    """The report's row of `anomaly_report`; the files are given relative to the data folder."""
    worst = report.episodes[0].subsystems if report.episodes else []
    row = {
        "run_key": report.run_key,
        "verdict": report.verdict,
        "why": report.why,
        "subsystem": worst[0].subsystem if worst else None,
        "episodes": len(report.episodes),
        "windows": report.windows,
        "anomalous_windows": report.anomalous_windows,
        "not_watched": [unwatched.subsystem for unwatched in report.not_watched],
        "baseline": report.baseline,
        "next_step": report.next_step,
        "markdown": markdown,
        "json": json_file,
    }
    return pl.DataFrame([row], schema=ANOMALY_REPORT.schema)


def as_json(report: RunReport) -> str:
    """The report as JSON: keys sorted, ASCII only, no NaN and no infinity (they become null)."""
    return json.dumps(json.loads(report.model_dump_json()), sort_keys=True, indent=1, allow_nan=False) + "\n"


def json_schema() -> str:
    """The schema of that JSON: `docs/report.schema.json`."""
    return json.dumps(RunReport.model_json_schema(), indent=1, sort_keys=True) + "\n"


def as_markdown(report: RunReport) -> str:
    """The report as markdown (with GitHub's tables); every value is escaped on its way in."""
    days = {report.started_at.date()} if report.started_at else set()
    days |= {t.date() for e in report.episodes for t in (e.start, e.end)} | {row.start.date() for row in report.table}
    text = _template().render(
        r=report, several_hosts=len(report.hosts) > 1, verdicts=_VERDICTS, moment=partial(_moment, len(days) > 1)
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


_SPECIAL = re.compile(r"([\\`*_\[\]<>|#!~&@$^{}])")


def escape(value: object) -> str:
    """Text that markdown shows as it is: on one line, without control characters, links or markup."""
    if value is None:
        return "–"
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value)).strip()
    shown = _SPECIAL.sub(r"\\\1", shown)
    shown = shown.replace("://", "\\://")
    shown = re.sub(r"(?i)\b(www)\.", r"\1\\.", shown)
    shown = re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", shown)
    return re.sub(r"^([-+=])", r"\\\1", shown)


def _moment(with_day: bool, moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}" if with_day else f"{moment:%H:%M:%S}"


def _spans_days(scores: pl.DataFrame) -> bool:
    return scores["start_ts"].dt.date().n_unique() > 1


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def _named(names: Sequence[str], most: int) -> str:
    """The first names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _windows(features: pl.DataFrame) -> int:
    return features.select("host", "window").unique().height


def _worst_first(episodes: pl.DataFrame) -> pl.DataFrame:
    order = ["total_surprisal", "severity", "host", "episode"]
    return episodes.sort(order, descending=[True, True, False, False], nulls_last=True)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None


def _episode(row: dict[str, Any]) -> EpisodeReport:
    return EpisodeReport(
        host=row["host"],
        start=row["start_ts"],
        end=row["end_ts"],
        peak=row["peak_ts"],
        **{name: row[name] for name in ("first_window", "last_window", "peak_window", "windows", "detectors")},
        **{name: row[name] or [] for name in ("onset", "metrics", "claims", "broken_rules")},
        total_surprisal=_finite(row["total_surprisal"]),
        surprisal=_finite(row["surprisal"]),
        severity=_finite(row["severity"]),
        subsystems=[
            Share(subsystem=subsystem, share=share)
            for subsystem, share in zip(row["subsystems"] or [], row["shares"] or [], strict=True)
        ],
        changes=_changes(*(row[f"states_{when}"] or [] for when in ("before", "during", "after"))),
        retransmissions=row["retransmissions"],
        headline=row["headline"],
        next_step=next_step(row["metrics"] or [], row["subsystems"] or [], row["retransmissions"]),
    )


def _changes(*states: Sequence[str]) -> list[Change]:
    levels = [dict(item.rpartition("_")[::2] for item in items) for items in states]
    groups = sorted(set().union(*levels))
    rows = [(group, *(level.get(group) for level in levels)) for group in groups]
    return [
        Change(metric_group=group, before=before, during=during, after=after)
        for group, before, during, after in rows
        if not before == during == after
    ]


def next_step(metrics: Sequence[str], subsystems: Sequence[str], retransmissions: str | None) -> str:
    """What to look at first, by the first pattern of `recipes/next_steps.yaml` that fits, else by subsystem.

    Parameters
    ----------
    metrics, subsystems : sequence of str
        Those of an episode, by falling evidence.
    retransmissions : str, optional
        How they were judged.
    """
    advice = _advice()
    for pattern in advice["patterns"]:
        wanted = pattern.get("retransmissions")
        if (
            (wanted is None or wanted == retransmissions)
            and set(subsystems[:1]) <= set(pattern["first"])
            and all(any(re.search(p, m, re.IGNORECASE) for m in metrics) for p in pattern.get("metrics", ()))
        ):
            return str(pattern["step"])
    return str(advice["subsystems"][subsystems[0] if subsystems else "Other"])


def _table(rows: pl.DataFrame, reasons: pl.DataFrame, settings: ReportSettings) -> list[WindowRow]:
    of_window = reasons.join(rows, on=WINDOW, how="semi").sort(*WINDOW, "rank").partition_by(WINDOW, as_dict=True)
    table = []
    for row in rows.sort("start_ts", *WINDOW).iter_rows(named=True):
        why = of_window.get((row["run_key"], row["host"], row["window"]), ANOMALY_REASONS.empty())
        # the subsystem of most evidence; of one metric among many, the first reason may be of another
        blamed = why.sort("subsystem_share", "rank", descending=[True, False], nulls_last=True)
        first = blamed.row(0, named=True) if why.height else {"subsystem": None, "claim": None}
        named = why.head(settings.reasons).select("metric", "feature").iter_rows(named=True)
        table.append(
            WindowRow(
                host=row["host"],
                window=row["window"],
                start=row["start_ts"],
                methods=[_METHODS.get(name, name) for name in row["flagged_by"] or []],
                surprisal=_finite(row["surprisal"]),
                subsystem=first["subsystem"],
                reasons=[Reason(**reason) for reason in named],
                claim=first["claim"],
            )
        )
    return table


def _deviations(deviations: pl.DataFrame) -> list[Deviation]:
    found = deviations.filter(pl.col("deviates")).sort(
        pl.col("robust_z").abs(), "host", "metric", descending=[True, False, False], nulls_last=True
    )
    return [
        Deviation(
            **{name: row[name] for name in ("host", "metric", "subsystem", "direction")},
            **{name: _finite(row[name]) for name in ("value", "expected", "robust_z", "persistence")},
            claim=row["claim"] or f"{row['metric']} is {row['direction']} that of the other hosts",
        )
        for row in found.iter_rows(named=True)
    ]


def _limits(
    evidence: Evidence,
    compared: ComparedWith | None,
    window_samples: int,
    settings: ReportSettings,
) -> list[str]:
    """One sentence for each thing that limits the verdict; what prevents one comes first."""
    return [
        *_obstacles(evidence, compared, window_samples),
        *_limits_of_length(evidence.features, settings),
        *(_limits_of_baseline(evidence.run, compared) if compared else ()),
        *_limits_of_data(evidence, settings),
    ]


def _obstacles(evidence: Evidence, compared: ComparedWith | None, window_samples: int) -> Iterator[str]:
    run, quality = evidence.run, evidence.quality.filter(pl.col("metric") != INTERVAL)
    windows, samples = _windows(evidence.features), run.get("samples") or 0
    if not windows and samples < window_samples:
        yield f"The run has {_count(samples, 'sample')}, fewer than the {window_samples} of one window."
    elif not windows:
        verdicts = quality["verdict"].value_counts().sort("count", "verdict", descending=[True, False]).iter_rows()
        kinds = ", ".join(f"{n} {verdict}" for verdict, n in verdicts)
        number = _count(quality["metric"].n_unique(), "metric")
        yield f"None of the run's {number} can be used{f' (in this run: {kinds})' if kinds else ''}."
    elif compared is None:
        yield (
            f"There is no baseline for {run.get('phase')} {run.get('workload')} on {run.get('platform')}: "
            "the workload is new, or has too few windows."
        )
    elif evidence.scores["anomalous"].null_count() == evidence.scores.height:
        yield "The baseline shares no metric with the run."


def _limits_of_length(features: pl.DataFrame, settings: ReportSettings) -> Iterator[str]:
    for host, number in features.group_by("host").agg(pl.col("window").n_unique()).sort("host").iter_rows():
        if number == 1:
            yield f"{host} has one window only: nothing in the run can be compared with it."
        elif number < settings.few_windows:
            yield f"{host} has {number} windows only: a short disturbance fills a large part of them."


def _limits_of_baseline(run: Mapping[str, Any], compared: ComparedWith) -> Iterator[str]:
    if not compared.own:
        yield (
            f"{run.get('phase')} {run.get('workload')} has no baseline of its own and is judged by all workloads on "
            f"{run.get('platform')}: what is peculiar to it may count as abnormal."
        )
    if compared.alone:
        yield "The baseline is made of this run alone: what lasts from its beginning to its end looks normal."
    if compared.hosts is not None and run.get("host") not in compared.hosts:
        yield f"No run of the baseline is from {run.get('host')}: what is peculiar to its hardware counts as abnormal."


def _limits_of_data(evidence: Evidence, settings: ReportSettings) -> Iterator[str]:
    vanished = _vanished(evidence.features, settings)
    if vanished:
        yield f"{_count(len(vanished), 'metric')} stopped before the end: {_named(vanished, settings.names)}."
    quality = evidence.quality.filter(pl.col("metric") != INTERVAL)
    infinite = quality.filter(pl.col("infinite") > 0)["metric"].unique().sort().to_list()
    if infinite:
        names = _named(infinite, settings.names)
        yield f"Infinite values in {_count(len(infinite), 'metric')} count as missing: {names}."
    gaps = evidence.quality.filter((pl.col("metric") == INTERVAL) & (pl.col("verdict") == "gaps")).sort("host")
    for host, lost, repeated in gaps.select("host", "missing", "zeros").iter_rows():
        yield (
            f"The sampling on {host} has gaps ({_count(lost or 0, 'sample')} lost, {repeated or 0} repeated): "
            "windows beside them cover more time than others."
        )


def _vanished(features: pl.DataFrame, settings: ReportSettings) -> list[str]:
    """Metrics that had values in the run and have none in its last part."""
    seen = pl.col("window").filter(pl.col(PRESENCE).is_not_null())
    return (
        features.with_columns(last=pl.col("window").max().over("host"), number=pl.col("window").n_unique().over("host"))
        .group_by("host", "metric")
        .agg(seen.max().alias("seen"), pl.col("last", "number").first())
        .filter(pl.col("seen") < pl.col("last") - settings.vanished_share * pl.col("number"))["metric"]
        .unique()
        .sort()
        .to_list()
    )


def _not_watched(evidence: Evidence) -> list[Unwatched]:
    watched = {subsystem(metric) for metric in evidence.features["metric"].unique()}
    has = evidence.quality.filter(pl.col("metric") != INTERVAL).group_by("subsystem").agg(pl.col("metric").n_unique())
    number = dict(has.iter_rows())
    return [
        Unwatched(
            subsystem=name,
            reason=f"{_count(number[name], 'metric')}, none of which can be used."
            if number.get(name)
            else "the file has no metric of it.",
        )
        for name in SUBSYSTEMS
        if name not in watched and name != "Other"
    ]


@cache
def _advice() -> dict[str, Any]:
    advice: dict[str, Any] = yaml.safe_load(_recipe("next_steps.yaml"))
    return advice


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=False,  # escaping for HTML would not do: `finalize` escapes for markdown
        finalize=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": lambda x: "beyond all numbers" if x is None else f"{x:.3g}",
        "percent": "{:.0%}".format,
    }
    return environment.from_string(_recipe("report.md.jinja"))


def _recipe(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
