"""One data set judged: references fitted, the other runs scored by them, and both held against the labels.

What belongs here: bringing a data folder up in two stages, and figures per run, fault and episode. Pooling over
runs, with intervals, is in `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.baselines import sample_windows
from infrascope_core.detectors import DETECTORS
from infrascope_core.errors import InfraScopeError
from infrascope_core.evaluation import metrics
from infrascope_core.evaluation.metrics import Array
from infrascope_core.evaluation.peers import PEERS, Peers, raw_windows
from infrascope_core.evaluation.split import LabelledRun, Split
from infrascope_core.evaluation.truth import Span, WindowTruth, label_faults, window_truth
from infrascope_core.features import feature_matrix
from infrascope_core.pipeline import OnProduct, Pipeline
from infrascope_core.settings import EvaluationSettings, Settings
from infrascope_core.tables import ANOMALY_SCORES, BASELINES, FAULTS, FEATURES

Materialize = Callable[[Pipeline, bool, OnProduct], None]
"""Brings everything below a pipeline's data folder up to date: (pipeline, refit, on_product)."""

COMBINATION = "combination"
OURS: dict[str, str] = {COMBINATION: "surprisal", **{name: name for name in DETECTORS if name in ANOMALY_SCORES.schema}}
"""Our methods, and the column of `anomaly_scores` that is each one's score."""
INPUTS = ("features", "raw")
"""What the peers get: the windows' features, or raw metrics averaged over the windows."""
METHODS = (*OURS, *(f"{peer} ({data})" for data in INPUTS for peer in PEERS))
ANY_FAULT = "any fault"
"""Stands for all faults of a run together."""
HITS = (1, 3, 5)

