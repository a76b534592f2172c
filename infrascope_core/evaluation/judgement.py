"""One data set judged: references fitted, the other runs scored by them, and both held against the labels.

What belongs here: bringing a data folder up in two stages, whom to trust, and the peers' matrices. The figures of a run
are in `judged_run`, pooling over runs in `report`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from infrascope_core.anomalies.features import feature_matrix, of_windows
from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.anomalies.sampling import sample_windows
from infrascope_core.anomalies.tables import ANOMALY_SCORES, BASELINES, FEATURES, WINDOW_FEATURES
from infrascope_core.errors import InfraScopeError
from infrascope_core.evaluation.judged_run import (
    ANY_FAULT,
    COMBINATION,
    EVENTS,
    OURS,
    RUN_COLUMNS,
    RUNS,
    SEPARATION,
    JudgedRun,
    span_of,
)
from infrascope_core.evaluation.metrics import overlap
from infrascope_core.evaluation.peers import PEERS, Peers, raw_windows
from infrascope_core.evaluation.split import LabelledRun, Split, by_job
from infrascope_core.evaluation.truth import label_faults
from infrascope_core.numeric import Array
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS, RUN_FILES, TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import OnProgress

INPUTS = ("features", "raw")
"""What the peers get: the windows' features, or metrics averaged over the windows, counters as differences."""
POSITION, PLACEBO = "position", "placebo"
"""Controls: the share of the data set's other runs that have a fault at the same time from their start; and the
combination, held against the labels of another run. Neither should tell anything."""
METHODS = (*OURS, *(f"{peer} ({data})" for data in INPUTS for peer in PEERS), POSITION, PLACEBO)


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
        What a reader of the figures needs to know, a sentence each.
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
    *,
    on_progress: OnProgress = lambda product, done, total: None,
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
        Of the folder, and `evaluation`.
    on_progress : callable
        Called with the progress of each product.

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
    if split.mode and not split.judged:
        raise InfraScopeError(f"{data_set}: there is no labelled run to judge")
    if split.mode in {"alone", "job"}:
        return _apart(data_set, split, data, _blind(settings), on_progress)
    if split.mode == "others":
        return compare(data_set, split, _filled(data, split.judged, _blind(settings), on_progress), None)
    if not split.reference_of:
        raise InfraScopeError(
            f"{data_set}: no run can be judged; it takes a run, and a healthy run (a label file with a header and "
            "no rows) of the same phase and workload to compare it with"
        )
    reference = _filled(data, split.reference, settings, on_progress)
    trusted = frozenset(reference.lake.read(BASELINES)["version"])
    everything = _filled(data, (*split.reference, *split.judged), settings, on_progress)
    return compare(data_set, split, everything, trusted)


def _apart(data_set: str, split: Split, data: Path, settings: Settings, on_progress: OnProgress) -> Judgement:
    """Judge every run, or the runs of every job, in a data folder of its own; see `judge`."""
    groups = by_job(split.judged, settings.hosts) if split.mode == "job" else [(run,) for run in split.judged]
    if not groups:
        raise InfraScopeError(f"{data_set}: there is no job that ran on several hosts")
    parts = []
    for number, runs in enumerate(groups):
        on_progress(runs[0].key, number, len(groups))
        folder = _filled(data / runs[0].key, runs, settings, lambda product, done, total: None)
        parts.append(compare(data_set, replace(split, judged=runs), folder, None))
    single = len(split.judged) - sum(map(len, groups))
    notes = [f"{single} runs are left out, because no other host ran their job"] if single else []
    return Judgement(
        pl.concat([part.separation for part in parts]),
        pl.concat([part.events for part in parts]),
        pl.concat([part.runs for part in parts]),
        tuple(problem for part in parts for problem in part.problems),
        (*split.notes, *notes),
    )


def _filled(data: Path, runs: Sequence[LabelledRun], settings: Settings, on_progress: OnProgress) -> DataFolder:
    folder = DataFolder(data, settings, tuple(run.path for run in runs))
    refresh(folder, False, on_progress)
    return folder


