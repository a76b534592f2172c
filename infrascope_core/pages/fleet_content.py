"""What the index shows: one row a run, and totals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl

from infrascope_core.numeric import buckets, least_and_largest
from infrascope_core.reports.rendering import VERDICTS
from infrascope_core.reports.wording import duration

_POINTS = 40
"""Points of a sparkline."""
_HIGHEST = 12.0
"""Surprisal at which a sparkline is full: beyond it nothing is told apart."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_DAY_S, _HOUR_S = 86_400.0, 3_600.0
"""Of shorter runs, alerts a day would be made up."""
_PLACE = {name: place for place, name in enumerate(VERDICTS.values())}
"""In which order verdicts stand: what is worst comes first."""
_REASONS = 10
_PATTERNS = 20
"""Most anomaly patterns that are shown."""


def fleet_row(
    run: Mapping[str, Any], report: pl.DataFrame, scores: pl.DataFrame, episodes: pl.DataFrame, link: Path
) -> dict[str, Any]:
    """A run's row: what its report says, and its surprisal in 40 digits."""
    seconds, hosts = float(run["seconds"] or 0.0), sorted(scores["host"].unique()) or [str(run["host"])]
    host_days = seconds * len(hosts) / _DAY_S
    said = report.row(0, named=True) if report.height else {}
    worst = episodes.sort("total_surprisal", "host", "episode", descending=[True, False, False], nulls_last=True)
    judged = scores["anomalous"].drop_nulls()
    return {
        "run": run["run_key"],
        "link": quote(str(link)),
        "verdict": VERDICTS.get(str(said.get("verdict")), "Not judged"),
        "platform": run["platform"],
        "phase": run["phase"],
        "workload": run["workload"],
        "host": ", ".join(hosts),
        "hosts": len(hosts),
        "start": f"{run['started_at']:%Y-%m-%d %H:%M:%S}" if run["started_at"] else "",
        "seconds": round(seconds, 1),
        "share": round(int(judged.sum()) / len(judged), 6) if len(judged) else None,
        "episodes": episodes.height,
        "per_day": round(episodes.height / host_days, 2) if seconds >= _HOUR_S and len(judged) else None,
        "subsystem": said.get("subsystem") or "",
        "said": worst["headline"][0] if worst.height else said.get("why") or "",
        "spark": _sparkline(scores),
    }


def _sparkline(scores: pl.DataFrame) -> str:
    """The largest surprisal of each of 40 stretches, as a digit of 36; a point where nothing was judged."""
    own = scores.group_by("window").agg(pl.col("surprisal").max()).sort("window")["surprisal"]
    _, highest = least_and_largest(own.to_numpy().astype(np.float64)[:, None], buckets(len(own), _POINTS))
    heights = np.clip(np.nan_to_num(highest[:, 0], nan=-1.0) / _HIGHEST, -1, 1) * (len(_DIGITS) - 1)
    return "".join("." if height < 0 else _DIGITS[round(float(height))] for height in heights)