_RUN: dict[str, pl.DataType] = {
    "data_set": pl.String(),
    "part": pl.String(),
    "run_key": pl.String(),
    "platform": pl.String(),
    "phase": pl.String(),
    "workload": pl.String(),
}
SEPARATION = pl.Schema(
    {
        **_RUN,
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
        **_RUN,
        "fault": pl.String(),
        "subsystem": pl.String(),
        "start": pl.Datetime("us"),
        "end": pl.Datetime("us"),
        "detected": pl.Boolean(),
        "delay_s": pl.Float64(),
        "blamed": pl.String(),
        "blamed_rightly": pl.Boolean(),
        "candidates": pl.Int64(),
        "culprits": pl.Int64(),
        **{f"hit_{k}": pl.Boolean() for k in HITS},
        **{f"chance_{k}": pl.Float64() for k in HITS},
        "hit_rate": pl.Float64(),
    }
)
"""Per fault interval: whether an episode meets it, how soon a window was flagged, and whom the worst episode blames."""
RUNS = pl.Schema(
    {
        **_RUN,
        "healthy": pl.Boolean(),
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


@dataclass(frozen=True)
class Judgement:
    """What came out for one data set.

    Attributes
    ----------
    separation, events, runs : polars.DataFrame
        Schemas `SEPARATION`, `EVENTS`, `RUNS`; by run key.
    problems : tuple of (path, sentence)
        Runs that were left out because they or their labels cannot be used.
    notes : tuple of str
        What a reader of the figures must know, a sentence each.
    """

    separation: pl.DataFrame
    events: pl.DataFrame
    runs: pl.DataFrame
    problems: tuple[tuple[Path, str], ...]
    notes: tuple[str, ...]


def judge(
    data_set: str,
    split: Split,
    data: Path,
    settings: Settings,
    materialize: Materialize,
    *,
    on_product: OnProduct = lambda table, done, total: None,
) -> Judgement:
    """Fit the reference runs, judge the others by them, and compare with the labels.

    Parameters
    ----------
    data_set : str
        Its name, for the tables.
    split : Split
        Who is reference and who is judged.
    data : Path
        A new or empty folder for the lake and the models.
    settings : Settings
        Of the pipeline, and `evaluation`.
    materialize : callable
        Brings a pipeline's data folder up to date.
    on_product : callable
        Told about progress.

    Notes
    -----
    The folder is filled twice: with the reference runs alone, which fits every model on them; then with the judged
    runs as well, which keeps the models (docs/adr/0003). A baseline that appears only in the second stage was
    fitted on judged runs: whatever it judges is left out, and a note says so.

    Raises
    ------
    InfraScopeError
        The folder is not empty, there is no reference run or none to judge, or a step fails.
    """
    if data.exists() and any(data.iterdir()):
        raise InfraScopeError(f"{data}: holds something already; an evaluation starts in an empty folder")
    if not split.reference_of:
        raise InfraScopeError(
            f"{data_set}: no run can be judged; it takes a run, and a healthy run (a label file with a header and "
            "no rows) of the same phase and workload to compare it with"
        )
    reference = Pipeline(data, settings, tuple(run.path for run in split.reference))
    materialize(reference, False, on_product)
    trusted = frozenset(reference.lake.read(BASELINES.name)["version"])
    everything = Pipeline(data, settings, tuple(run.path for run in (*split.reference, *split.judged)))
    materialize(everything, False, on_product)
    return compare(data_set, split, everything, trusted)


def compare(data_set: str, split: Split, pipeline: Pipeline, trusted: frozenset[str]) -> Judgement:
    """Hold a filled data folder against the labels.

    Parameters
    ----------
    data_set, split
        See `judge`.
    pipeline : Pipeline
        Its folder holds the products of all runs.
    trusted : frozenset of str
        Versions of the baselines that no judged run took part in.
    """
    accepted = {row["run_key"]: row for row in pipeline.accepted().iter_rows(named=True)}
    problems = [(run.path, "the run file was rejected") for run in split.judged if run.key not in accepted]
    separation, events, runs, untrusted = [], [], [], []
    for references, members in _groups(split, accepted):
        peers = {data: _fit_peers(pipeline, references, data) for data in INPUTS} if references else {}
        for run in members:
            problem = _label_problem(pipeline, run)
            if problem is not None:
                problems.append((run.path, problem))
                continue
            scores = pipeline.lake.read("anomaly_scores", run.key)
            if not references or scores.is_empty() or not set(scores["baseline_version"].drop_nulls()) <= trusted:
                untrusted.append(run.key)
                continue
            row = {name: accepted[run.key].get(name) for name in _RUN} | {"data_set": data_set, "part": run.part}
            judged = _Judged.of(pipeline, run.key, scores)
            methods = _method_scores(pipeline, judged, peers)
            separation.append(_tabled(_separation(judged, methods, pipeline.settings.evaluation), row, SEPARATION))
            events.append(_tabled(_events(pipeline, judged), row, EVENTS))
            runs.append(_tabled([_run(judged, run.healthy)], row, RUNS))
    notes = list(split.notes)
    if untrusted:
        notes.append(
            f"{len(untrusted)} runs are left out, because no baseline of reference runs could judge them; "
            f"the first is {untrusted[0]}"
        )
    return Judgement(
        _by_run(separation, SEPARATION), _by_run(events, EVENTS), _by_run(runs, RUNS), tuple(problems), tuple(notes)
    )


def _groups(
    split: Split, accepted: Mapping[str, Mapping[str, object]]
) -> Iterator[tuple[tuple[str, ...], list[LabelledRun]]]:
    """Judged runs by their reference runs, which are of the same platform."""
    groups: dict[tuple[str, ...], list[LabelledRun]] = {}
    for run in split.judged:
        if run.key in accepted and run.key in split.reference_of:
            platform = accepted[run.key]["platform"]
            same = (key for key in split.reference_of[run.key] if key in accepted)
            groups.setdefault(tuple(k for k in same if accepted[k]["platform"] == platform), []).append(run)
    yield from sorted(groups.items(), key=lambda group: group[1][0].key)


def _by_run(parts: Sequence[pl.DataFrame], schema: pl.Schema) -> pl.DataFrame:
    frame = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    order = [name for name in ("run_key", "start", "fault") if name in schema]
    return frame.sort(order, maintain_order=True)


def _tabled(rows: list[dict[str, object]], run: Mapping[str, object], schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame([{**run, **row} for row in rows], schema=schema, orient="row")


def _span(pipeline: Pipeline, key: str) -> Span:
    times = pipeline.lake.read("telemetry", key, ["ts"])["ts"]
    interval = pipeline.run_file(key)["interval_s"]
    assert interval is None or isinstance(interval, float)
    start, end = times.min(), times.max()
    return Span(start, end, timedelta(seconds=interval or 0.0))  # type: ignore[arg-type]  # of a column of times


def _label_problem(pipeline: Pipeline, run: LabelledRun) -> str | None:
    names = pipeline.lake.columns("telemetry", run.key)
    return label_faults(pipeline.lake.read("faults", run.key), _span(pipeline, run.key), names)


@dataclass(frozen=True, eq=False)
class _Judged:
    """A judged run: its windows, what is true of them, and what was raised. Times are seconds from its start."""

    key: str
    span: Span
    length: float
    windows: pl.DataFrame
    """`host`, `window`, `start_ts`, our scores, and `moment`: number of the window's start among all starts."""
    moments: Array
    truth: WindowTruth
    """Of the moments."""
    faults: pl.DataFrame
    fault_start: Array
    fault_end: Array
    episodes: pl.DataFrame | None
    """None where the table was not made: what is not known is not counted."""

    @classmethod
    def of(cls, pipeline: Pipeline, key: str, scores: pl.DataFrame) -> _Judged:
        span = _span(pipeline, key)
        length = pipeline.window_length(key).total_seconds()
        # hosts of one file share the run's labels: a moment has the most abnormal score of them
        windows = scores.sort("start_ts", "host", "window").with_columns(
            moment=(pl.col("start_ts").rank("dense") - 1).cast(pl.Int64)
        )
        moments = span.since(windows["start_ts"].unique().sort())
        faults = pipeline.lake.read("faults", key).sort("start", "end", "fault")
        start = span.since(faults["start"])
        end = span.since(faults["end"]) + span.interval.total_seconds()
        episodes = pipeline.lake.read("anomaly_episodes", key) if pipeline.lake.has("anomaly_episodes", key) else None
        truth = window_truth(moments, length, start, end)
        return cls(key, span, length, windows, moments, truth, faults, start, end, episodes)

    def by_moment(self, score: Array) -> Array:
        """The most abnormal score of each moment; NaN where no host has one."""
        highest = np.full(len(self.moments), -np.inf)
        np.maximum.at(highest, self.windows["moment"].to_numpy(), np.where(np.isnan(score), -np.inf, score))
        return np.where(np.isinf(highest), np.nan, highest)


def _method_scores(
    pipeline: Pipeline, judged: _Judged, peers: Mapping[str, tuple[tuple[object, ...], Peers]]
) -> dict[str, Array]:
    """Scores by method, one a moment."""
    scores = {
        name: judged.by_moment(judged.windows[column].cast(pl.Float64).fill_null(np.nan).to_numpy())
        for name, column in OURS.items()
    }
    index = judged.windows.select("host", "window")
    for data, (columns, fitted) in peers.items():
        keys, matrix = _matrix(pipeline, judged.key, data, columns)
        by_peer = pl.DataFrame({"host": keys["host"], "window": keys["window"], **fitted.score(matrix)})
        aligned = index.join(by_peer, on=["host", "window"], how="left", maintain_order="left")
        for peer in PEERS:
            scores[f"{peer} ({data})"] = judged.by_moment(aligned[peer].fill_null(np.nan).to_numpy())
    return scores


def _fit_peers(pipeline: Pipeline, references: Sequence[str], data: str) -> tuple[tuple[object, ...], Peers]:
    """The peers, and the columns of the matrix they were fitted on."""
    if data == "features":
        windows = pl.concat([pipeline.lake.read("window_features", key) for key in references])
        chosen = sample_windows(windows, pipeline.settings.detectors)
        windows = windows.join(chosen, on=chosen.columns, how="semi")
        columns: tuple[object, ...] = tuple((m, f) for m in windows["metric"].unique().sort() for f in FEATURES)
        matrix = feature_matrix(windows, columns)[1]  # type: ignore[arg-type]  # pairs
    else:
        raw = [_raw(pipeline, key) for key in references]
        together = pl.concat(raw, how="diagonal")
        columns = tuple(sorted(set(together.columns) - {"run_key", "host", "window"}))
        chosen = sample_windows(together, pipeline.settings.detectors)
        together = together.join(chosen, on=chosen.columns, how="semi")
        matrix = together.select(columns).fill_null(np.nan).to_numpy()  # type: ignore[arg-type]  # names
    return columns, Peers(matrix, pipeline.settings.evaluation)


def _matrix(pipeline: Pipeline, key: str, data: str, columns: tuple[object, ...]) -> tuple[pl.DataFrame, Array]:
    if data == "features":
        return feature_matrix(pipeline.lake.read("window_features", key), columns)  # type: ignore[arg-type]  # pairs
    raw = _raw(pipeline, key)
    lacking = [pl.lit(np.nan).alias(str(name)) for name in columns if name not in raw.columns]
    return raw, raw.with_columns(lacking).select(map(str, columns)).fill_null(np.nan).to_numpy()


def _raw(pipeline: Pipeline, key: str) -> pl.DataFrame:
    raw = raw_windows(pipeline.lake.read("telemetry", key), pipeline.settings.features)
    return raw.with_columns(run_key=pl.lit(key))


def _separation(judged: _Judged, methods: Mapping[str, Array], settings: EvaluationSettings) -> list[dict[str, object]]:
    """Figures per fault and method. Windows of other faults are left out: neither healthy nor this fault's.

    VUS-PR weighs the windows about a fault's ends by itself, so those that it touches by less than half stay in.
    """
    truth = judged.truth
    named = judged.faults["fault"].to_numpy()
    rows: list[dict[str, object]] = []
    for fault in [*judged.faults["fault"].unique().sort(), ANY_FAULT] if len(named) else []:
        of_fault = np.ones(len(named), dtype=bool) if fault == ANY_FAULT else named == fault
        faulty = np.asarray(truth.faulty[:, of_fault].any(axis=1))
        used = faulty | truth.healthy
        near = np.flatnonzero(faulty | ~truth.touched[:, ~of_fault].any(axis=1))
        # windows on both sides of one that is left out are no neighbours
        series = np.cumsum(np.diff(near, prepend=near[:1]) > 1)
        for method, score in methods.items():
            rows.append(
                {
                    "fault": fault,
                    "method": method,
                    "windows": int(used.sum()),
                    "faulty": int(faulty.sum()),
                    "roc_auc": _known(metrics.roc_auc(score[used], faulty[used])),
                    "average_precision": _known(metrics.average_precision(score[used], faulty[used])),
                    "vus_pr": _known(metrics.vus_pr(score[near], faulty[near], settings.max_buffer, series)),
                }
            )
    return rows


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _episode_times(judged: _Judged) -> tuple[Array, Array]:
    assert judged.episodes is not None
    return judged.span.since(judged.episodes["start_ts"]), judged.span.since(judged.episodes["end_ts"])


def _events(pipeline: Pipeline, judged: _Judged) -> list[dict[str, object]]:
    """One row per fault interval."""
    flagged = judged.windows.filter(pl.col("anomalous"))
    raised = judged.span.since(flagged["start_ts"])
    delay = metrics.first_delay(judged.fault_start, judged.fault_end, raised, raised + judged.length)
    met: NDArray[np.bool_] | None = None
    if judged.episodes is not None:
        met = metrics.meets(judged.fault_start, judged.fault_end, *_episode_times(judged))
    candidates = set(pipeline.lake.read("window_features", judged.key, ["metric"])["metric"].unique())
    stands_for = _represented(pipeline, judged.key)
    rows: list[dict[str, object]] = []
    for i, fault in enumerate(judged.faults.select(FAULTS.schema.names()).iter_rows(named=True)):
        culprits = set(fault["metrics"] or ()) | {stands_for[m] for m in fault["metrics"] or () if m in stands_for}
        row = {name: fault[name] for name in ("fault", "subsystem", "start", "end")}
        row |= {"subsystem": fault["subsystem"] or None, "candidates": len(candidates)}
        row |= {"culprits": len(culprits & candidates), "delay_s": _known(float(delay[i]))}
        if met is not None:
            row |= _blame(judged, met[i], row, culprits, candidates)
        rows.append(row)
    return rows


def _blame(
    judged: _Judged, met: NDArray[np.bool_], event: Mapping[str, object], culprits: set[str], candidates: set[str]
) -> dict[str, object]:
    """What the worst of the episodes that meet a fault says of it."""
    assert judged.episodes is not None
    if not met.any():
        return {"detected": False}
    order = ["surprisal", "severity", "start_ts", "host"]
    worst = judged.episodes.filter(pl.Series(met)).sort(order, descending=[True, True, False, False], nulls_last=True)
    blamed = worst["subsystem"][0]
    said: dict[str, object] = {"detected": True, "blamed": blamed}
    if event["subsystem"] is not None:
        said["blamed_rightly"] = blamed == event["subsystem"]
    ranked = list(worst["metrics"][0]) if worst["metrics"][0] is not None else []
    if culprits:
        said |= {f"hit_{k}": metrics.hit_at(ranked, culprits, k) for k in HITS}
        share = metrics.chance_of_hit
        said |= {f"chance_{k}": _known(share(len(candidates), len(culprits & candidates), k)) for k in HITS}
        said["hit_rate"] = metrics.hit_rate(ranked, culprits)
    return said


def _represented(pipeline: Pipeline, key: str) -> dict[str, str]:
    """By redundant metric, the one that stands for it: to name that one is to name the other."""
    catalog = pipeline.lake.read_cached("metric_catalog")
    if "represented_by" not in catalog.columns:
        return {}
    rows = catalog.filter((pl.col("platform") == pipeline.platform(key)) & pl.col("represented_by").is_not_null())
    return dict(rows.select("metric", "represented_by").iter_rows())


def _run(judged: _Judged, healthy: bool) -> dict[str, object]:
    """Time and false alarms. An episode may trail a fault by one window: its windows still hold faulty samples."""
    end = np.minimum(judged.fault_end + judged.length, judged.span.seconds)
    faulty_time = metrics.union_length(np.maximum(judged.fault_start, 0.0), end)
    known = judged.windows.filter(pl.col("anomalous").is_not_null())
    is_healthy = judged.truth.healthy[known["moment"].to_numpy()]
    row: dict[str, object] = {
        "healthy": healthy,
        "faults": judged.faults.height,
        "hours": judged.span.seconds / 3600,
        "healthy_hours": (judged.span.seconds - faulty_time) / 3600,
        "healthy_windows": int(is_healthy.sum()) if known.height else None,
        "false_windows": int((is_healthy & known["anomalous"].to_numpy()).sum()) if known.height else None,
    }
    if judged.episodes is not None:
        met = metrics.meets(*_episode_times(judged), judged.fault_start, judged.fault_end + judged.length)
        row |= {"episodes": judged.episodes.height, "false_episodes": int(np.count_nonzero(~met.any(axis=1)))}
    return row