def _blind(settings: Settings) -> Settings:
    """The same for a folder whose labels nobody sees: they lie beside the runs, and do not choose references."""
    return settings.model_copy(
        update={"detectors": settings.detectors.model_copy(update={"compare_with": "workload", "reference_runs": ()})}
    )


def compare(data_set: str, split: Split, folder: DataFolder, trusted: frozenset[str] | None) -> Judgement:
    """Hold a filled data folder against the labels.

    Parameters
    ----------
    data_set, split
        See `judge`.
    folder : DataFolder
        Its folder holds the products of all runs.
    trusted : frozenset of str, optional
        Versions of the baselines that no judged run took part in. None, where no run is known to be healthy: then all
        that the product says counts, and there is nothing that the peers could learn from.
    """
    usable = {row["run_key"]: row for row in accepted(folder).iter_rows(named=True)}
    problems = [
        (run.path, _why_rejected(folder, run.key)) for run in (*split.reference, *split.judged) if run.key not in usable
    ]
    runs, untrusted = [], []
    scored: list[tuple[dict[str, object], JudgedRun, dict[str, Array]]] = []
    for references, members in _groups(split, usable):
        peers = {data: _fit_peers(folder, references, data) for data in INPUTS} if references else {}
        for run in members:
            problem = _label_problem(folder, run)
            if problem is not None:
                problems.append((run.path, problem))
                continue
            scores = folder.lake.read(ANOMALY_SCORES, run.key)
            versions = set(scores["baseline_version"].drop_nulls())
            if trusted is not None and (not references or scores.is_empty() or not versions <= trusted):
                untrusted.append(run.key)
                continue
            row = {name: usable[run.key].get(name) for name in RUN_COLUMNS} | {"data_set": data_set, "part": run.part}
            judged = JudgedRun.of(folder, run.key)
            scored.append((row, judged, _method_scores(folder, run.key, judged, peers)))
            runs.append(_tabled([judged.alarms() | {"healthy": run.healthy}], row, RUNS))
    of_job = [judged for _, judged, _ in scored] if split.mode == "job" else []
    events = [_tabled(judged.events(of_job), row, EVENTS) for row, judged, _ in scored]
    separation = _separations(scored, folder.settings.evaluation.max_buffer)
    notes = list(split.notes)
    if untrusted:
        notes.append(
            f"{len(untrusted)} runs are left out, because no baseline of reference runs could judge them; "
            f"the first is {untrusted[0]}"
        )
    return Judgement(
        _by_run(separation, SEPARATION), _by_run(events, EVENTS), _by_run(runs, RUNS), tuple(problems), tuple(notes)
    )


def _separations(
    scored: Sequence[tuple[dict[str, object], JudgedRun, dict[str, Array]]], max_buffer: int
) -> list[pl.DataFrame]:
    """How well each method's scores separate the windows of each run, the controls among them."""
    faulty = sorted((item for item in scored if item[1].faults.height), key=lambda item: str(item[0]["run_key"]))
    tables = []
    for place, (row, judged, methods) in enumerate(faulty):
        others = [other for _, other, _ in faulty if other is not judged]
        areas = judged.separation(methods | ({POSITION: _position(judged, others)} if others else {}), max_buffer)
        if others:
            mistaken = judged.labelled_as(faulty[place - 1][1])
            placebo = mistaken.separation({PLACEBO: methods[COMBINATION]}, max_buffer)
            areas += [area for area in placebo if area["fault"] == ANY_FAULT]
        tables.append(_tabled(areas, row, SEPARATION))
    return tables


def _position(judged: JudgedRun, others: Sequence[JudgedRun]) -> Array:
    """Share of the other runs that have a fault where each moment of this one is, in seconds from the start."""
    moments = judged.moments
    touched = [
        overlap(moments, moments + judged.length, other.fault_start, other.fault_end).any(axis=1) for other in others
    ]
    return np.asarray(np.mean(touched, axis=0))