def fleet_content(
    rows: Sequence[Mapping[str, Any]],
    rejected: pl.DataFrame,
    patterns: pl.DataFrame,
    comparisons: Sequence[Mapping[str, str]] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the template shows, and what the script draws.

    Parameters
    ----------
    rows : sequence of dict
        See `fleet_row`.
    rejected : polars.DataFrame
        Table `rejected_files`.
    patterns : polars.DataFrame
        Table `anomaly_patterns`.
    comparisons : sequence of dict
        `name`, `link`, `outcome` and `sentence` of each that is declared.
    """
    view = {
        "comparisons": comparisons,
        "runs": len(rows),
        "hosts": len({host for row in rows for host in row["host"].split(", ")}),
        "recorded": duration(timedelta(seconds=sum(row["seconds"] for row in rows))),
        "verdicts": [(name, n) for name in VERDICTS.values() if (n := sum(row["verdict"] == name for row in rows))],
        "shares": [
            ("workload", _anomalous_share(rows, _workload)),
            ("host", _anomalous_share(rows, lambda row: row["host"])),
            ("subsystem", _by_subsystem(rows, patterns)),
        ],
        "left_out": _left_out(rows),
        "alerts": _alerts(rows),
        "patterns": [
            {
                "what": f"{row['metric']} – {row['feature']}",
                "workload": f"{row['phase']} {row['workload']}",
                "subsystem": row["subsystem"],
                "time": duration(timedelta(seconds=row["seconds"])),
                "share": row["share"],
                "runs": row["runs"],
            }
            for row in patterns.sort("seconds", "metric", descending=[True, False])
            .head(_PATTERNS)
            .iter_rows(named=True)
        ],
        "rejected": rejected.height,
        "rejections": [
            (path, reason) for path, reason in rejected.sort("path").select("path", "reason").head(_REASONS).iter_rows()
        ],
    }
    columns = list(rows[0]) if rows else []
    worst_first = sorted(rows, key=lambda row: (_PLACE.get(row["verdict"], len(_PLACE)), -(row["share"] or 0.0)))
    return view, {"columns": columns, "rows": [[row[name] for name in columns] for row in worst_first]}


@dataclass(frozen=True)
class Share:
    """A row of the totals.

    Attributes
    ----------
    name : str
        Of what.
    share : float
        Of its judged time that is anomalous; of a subsystem, of all judged time.
    runs : int, optional
        Runs of it.
    """

    name: str
    share: float
    runs: int | None = None


@dataclass(frozen=True)
class Totals:
    """The first rows of a total, and how many others there are."""

    rows: list[Share]
    more: int

    @classmethod
    def of(cls, found: list[Share]) -> Totals:
        """The largest first."""
        ordered = sorted(found, key=lambda one: (-one.share, one.name))
        return cls(ordered[:_REASONS], max(0, len(ordered) - _REASONS))


def _workload(row: Mapping[str, Any]) -> str:
    return f"{row['phase']} {row['workload']}"


def _anomalous_share(rows: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], str]) -> Totals:
    """Share of the judged time that is anomalous, by what a run is of."""
    bad, judged = _times(rows, of)
    runs = Counter(of(row) for row in rows if row["share"] is not None)
    return Totals.of([Share(name, bad[name] / judged[name], runs[name]) for name in judged if judged[name]])


def _times(
    rows: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Anomalous and judged seconds, by what a run is of."""
    bad: dict[str, float] = defaultdict(float)
    judged: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["share"] is not None:
            bad[of(row)] += row["share"] * row["seconds"]
            judged[of(row)] += row["seconds"]
    return bad, judged


def _by_subsystem(rows: Sequence[Mapping[str, Any]], patterns: pl.DataFrame) -> Totals:
    """The same by subsystem: a window counts for that of its first reason, as in `anomaly_patterns`."""
    bad, judged = _times(rows, _workload)
    found: dict[str, float] = defaultdict(float)
    for row in patterns.iter_rows(named=True):
        found[row["subsystem"]] += row["of_anomalous"] * bad.get(_workload(row), 0.0) / sum(judged.values())
    return Totals.of([Share(name, share) for name, share in found.items()])


def _left_out(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, str]]:
    """Why runs are in none of the totals, how many, and their time; the most frequent reason first."""
    reasons: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["share"] is None:
            reasons[row["said"] or "there is no report on it"].append(row["seconds"])
    ordered = sorted(reasons.items(), key=lambda one: (-len(one[1]), one[0]))
    found = [(reason, len(times), duration(timedelta(seconds=sum(times)))) for reason, times in ordered[:_REASONS]]
    others = [seconds for _, times in ordered[_REASONS:] for seconds in times]
    more = [("other reasons", len(others), duration(timedelta(seconds=sum(others))))] if others else []
    return found + more


def _alerts(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Episodes a day of a host, over all judged time; None where that is less than an hour."""
    judged = [row for row in rows if row["share"] is not None]
    seconds = sum(row["seconds"] * row["hosts"] for row in judged)
    return sum(row["episodes"] for row in judged) / seconds * _DAY_S if seconds >= _HOUR_S else None
