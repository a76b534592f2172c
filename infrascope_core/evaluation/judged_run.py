"""One judged run held against its labels: how well its scores separate windows, which faults are found, what is false.

What belongs here: rows of figures for a single run, from its scores and episodes. Which runs there are, and pooling
over them, is in `judgement` and `report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.run_features import window_length
from infrascope_core.anomalies.tables import ANOMALY_SCORES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.evaluation import metrics
from infrascope_core.evaluation.truth import Span, WindowTruth, window_truth
from infrascope_core.numeric import Array
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.runs import platform_of, run_file
from infrascope_core.run_files.tables import FAULTS, TELEMETRY
from infrascope_core.store.folder import DataFolder

COMBINATION = "combination"
OURS: dict[str, str] = {COMBINATION: "surprisal", **{name: name for name in DETECTORS if name in ANOMALY_SCORES.schema}}
"""Our methods, and the column of `anomaly_scores` that is each one's score."""
ANY_FAULT = "any fault"
"""Stands for all faults of a run together."""
HITS = (1, 3, 5)
_MOST_TIMES = 3.0
"""An episode finds a fault if it is at most this many times as long."""

RUN_COLUMNS: dict[str, pl.DataType] = {
    "data_set": pl.String(),
    "part": pl.String(),
    "run_key": pl.String(),
    "platform": pl.String(),
    "phase": pl.String(),
    "workload": pl.String(),
}
SEPARATION = pl.Schema(
    {
        **RUN_COLUMNS,
        "fault": pl.String(),
        "method": pl.String(),
        "windows": pl.Int64(),
        "faulty": pl.Int64(),
        "roc_auc": pl.Float64(),
        "average_precision": pl.Float64(),
        "vus_pr": pl.Float64(),
    }
)
"""Per run, fault and method: how well scores separate the fault's windows from the run's healthy ones."""
EVENTS = pl.Schema(
    {
        **RUN_COLUMNS,
        "fault": pl.String(),
        "subsystem": pl.String(),
        "start": pl.Datetime("us"),
        "end": pl.Datetime("us"),
        "detected": pl.Boolean(),
        "overlap": pl.Float64(),
        "delay_s": pl.Float64(),
        "blamed": pl.String(),
        "blamed_rightly": pl.Boolean(),
        "host_first": pl.Boolean(),
        "candidates": pl.Int64(),
        "culprits": pl.Int64(),
        **{f"hit_{k}": pl.Boolean() for k in HITS},
        **{f"chance_{k}": pl.Float64() for k in HITS},
        "hit_rate": pl.Float64(),
    }
)
"""Per fault interval: whether an episode meets it, how soon a window was flagged, whom the worst episode blames, and
whether no other host of the job was as abnormal at that time."""
RUNS = pl.Schema(
    {
        **RUN_COLUMNS,
        "healthy": pl.Boolean(),
        "differs": pl.Boolean(),
        "faults": pl.Int64(),
        "hours": pl.Float64(),
        "healthy_hours": pl.Float64(),
        "episodes": pl.Int64(),
        "false_episodes": pl.Int64(),
        "false_windows": pl.Int64(),
        "healthy_windows": pl.Int64(),
    }
)
"""Per judged run: how long it is, how much of that is healthy, and what was raised there."""


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A judged run: its windows, what is true of them, and what was raised. Times are seconds from its start.

    Attributes
    ----------
    span : Span
        The time that it covers.
    length : float
        Of a window.
    windows : polars.DataFrame
        Table `anomaly_scores`, and `moment`, the place of the window's start among all starts: hosts of one file share
        the run's labels, and a moment has the most abnormal score of them.
    truth : WindowTruth
        Of the moments.
    faults : polars.DataFrame
        Table `faults`.
    fault_start, fault_end : ndarray, faults
        `fault_end` is where the last faulty sample ends.
    episodes : polars.DataFrame or None
        Table `anomaly_episodes`; None where it was not made: what is not known is not counted.
    offsets : polars.DataFrame
        Those rows of the table `level_offsets` by which the run differs as a whole.
    candidates : frozenset of str
        Metrics that could be blamed: those with features.
    stands_for : mapping
        By redundant metric, the one that stands for it: to name that one is to name the other.
    """

    span: Span
    length: float
    windows: pl.DataFrame
    truth: WindowTruth
    faults: pl.DataFrame
    fault_start: Array
    fault_end: Array
    episodes: pl.DataFrame | None
    offsets: pl.DataFrame
    candidates: frozenset[str]
    stands_for: Mapping[str, str]

    @classmethod
    def of(cls, folder: DataFolder, key: str) -> JudgedRun:
        """Read a run's products from a filled data folder."""
        lake = folder.lake
        span, length = span_of(folder, key), window_length(folder, key).total_seconds()
        windows = (
            lake.read(ANOMALY_SCORES, key)
            .sort("start_ts", "host", "window")
            .with_columns(moment=(pl.col("start_ts").rank("dense") - 1).cast(pl.Int64))
        )
        faults = lake.read(FAULTS, key).sort("start", "end", "fault")
        start, end = span.since(faults["start"]), span.since(faults["end"]) + span.interval.total_seconds()
        return cls(
            span=span,
            length=length,
            windows=windows,
            truth=window_truth(span.since(windows["start_ts"].unique().sort()), length, start, end),
            faults=faults,
            fault_start=start,
            fault_end=end,
            episodes=lake.read(ANOMALY_EPISODES, key) if lake.has(ANOMALY_EPISODES, key) else None,
            offsets=lake.read(LEVEL_OFFSETS, key).filter("differs").sort("times", descending=True),
            candidates=frozenset(lake.read(WINDOW_FEATURES, key, ["metric"])["metric"].unique()),
            stands_for=_represented(folder, key),
        )

    @property
    def moments(self) -> Array:
        """When each moment begins."""
        return self.span.since(self.windows["start_ts"].unique().sort())

    def labelled_as(self, other: JudgedRun) -> JudgedRun:
        """The run with the labels of another one, at the same times from the start: true of that, not of this."""
        truth = window_truth(self.moments, self.length, other.fault_start, other.fault_end)
        return replace(self, faults=other.faults, fault_start=other.fault_start, fault_end=other.fault_end, truth=truth)

    def by_moment(self, score: pl.Series) -> Array:
        """The most abnormal score of each moment, from one score per row of `windows`; NaN where no host has one."""
        known = score.cast(pl.Float64).fill_null(np.nan).to_numpy()
        highest = np.full(len(self.truth.healthy), -np.inf)
        np.maximum.at(highest, self.windows["moment"].to_numpy(), np.where(np.isnan(known), -np.inf, known))
        return np.where(np.isinf(highest), np.nan, highest)

    def separation(self, methods: Mapping[str, Array], max_buffer: int) -> list[dict[str, object]]:
        """Rows of `SEPARATION`, per fault and method.

        Windows of other faults are left out: neither healthy nor this fault's. VUS-PR weighs the windows about a
        fault's ends by itself, so those that it touches by less than half stay in.
        """
        named = self.faults["fault"].to_numpy()
        rows: list[dict[str, object]] = []
        for fault in [*self.faults["fault"].unique().sort(), ANY_FAULT] if len(named) else []:
            of_fault = np.ones(len(named), dtype=bool) if fault == ANY_FAULT else named == fault
            faulty = np.asarray(self.truth.faulty[:, of_fault].any(axis=1))
            used = faulty | self.truth.healthy
            near = np.flatnonzero(faulty | ~self.truth.touched[:, ~of_fault].any(axis=1))
            # windows on both sides of one that is left out are no neighbours
            series = np.cumsum(np.diff(near, prepend=near[:1]) > 1)
            rows += [
                {
                    "fault": fault,
                    "method": method,
                    "windows": int(used.sum()),
                    "faulty": int(faulty.sum()),
                    "roc_auc": _known(metrics.roc_auc(score[used], faulty[used])),
                    "average_precision": _known(metrics.average_precision(score[used], faulty[used])),
                    "vus_pr": _known(metrics.vus_pr(score[near], faulty[near], max_buffer, series)),
                }
                for method, score in methods.items()
            ]
        return rows

    def events(self, of_job: Sequence[JudgedRun] = ()) -> list[dict[str, object]]:
        """Rows of `EVENTS`, one per fault interval; given the runs of its job, whether its host comes first."""
        flagged = self.windows.filter(pl.col("anomalous"))
        raised = self.span.since(flagged["start_ts"])
        delay = metrics.first_delay(self.fault_start, self.fault_end, raised, raised + self.length)
        found = [{}] * self.faults.height if self.episodes is None else self._blame(self.episodes)
        overlap = self._overlaps()
        culprits = [len(self._counted(names) & self.candidates) for names in self.faults["metrics"].to_list()]
        return [
            {
                **{name: fault[name] for name in ("fault", "start", "end")},
                "subsystem": fault["subsystem"] or None,
                "delay_s": _known(float(delay[i])),
                "candidates": len(self.candidates),
                "culprits": culprits[i],
                "overlap": _known(float(overlap[i])),
                "host_first": self._comes_first(fault, of_job),
                **found[i],
            }
            for i, fault in enumerate(self.faults.iter_rows(named=True))
        ]

    def _comes_first(self, fault: Mapping[str, Any], of_job: Sequence[JudgedRun]) -> bool | None:
        """Whether this run was more abnormal than any other of its job while the fault lasted; None without others."""
        others = [run for run in of_job if run is not self]
        return max(run._surprisal_within(fault) for run in others) < self._surprisal_within(fault) if others else None

    def _surprisal_within(self, fault: Mapping[str, Any]) -> float:
        """Mean over the windows that begin within a fault of this or another host; 0 where there is none."""
        mean = self.windows.filter(pl.col("start_ts").is_between(fault["start"], fault["end"]))["surprisal"].mean()
        return mean if isinstance(mean, float) else 0.0

    def _overlaps(self) -> Array:
        """Length that each fault shares with the episode which fits it best, over the length of both together (IoU)."""
        if self.episodes is None:
            return np.full(self.faults.height, np.nan)
        start, end = self._times(self.episodes)
        shared = metrics.overlap(self.fault_start, self.fault_end, start, end)
        both = np.maximum(self.fault_end[:, None], end) - np.minimum(self.fault_start[:, None], start)
        return np.asarray(np.divide(shared, both, out=np.zeros_like(shared), where=shared > 0).max(axis=1, initial=0.0))

    def _blame(self, episodes: pl.DataFrame) -> list[dict[str, object]]:
        """What the worst of the episodes that find each fault blames.

        An episode finds a fault if it begins within it, or one window before, and is at most three times as long: an
        alarm from the run's start to its end finds nothing. A fault that lasts as long as the run has no beginning in
        it; it is found if the run is said to differ as a whole.
        """
        start, end = self._times(episodes)
        met = metrics.meets(self.fault_start - self.length, self.fault_end, start, start)
        met &= (end - start)[None, :] <= _MOST_TIMES * (self.fault_end - self.fault_start)[:, None]
        whole = (self.fault_start <= self.length) & (self.fault_end >= self.span.seconds - self.length)
        order = ["surprisal", "severity", "start_ts", "host"]
        rows: list[dict[str, object]] = []
        for fault, which, lasts in zip(self.faults.iter_rows(named=True), met, whole, strict=True):
            if lasts and self.offsets.height:
                rows.append(self._named(fault, self.offsets["subsystem"][0], self.offsets["metric"].to_list()))
                continue
            if not which.any():
                rows.append({"detected": False})
                continue
            worst = episodes.filter(pl.Series(which)).sort(
                order, descending=[True, True, False, False], nulls_last=True
            )
            rows.append(self._named(fault, worst["subsystem"][0], worst["metrics"].to_list()[0] or []))
        return rows

    def _named(self, fault: Mapping[str, Any], blamed: str | None, ranked: Sequence[str]) -> dict[str, object]:
        """What was blamed for a fault that was found, held against its label."""
        rightly = {"blamed_rightly": blamed == fault["subsystem"]} if fault["subsystem"] else {}
        return {"detected": True, "blamed": blamed, **rightly, **self._hits(ranked, fault["metrics"] or [])}

    def _hits(self, ranked: Sequence[str], culprits: Sequence[str]) -> dict[str, object]:
        if not culprits:
            return {}
        counted = self._counted(culprits)
        n, possible = len(self.candidates), len(counted & self.candidates)
        # a culprit that another metric stands for can only be named by that one
        named = {self.stands_for.get(name, name) for name in culprits}
        return {
            **{f"hit_{k}": metrics.hit_at(ranked, counted, k) for k in HITS},
            **{f"chance_{k}": _known(metrics.chance_of_hit(n, possible, k)) for k in HITS},
            "hit_rate": metrics.hit_rate(ranked, named),
        }

    def _counted(self, culprits: Sequence[str] | None) -> frozenset[str]:
        """The culprits, and the metrics that stand for them."""
        names = list(culprits or ())
        return frozenset(names) | {self.stands_for[name] for name in names if name in self.stands_for}

    def alarms(self) -> dict[str, object]:
        """A row of `RUNS`, less `healthy`: time and false alarms.

        An episode may trail a fault by one window: its windows still hold faulty samples.
        """
        end = np.minimum(self.fault_end + self.length, self.span.seconds)
        faulty_time = metrics.union_length(np.maximum(self.fault_start, 0.0), end)
        # of a run that is judged by itself, windows are anomalous or not known: those that no alarm was raised on count
        known = self.windows.filter(pl.col("anomalous").is_not_null() | pl.col("surprisal").is_not_null())
        healthy = self.truth.healthy[known["moment"].to_numpy()]
        alarms = healthy & known["anomalous"].fill_null(False).to_numpy()
        row: dict[str, object] = {
            "differs": self.offsets.height > 0,
            "faults": self.faults.height,
            "hours": self.span.seconds / 3600,
            "healthy_hours": (self.span.seconds - faulty_time) / 3600,
            "healthy_windows": int(healthy.sum()) if known.height else None,
            "false_windows": int(alarms.sum()) if known.height else None,
        }
        if self.episodes is not None:
            met = metrics.meets(*self._times(self.episodes), self.fault_start, self.fault_end + self.length)
            row |= {"episodes": self.episodes.height, "false_episodes": int(np.count_nonzero(~met.any(axis=1)))}
        return row

    def _times(self, episodes: pl.DataFrame) -> tuple[Array, Array]:
        return self.span.since(episodes["start_ts"]), self.span.since(episodes["end_ts"])


def span_of(folder: DataFolder, key: str) -> Span:
    """The time that a run covers."""
    times = folder.lake.read(TELEMETRY, key, ["ts"])["ts"]
    interval = run_file(folder, key)["interval_s"]
    assert interval is None or isinstance(interval, float)
    start, end = times.min(), times.max()
    return Span(start, end, timedelta(seconds=interval or 0.0))  # type: ignore[arg-type]  # of a column of times


def _represented(folder: DataFolder, key: str) -> dict[str, str]:
    catalog = folder.lake.read_cached(METRIC_CATALOG)
    rows = catalog.filter((pl.col("platform") == platform_of(folder, key)) & pl.col("represented_by").is_not_null())
    return dict(rows.sort("metric").select("metric", "represented_by").iter_rows())


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
