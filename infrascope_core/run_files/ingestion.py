"""Ingestion: a run file becomes telemetry in the lake, or an entry in `rejected_files`, never both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from infrascope_core.errors import LabelFileError, RunFileError
from infrascope_core.run_files.labels import labels_path, read_labels
from infrascope_core.run_files.name import parse_run_name, run_key
from infrascope_core.run_files.reader import RunFile, read_run_file
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, RUN_FILES, TELEMETRY
from infrascope_core.store.lake import Lake, content_hash, fingerprint

CODE_VERSION = "2"
"""Raise it when telemetry made from the same file would differ."""
_REJECTIONS = "rejections"
"""Folder of the lake with one file per rejected path, from which `rejected_files` is gathered."""


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


def source_fingerprint(paths: Sequence[Path]) -> str:
    """Fingerprint of the files that claim one run key, by name, size and time of change; reads no content."""
    parts = []
    for path in sorted(paths):
        for file in (path, labels_path(path)):
            stat = file.stat() if file.exists() else None
            parts.append(f"{file} {stat.st_size} {stat.st_mtime_ns}" if stat else f"{file} none")
    return fingerprint(*parts)


def candidate_files(key: str, paths: Sequence[Path], lake: Lake) -> list[Path]:
    """All files that claim a run key: those found now, and the one it was made from, if that still lies elsewhere."""
    known = lake.read_cached(RUN_FILES, key).filter(status="accepted")["source"]
    found = {_spelled(path) for path in paths}
    return [*paths, *(Path(source) for source in known if source not in found and Path(source).exists())]


def ingest(key: str, paths: Sequence[Path], lake: Lake, settings: ReaderSettings) -> Ingested:
    """Ingest the run file of one key.

    Of several files that claim the key, the one that was ingested before keeps it, else the first readable
    one by path; the others are rejected, unless they are the same bytes. A rejected key loses the products of
    an earlier file, so that no table tells of a run that `run_files` calls rejected.

    Parameters
    ----------
    key : str
        Run key: the stem that all the paths share.
    paths : sequence of Path
        Every file that claims the key.
    lake : Lake
        Where `telemetry`, `faults` and rejections are written; the row of `run_files` is returned, to be written last,
        so that a run that was cut off in between is read again.
    settings : ReaderSettings
        Limits of the reader.
    """
    known = lake.read(RUN_FILES, key)
    if not paths and "accepted" in known["status"]:
        # the file was put away after it was read: what was made of it stays
        return Ingested(known, lake.read(FAULTS, key))
    paths = candidate_files(key, paths, lake)
    earlier = known["source"].to_list()
    chosen: RunFile | None = None
    faults: list[tuple[Path, str]] = []
    for path in sorted(paths, key=lambda p: (_spelled(p) not in earlier, p)):
        try:
            if chosen is None:
                chosen = read_run_file(path, settings)
            elif _sha256(path) != chosen.sha256:
                raise RunFileError(path, f"duplicate run key: {chosen.path} is another file of the same name")
        except RunFileError as error:
            faults.append((path, error.fault))
            _reject(path, key, error.fault, lake)
        else:
            _accept(path, lake)
    labels = _labels(chosen, lake)
    if chosen is None:
        lake.drop_run(key, keep=(RUN_FILES,))
        row = _rejected_row(key, *(faults or [(Path(key), "no file lies there any more")])[0])
    else:
        lake.write(
            chosen.telemetry,
            TELEMETRY,
            key,
            fingerprint(CODE_VERSION, chosen.sha256, settings.digest(), key),
        )
        known_faults = FAULTS.empty() if labels is None else labels
        lake.write(known_faults, FAULTS, key, content_hash(known_faults))
        row = _accepted_row(chosen, labelled=labels is not None)
    return Ingested(row, FAULTS.empty() if labels is None else labels)


def reject_unknown_names(paths: Iterable[Path], lake: Lake) -> None:
    """Reject the files whose names follow no grammar."""
    for path in paths:
        try:
            parse_run_name(path)
        except RunFileError as error:
            _reject(path, run_key(path), error.fault, lake)


def rejected_paths(lake: Lake, present: Iterable[Path] = ()) -> list[str]:
    """What `forget_absent` would leave: paths of the rejections whose files are still there, sorted."""
    there = {_entry(path) for path in present}
    rows = ((entry, str(lake.read_cached(_REJECTIONS, entry)["path"][0])) for entry in lake.keys(_REJECTIONS))
    return sorted(path for entry, path in rows if entry in there or Path(path).exists())


def forget_absent(lake: Lake, present: Iterable[Path] = ()) -> pl.DataFrame:
    """Drop rejections of files that are gone, and return the rest: the table `rejected_files`.

    Parameters
    ----------
    lake : Lake
        Where the rejections are.
    present : iterable of Path
        Files that are known to be there, under names that the table may not be able to spell.
    """
    there = {_entry(path) for path in present}
    rows = [REJECTED_FILES.empty()]
    for entry in lake.keys(_REJECTIONS):
        row = lake.read(_REJECTIONS, entry)
        if entry in there or Path(str(row["path"][0])).exists():
            rows.append(row)
        else:
            lake.drop(_REJECTIONS, entry)
    return pl.concat(rows).sort("path")


def _entry(path: Path) -> str:
    return fingerprint(str(path))


def _spelled(name: object) -> str:
    """A name as text; bytes that are no UTF-8, which a file's name may hold, as escapes."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _accept(path: Path, lake: Lake) -> None:
    lake.drop(_REJECTIONS, _entry(path))


def _reject(path: Path, key: str, fault: str, lake: Lake) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    row = pl.DataFrame(
        [(_spelled(path), _spelled(key), _spelled(fault), now)], schema=REJECTED_FILES.schema, orient="row"
    )
    lake.write(row, _REJECTIONS, _entry(path))


def _labels(chosen: RunFile | None, lake: Lake) -> pl.DataFrame | None:
    """Labels beside the chosen file, if there are any; bad ones are rejected on their own account."""
    if chosen is None:
        return None
    path = labels_path(chosen.path)
    labels = None
    try:
        if path.exists():
            labels = read_labels(path, chosen.name.run_key)
    except LabelFileError as error:
        _reject(path, chosen.name.run_key, error.fault, lake)
    else:
        _accept(path, lake)
    return labels


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise RunFileError(path, f"cannot be opened ({error.strerror or error})") from error


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
        "bytes": run.bytes,
        "sha256": run.sha256,
        "source": _spelled(run.path),
        "labelled": labelled,
        "status": "accepted",
        "reason": None,
    }
    return pl.DataFrame([row], schema=RUN_FILES.schema)


def _rejected_row(key: str, path: Path, fault: str) -> pl.DataFrame:
    row = dict.fromkeys(RUN_FILES.schema.names())
    row |= {"run_key": key, "source": _spelled(path), "status": "rejected", "reason": fault}
    return pl.DataFrame([row], schema=RUN_FILES.schema)