def _groups(
    split: Split, usable: Mapping[str, Mapping[str, object]]
) -> Iterator[tuple[tuple[str, ...], list[LabelledRun]]]:
    """Judged runs by their reference runs, which are of the same platform."""
    groups: dict[tuple[str, ...], list[LabelledRun]] = {}
    for run in split.judged:
        if run.key in usable and (run.key in split.reference_of or split.mode):
            platform = usable[run.key]["platform"]
            same = (key for key in split.reference_of.get(run.key, ()) if key in usable)
            groups.setdefault(tuple(k for k in same if usable[k]["platform"] == platform), []).append(run)
    yield from sorted(groups.items(), key=lambda group: group[1][0].key)


def _by_run(parts: Sequence[pl.DataFrame], schema: pl.Schema) -> pl.DataFrame:
    frame = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    order = [name for name in ("run_key", "start", "fault") if name in schema]
    return frame.sort(order, maintain_order=True)


def _tabled(rows: list[dict[str, object]], run: Mapping[str, object], schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame([{**run, **row} for row in rows], schema=schema, orient="row")


def _why_rejected(folder: DataFolder, key: str) -> str:
    reasons = folder.lake.read(RUN_FILES, key)["reason"].drop_nulls()
    return f"is rejected: {reasons[0] if len(reasons) else 'its name or its content cannot be read'}"


def _label_problem(folder: DataFolder, run: LabelledRun) -> str | None:
    names = folder.lake.columns(TELEMETRY, run.key)
    return label_faults(folder.lake.read(FAULTS, run.key), span_of(folder, run.key), names)


_FittedPeers = tuple[tuple[object, ...], Peers]
"""Peers, and the columns of the matrix that they were fitted on."""


def _method_scores(
    folder: DataFolder, key: str, judged: JudgedRun, peers: Mapping[str, _FittedPeers]
) -> dict[str, Array]:
    """Scores by method, one a moment."""
    scores = {name: judged.by_moment(judged.windows[column]) for name, column in OURS.items()}
    for data, (columns, fitted) in peers.items():
        keys, matrix = _matrix(folder, key, data, columns)
        by_peer = pl.DataFrame({"host": keys["host"], "window": keys["window"], **fitted.score(matrix)})
        aligned = judged.windows.select("host", "window").join(
            by_peer, on=["host", "window"], how="left", maintain_order="left"
        )
        scores |= {f"{peer} ({data})": judged.by_moment(aligned[peer]) for peer in PEERS}
    return scores


def _fit_peers(folder: DataFolder, references: Sequence[str], data: str) -> _FittedPeers:
    if data == "features":
        windows = pl.concat([folder.lake.read(WINDOW_FEATURES, key) for key in references])
        chosen = sample_windows(windows, folder.settings.detectors)
        windows = of_windows(windows, chosen)
        columns: tuple[object, ...] = tuple((m, f) for m in windows["metric"].unique().sort() for f in FEATURES)
        matrix = feature_matrix(windows, columns)[1]  # type: ignore[arg-type]  # pairs
    else:
        raw = [_raw(folder, key) for key in references]
        together = pl.concat(raw, how="diagonal")
        columns = tuple(sorted(set(together.columns) - {"run_key", "host", "window"}))
        chosen = sample_windows(together, folder.settings.detectors)
        together = together.join(chosen, on=chosen.columns, how="semi")
        matrix = together.select(columns).fill_null(np.nan).to_numpy()  # type: ignore[arg-type]  # names
    return columns, Peers(matrix, folder.settings.evaluation)


def _matrix(folder: DataFolder, key: str, data: str, columns: tuple[object, ...]) -> tuple[pl.DataFrame, Array]:
    if data == "features":
        return feature_matrix(folder.lake.read(WINDOW_FEATURES, key), columns)  # type: ignore[arg-type]  # pairs
    raw = _raw(folder, key)
    lacking = [pl.lit(np.nan).alias(str(name)) for name in columns if name not in raw.columns]
    return raw, raw.with_columns(lacking).select(map(str, columns)).fill_null(np.nan).to_numpy()


def _raw(folder: DataFolder, key: str) -> pl.DataFrame:
    """Averages of a run's metrics, counters as differences: a total that only grows tells a run from the next."""
    hosts = [raw_windows(part, folder.settings.features) for _, part in reanalysed_hosts(folder, key)]
    return pl.concat(hosts, how="diagonal").with_columns(run_key=pl.lit(key))
