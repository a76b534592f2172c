"""The verdict on a run: whether it is abnormal, why, what to do, and the episodes and windows that show it.

What belongs here: from the tables of a run to one `RunReport` (Reveal, sections 4.4, 6, appendix C). What limits the
verdict is in `limits`, the advice in `next_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.tables import ANOMALY_REASONS
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.quantities import quantity
from infrascope_core.reports.evidence import ComparedWith, Evidence
from infrascope_core.reports.limits import limits_of, not_watched
from infrascope_core.reports.model import (
    Change,
    Deviation,
    EpisodeReport,
    Offset,
    Reason,
    RunReport,
    Share,
    Verdict,
    WindowRow,
)
from infrascope_core.reports.next_steps import next_step, step_without_episode
from infrascope_core.reports.settings import ReportSettings
from infrascope_core.reports.wording import count, moment, named
from infrascope_core.run_files.columns import family, unit

_LABELS = {name: detector.label for name, detector in DETECTORS.items()}


def run_report(
    evidence: Evidence,
    compared: ComparedWith | None,
    *,
    window_samples: int,
    least_windows: int,
    pattern_window_s: float,
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
    least_windows : int
        Windows that a baseline takes.
    pattern_window_s : float
        Length of the windows of patterns; where sampling is slower, they are single samples.
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
    limits = limits_of(
        evidence,
        compared,
        settings,
        window_samples=window_samples,
        least_windows=least_windows,
        pattern_window_s=pattern_window_s,
    )
    episodes = [_episode(row) for row in _worst_first(evidence.episodes).iter_rows(named=True)]
    deviations, offsets = _deviations(evidence.deviations), _offsets(evidence.offsets)
    verdict: Verdict = (
        "anomalous" if episodes else "differs" if offsets else "normal" if judged.height else "not_judged"
    )
    if verdict == "anomalous":
        why, step = _why_anomalous(scores, anomalous.height, episodes), episodes[0].next_step
        why += f" Besides, {_why_differs(offsets, settings)}" if offsets else ""
    elif verdict == "differs":
        why = f"Nothing stands out within it, but {_why_differs(offsets, settings)}"
        step = step_without_episode("differs")
    elif verdict == "normal":
        why = _why_normal(judged.height, flagged.height, deviations)
        step = step_without_episode("deviation" if deviations else "limited" if limits else "normal")
    else:
        why = limits[0] if limits else "The run has no window that could be judged."
        step = step_without_episode("not_judged")
    rows = anomalous.sort("surprisal", *WINDOW_KEY, descending=[True, False, False, False], nulls_last=True)
    return RunReport(
        run_key=run["run_key"],
        platform=str(run.get("platform")),
        phase=str(run.get("phase")),
        workload=str(run.get("workload")),
        hosts=evidence.quality["host"].unique().sort().to_list() or [str(run.get("host"))],
        started_at=run.get("started_at"),
        verdict=verdict,
        why=why,
        next_step=step,
        baseline=compared.baseline if compared else "none",
        windows=max(evidence.windows, scores.height),
        judged_windows=judged.height,
        flagged_windows=flagged.height,
        anomalous_windows=anomalous.height,
        limits=limits,
        episodes=episodes,
        table=_table(rows.head(settings.table_rows), evidence.reasons, settings),
        table_left_out=max(0, rows.height - settings.table_rows),
        offsets=offsets[: settings.offsets],
        offsets_left_out=max(0, len(offsets) - settings.offsets),
        deviations=deviations,
        not_watched=not_watched(evidence),
    )


def _why_anomalous(scores: pl.DataFrame, anomalous: int, episodes: Sequence[EpisodeReport]) -> str:
    worst, one = episodes[0], len(episodes) == 1
    several_days = scores["start_ts"].dt.date().n_unique() > 1
    share = f"{anomalous} of {scores.height} windows {'is' if anomalous == 1 else 'are'} anomalous"
    number = "one episode" if one else f"{len(episodes)} episodes"
    since = f"{'from' if one else 'the strongest from'} {moment(several_days, worst.start)}"
    return f"{share}, in {number}; {since}: {worst.headline}"


def _why_normal(judged: int, flagged: int, deviations: Sequence[Deviation]) -> str:
    why = f"None of {count(judged, 'window')} is anomalous"
    if flagged:
        why += f"; detectors flag {flagged} ({flagged / judged:.0%}), too few or too weakly for an alarm"
    if deviations:
        why += f", but the host departs from the others of its job in {count(len(deviations), 'metric')}"
    return why + "."


def _why_differs(offsets: Sequence[Offset], settings: ReportSettings) -> str:
    subsystems = list(dict.fromkeys(str(offset.subsystem) for offset in offsets))
    return (
        f"the run differs from its references as a whole, in {named(subsystems, settings.names)}: {offsets[0].claim}."
    )


def _offsets(offsets: pl.DataFrame) -> list[Offset]:
    """What makes a run differ, one metric a family: all cores are one finding."""
    found = (
        offsets.filter(pl.col("differs"))
        .with_columns(family=pl.col("metric").map_elements(family, return_dtype=pl.String))
        .sort("times", "host", "metric", descending=[True, False, False])
        .unique(["host", "family"], keep="first", maintain_order=True)
    )
    return [
        Offset(
            **{name: row[name] for name in ("host", "subsystem", "metric", "feature", "times")},
            **{name: _finite(row[name]) for name in ("value", "expected")},
            claim=(
                f"{row['metric']} {quantity(row['value'], unit(row['metric']))} "
                f"instead of {quantity(row['expected'], unit(row['metric']))}"
            ),
        )
        for row in found.iter_rows(named=True)
    ]


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


def _table(rows: pl.DataFrame, reasons: pl.DataFrame, settings: ReportSettings) -> list[WindowRow]:
    of_window = (
        reasons.join(rows, on=WINDOW_KEY, how="semi").sort(*WINDOW_KEY, "rank").partition_by(WINDOW_KEY, as_dict=True)
    )
    table = []
    for row in rows.sort("start_ts", *WINDOW_KEY).iter_rows(named=True):
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
                methods=[_LABELS.get(name, name) for name in row["flagged_by"] or []],
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
