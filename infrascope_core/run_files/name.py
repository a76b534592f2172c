"""The file-name grammar: PREFIX_MODELforTASK_DATASET_START_HOST, as docs/format.md describes it.

What belongs here: what a run file's name (and, for LLM runs, its folder) says. Not its content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from infrascope_core.errors import RunFileError

SUFFIXES = (".txt", ".tsv", ".csv")
"""Endings of run files, in upper or lower case; each may be followed by one `.gz`."""

LABELS_SUFFIX = ".faults.csv"
TYPES_SUFFIX = ".metrics.csv"
"""Ending of the file that says which metrics of a run file are counters (docs/format.md, Types)."""
RECORDING_SUFFIX = ".recording"
"""Ending of the hidden file in which `infrascope collect` keeps what it reads until it writes the run file."""
_MAX_LENGTH = 200
_META = re.compile(r"meta([_-][A-Za-z0-9_-]+)?\.csv", re.IGNORECASE)
_NAME = re.compile(
    r"(?P<prefix>train|infer|fine-tuning|data)"
    r"_(?P<model>[A-Za-z0-9.+-]+?)for(?P<task>[A-Z][A-Za-z0-9.+-]*)"
    r"_(?P<dataset>[A-Za-z0-9][A-Za-z0-9.+-]*(?:_[A-Za-z0-9.+-]+)*)"
    r"_(?P<start>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)"
    r"_(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)"
)
_EXPECTED = (
    "expected a name like train_BERTBASEforTextClassification_default_2025-04-26T13-38-18_host01.txt "
    "(PHASE_MODELforTASK_DATASET_START_HOST)"
)
_ENDING = re.compile(r"(\.(txt|tsv|csv))?(\.gz)?\Z", re.IGNORECASE)
_LLM = re.compile(r"deepseek|llama|mistral", re.IGNORECASE)


@dataclass(frozen=True)
class RunName:
    """What a run file's name says.

    Attributes
    ----------
    run_key : str
        The file's stem, without `.txt` and `.gz`: the partition key.
    phase : str
        train, infer or fine-tuning.
    started_at : datetime
        Naive UTC, to the second.
    """

    run_key: str
    phase: str
    model: str
    task: str
    dataset: str
    started_at: datetime
    host: str

    @property
    def workload(self) -> str:
        """MODEL__TASK__DATASET, as the public data set's metadata writes it."""
        return f"{self.model}__{self.task}__{self.dataset}"

    @property
    def mode(self) -> str:
        """`llm` for the language models of the public data set, else `nonllm`."""
        return "llm" if _LLM.search(self.model) else "nonllm"


def is_run_file(path: Path) -> bool:
    """Whether a file is meant as a run file, by its ending.

    Labels, types, hidden files and `__MACOSX` leftovers are not. A file that is packed twice, or labels under a name
    that nobody would look for, count as run files: `parse_run_name` rejects them, so that they are not passed over.
    """
    name = path.name
    labels_or_types = name.endswith((LABELS_SUFFIX, TYPES_SUFFIX))
    if name.startswith(".") or labels_or_types or is_meta(path) or "__MACOSX" in path.parts:
        return False
    name = name.lower()
    while name.endswith(".gz"):
        name = name.removesuffix(".gz")
    return name.endswith(SUFFIXES)


def is_meta(path: Path) -> bool:
    """Whether a file is named as the tables are that describe the run files around them: `meta_gpu.csv`."""
    return _META.fullmatch(path.name) is not None


def is_recording(path: Path) -> bool:
    """Whether a file is a recording that is not a run file yet: it is going on, or it was cut off."""
    return path.name.startswith(".") and path.name.endswith(RECORDING_SUFFIX)


def run_key(path: Path) -> str:
    """The stem of a run file: its name without one ending `.txt`, `.tsv` or `.csv`, and one `.gz` after it."""
    return _ENDING.sub("", path.name, count=1)


def labels_path(path: Path) -> Path:
    """Where the labels of a run file lie, whether or not they exist."""
    return path.with_name(run_key(path) + LABELS_SUFFIX)


def types_path(path: Path) -> Path:
    """Where the types of a run file's metrics lie, whether or not they exist."""
    return path.with_name(run_key(path) + TYPES_SUFFIX)


def parse_run_name(path: Path) -> RunName:
    """Read a run file's name.

    Files with the prefix `data_` (LLM runs) take their phase from the nearest folder that begins with `train`
    or `infer`; LLM training runs of the public data set are fine-tuning (Reveal, appendix E).

    Raises
    ------
    RunFileError
        The name does not follow the grammar, or the phase is unknown.
    """
    key = run_key(path)
    if is_recording(path):
        raise RunFileError(
            path, f"a recording that was cut off; `infrascope collect --recover {path.parent}` makes a run file of it"
        )
    for what, suffix in (("labels", LABELS_SUFFIX), ("types of metrics", TYPES_SUFFIX)):
        if path.name.lower().removesuffix(".gz").endswith(suffix):
            raise RunFileError(path, f"{what} lie beside their run file as STEM{suffix}, in lower case and not packed")
    if key.lower().endswith((*SUFFIXES, ".gz")):
        raise RunFileError(path, "two endings; expected one of .txt, .tsv and .csv, and at most one .gz after it")
    match = _NAME.fullmatch(key) if len(key) <= _MAX_LENGTH and ".." not in key else None
    if match is None:
        raise RunFileError(path, f"unknown file name; {_EXPECTED}")
    try:
        started_at = datetime.strptime(match["start"], "%Y-%m-%dT%H-%M-%S")
    except ValueError:
        raise RunFileError(path, f"the start time {match['start']} is not a valid date; {_EXPECTED}") from None
    return RunName(
        run_key=key,
        phase=_phase(path, match["prefix"]),
        model=match["model"],
        task=match["task"],
        dataset=match["dataset"],
        started_at=started_at,
        host=match["host"],
    )


def is_run_name(path: Path) -> bool:
    """Whether a file's name follows the grammar."""
    try:
        parse_run_name(path)
    except RunFileError:
        return False
    return True


def printable_path(name: object) -> str:
    """A name as text that every table can hold; bytes that are not UTF-8, which a file's name may hold, as escapes."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _phase(path: Path, prefix: str) -> str:
    if prefix != "data":
        return prefix
    for folder in path.parts[-2::-1]:
        if folder.lower().startswith("train"):
            return "fine-tuning"
        if folder.lower().startswith("infer"):
            return "infer"
    raise RunFileError(
        path, "the prefix data_ does not give the phase; expected a folder train_… or infer_… around the file"
    )
