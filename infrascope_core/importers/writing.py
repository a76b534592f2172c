"""Run files from joined rows: their names, their columns, and the types beside them.

What belongs here: names that the grammar of run files accepts whatever the source called things, text, and files that
are whole or not there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from infrascope_core.errors import ImportSourceError, RunFileError
from infrascope_core.importers.jobs import Job
from infrascope_core.importers.joining import Joined
from infrascope_core.run_files.columns import column_name
from infrascope_core.run_files.metric_types import types_text
from infrascope_core.run_files.name import parse_run_name, types_path
from infrascope_core.store.atomic import aside, write_text

_TIME_FORMAT = "%Y-%m-%d %H:%M:%S%.3f"
_LONGEST_NAME = 60
_WHOLE = 2.0**53
"""Beyond it not every whole number is a float."""


@dataclass(frozen=True)
class Naming:
    """What the names of run files say beside start and host; a job's own name stands for a model that is not given."""

    model: str | None = None
    task: str = "Unknown"
    dataset: str = "default"
    phase: Literal["train", "infer"] = "train"


def run_path(folder: Path, job: Job, host: str, naming: Naming) -> Path:
    """Where the run file of a job and host lies.

    Raises
    ------
    ImportSourceError
        What was given makes no name of a run file.
    """
    model = word(naming.model or job.name or "unknown")
    # the first `for` before a capital letter ends the model
    model = re.sub(r"for(?=[A-Z])", "For", model)
    start = f"{job.start:%Y-%m-%dT%H-%M-%S}"
    path = folder / f"{naming.phase}_{model}for{naming.task}_{naming.dataset}_{start}_{word(host)}.tsv"
    try:
        parse_run_name(path)
    except RunFileError as error:
        raise ImportSourceError(f"{path.name}: {error.fault}") from None
    return path


def word(text: str) -> str:
    """Text as names of run files can have it: letters, digits, dots and hyphens, beginning with a letter or digit."""
    kept = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9.-]+", "-", text))
    return kept[:_LONGEST_NAME].strip(".-") or "unknown"


def write_run_file(path: Path, joined: Joined, host: str) -> None:
    """Write a run file, and the types of its metrics beside it.

    Parameters
    ----------
    path : Path
        As `run_path` gives it.
    joined : Joined
        Its rows; at least one.
    host : str
        The host of the columns.

    Raises
    ------
    StorageError
        There is no room.
    """
    metrics = joined.rows.columns[1:]
    names = [column_name(metric, word(host)) for metric in metrics]
    table = joined.rows.select(pl.col("ts").dt.to_string(_TIME_FORMAT), *(_short(joined.rows[m]) for m in metrics))
    # first what the run file is judged by: whoever sees the one finds the other
    write_text(types_path(path), types_text(joined.types))
    with aside(path, sync=True) as place, place.open("wb") as stream:
        stream.write("\t".join(["", *names]).encode() + b"\n")
        table.write_csv(stream, separator="\t", include_header=False, quote_style="never")


def _short(values: pl.Series) -> pl.Series:
    """Whole numbers as such: half the text, and twice as fast to write."""
    known = values.drop_nulls().to_numpy()
    whole = bool(len(known)) and bool((np.abs(known) < _WHOLE).all()) and bool((known == np.rint(known)).all())
    return values.cast(pl.Int64) if whole else values
