"""Ingestion: a run file becomes telemetry in the lake, or an entry in `rejected_files`, never both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from infrascope_core.errors import LabelFileError, MetricTypesError, RunFileError
from infrascope_core.run_files.candidates import candidate_files
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.metric_types import read_types
from infrascope_core.run_files.name import labels_path, printable_path, types_path
from infrascope_core.run_files.reader import RunFile, is_same_content, read_run_file
from infrascope_core.run_files.rejections import reject, withdraw
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.tables import FAULTS, METRIC_TYPES, RUN_FILES, TELEMETRY
from infrascope_core.store.lake import Lake, content_hash, fingerprint

CODE_VERSION = "3"
"""Raise it when telemetry made from the same file would differ."""


@dataclass(frozen=True)
class Ingested:
    """What became of a run key: its row of `run_files`, and whether its telemetry can be used."""

    run_file: pl.DataFrame
    faults: pl.DataFrame

    @property
    def accepted(self) -> bool:
        """Whether there is telemetry to go on with."""
        return str(self.run_file["status"][0]) == "accepted"

    @property
    def reason(self) -> str:
        """Why it was rejected; empty if it was not."""
        return str(self.run_file["reason"][0] or "")


def ingest(key: str, entries: Sequence[Entry], lake: Lake, settings: ReaderSettings) -> Ingested:
    """Ingest the run file of one key.

    Of several files that claim the key, the one that was ingested before keeps it, else the first readable
    one by path; the others are rejected, unless they are the same bytes. A rejected key loses the products of
    an earlier file, so that no table holds a run that `run_files` calls rejected.

    Parameters
    ----------
    key : str
        Run key: the stem that all the files share.
    entries : sequence of Entry
        Every file that claims the key.
    lake : Lake
        Where `telemetry`, `faults`, `metric_types` and rejections are written; the row of `run_files` is returned, to
        be written last, so that a run that was cut off in between is read again.
    settings : ReaderSettings
        Limits of the reader.

    Raises
    ------
    SourceError
        A source cannot be reached, or a file changes while it is read. Nothing is known of it then, and nothing is
        written: what was made of an earlier file stays.
    """
    known = lake.read_all(RUN_FILES, [key])
    if not entries and "accepted" in known["status"]:
        # the file was put away after it was read: what was made of it stays
        return Ingested(_completed(known, lake), lake.read(FAULTS, key))
    entries = candidate_files(key, entries, lake)
    earlier = known["source"].to_list()
    chosen: RunFile | None = None
    beside: Entry | None = None
    declared: Entry | None = None
    faults: list[tuple[Path, str]] = []
    for entry in sorted(entries, key=lambda entry: (printable_path(entry.path) not in earlier, entry.path)):
        path = entry.path
        try:
            if chosen is None:
                chosen, beside, declared = read_run_file(entry, settings), entry.labels, entry.types
            elif not is_same_content(entry, chosen.bytes, chosen.sha256):
                raise RunFileError(path, f"duplicate run key: {chosen.path} is another file of the same name")
        except RunFileError as error:
            faults.append((path, error.fault))
            reject(path, key, error.fault, lake, entry.around)
        else:
            withdraw(path, lake)
    labels = _labels(chosen, beside, lake)
    if chosen is None:
        lake.drop_run(key, keep=(RUN_FILES,))
        row = _rejected_row(key, *(faults or [(Path(key), "the file no longer exists")])[0])
    else:
        lake.write(
            chosen.telemetry,
            TELEMETRY,
            key,
            fingerprint(CODE_VERSION, chosen.sha256, settings.digest(), key),
        )
        known_faults = FAULTS.empty() if labels is None else labels
        lake.write(known_faults, FAULTS, key, content_hash(known_faults))
        types = _types(chosen, declared, lake)
        lake.write(types, METRIC_TYPES, key, content_hash(types))
        row = _accepted_row(chosen, labelled=labels is not None)
    return Ingested(row, FAULTS.empty() if labels is None else labels)


def _labels(chosen: RunFile | None, beside: Entry | None, lake: Lake) -> pl.DataFrame | None:
    """Labels beside the chosen file, if there are any; bad ones are rejected on their own account."""
    if chosen is None:
        return None
    key, labels = chosen.name.run_key, None
    try:
        if beside is not None:
            labels = read_labels(beside, key)
    except LabelFileError as error:
        reject(error.path, key, error.fault, lake, beside.around if beside else "")
    else:
        withdraw(labels_path(chosen.path), lake)
    return labels


def _types(chosen: RunFile, declared: Entry | None, lake: Lake) -> pl.DataFrame:
    """Types declared beside the chosen file; bad ones are rejected on their own account, and nothing is declared."""
    types = METRIC_TYPES.empty()
    try:
        if declared is not None:
            types = read_types(declared, chosen.name.run_key)
    except MetricTypesError as error:
        reject(error.path, chosen.name.run_key, error.fault, lake, declared.around if declared else "")
    else:
        withdraw(types_path(chosen.path), lake)
    return types


def _accepted_row(run: RunFile, labelled: bool) -> pl.DataFrame:
    row = {
        "run_key": run.name.run_key,
        "platform": run.platform,
        "phase": run.name.phase,
        "mode": run.name.mode,
        "model": run.name.model,
        "task": run.name.task,
        "dataset": run.name.dataset,
        "workload": run.name.workload,
        "host": run.name.host,
        "started_at": run.name.started_at,
        "samples": run.samples,
        "metrics": run.metrics,
        "interval_s": run.interval_s,
        **_span(run.telemetry, run.interval_s),
        "bytes": run.bytes,
        "sha256": run.sha256,
        "source": printable_path(run.path),
        "labelled": labelled,
        "status": "accepted",
        "reason": None,
    }
    return pl.DataFrame([row], schema=RUN_FILES.schema)


def _span(telemetry: pl.DataFrame, interval_s: float | None) -> dict[str, object]:
    """The hosts of a run, and from when to when it ran; the last sample stands for an interval, too."""
    first, last = telemetry["ts"].min(), telemetry["ts"].max()
    length = (last - first).total_seconds() if isinstance(first, datetime) and isinstance(last, datetime) else 0.0
    return {
        "hosts": telemetry["host"].unique().sort().to_list(),
        "first_ts": first,
        "last_ts": last,
        "seconds": round(length + (interval_s or 0.0), 6),  # times are in microseconds
    }


def _completed(known: pl.DataFrame, lake: Lake) -> pl.DataFrame:
    """The row of a run as it was, with what an earlier version did not write."""
    row = known.row(0, named=True)
    if row["seconds"] is None:
        row |= _span(lake.read(TELEMETRY, row["run_key"], ["host", "ts"]), row["interval_s"])
    return pl.DataFrame([row], schema=RUN_FILES.schema)


def _rejected_row(key: str, path: Path, fault: str) -> pl.DataFrame:
    row = dict.fromkeys(RUN_FILES.schema.names())
    row |= {"run_key": key, "source": printable_path(path), "status": "rejected", "reason": fault}
    return pl.DataFrame([row], schema=RUN_FILES.schema)
