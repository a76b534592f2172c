"""Which runs of a source are wanted: by workload, phase and number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, urlencode

from infrascope_core.errors import InfraScopeError, RunFileError
from infrascope_core.run_files.name import parse_run_name, run_key
from infrascope_core.run_files.sources.entry import Entry

PHASES = ("train", "infer", "fine-tuning")
Kind = tuple[str, str]
"""Phase and workload of a run."""


@dataclass(frozen=True)
class Selection:
    """What is wanted of a source.

    Attributes
    ----------
    workload : str or None
        Pattern of the shell for MODEL__TASK__DATASET, in upper or lower case; None for all.
    phase : str or None
        train, infer or fine-tuning; None for all.
    runs : int or None
        How many of them; None for all.
    """

    workload: str | None = None
    phase: str | None = None
    runs: int | None = None

    @classmethod
    def parse(cls, query: str, source: str) -> Selection:
        """The selection in the name of a source: `workload=BERT*&phase=train&runs=20`.

        Raises
        ------
        InfraScopeError
            It asks for something else, or for a number or a phase that is none.
        """
        try:
            asked = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        except ValueError:
            raise InfraScopeError(f"{source}: expected name=value after the question mark, joined by &") from None
        if unknown := asked.keys() - {"workload", "phase", "runs"}:
            raise InfraScopeError(f"{source}: unknown choice {min(unknown)[:50]}; expected workload, phase or runs")
        runs = asked.get("runs")
        if runs is not None and (not runs.isdecimal() or not 0 < int(runs[:9]) or len(runs) > 9):
            raise InfraScopeError(f"{source}: runs: expected a whole number of at least 1, found {runs[:50]}")
        return cls(asked.get("workload"), asked.get("phase"), None if runs is None else int(runs)).checked(source)

    def checked(self, source: str) -> Selection:
        """The same.

        Raises
        ------
        InfraScopeError
            There is no such phase.
        """
        if self.phase is not None and self.phase not in PHASES:
            expected = ", ".join(PHASES)
            raise InfraScopeError(f"{source}: phase: expected one of {expected}, found {self.phase[:50]}")
        return self

    @property
    def query(self) -> str:
        """As `parse` reads it."""
        asked = {"workload": self.workload, "phase": self.phase, "runs": self.runs}
        return urlencode({name: value for name, value in asked.items() if value is not None}, safe="*[]!")

    def __bool__(self) -> bool:
        return self != EVERYTHING

    def __str__(self) -> str:
        parts = [
            "" if self.phase is None else f"phase {self.phase}",
            "" if self.workload is None else f"workload {self.workload}",
        ]
        return " and ".join(filter(None, parts))


EVERYTHING = Selection()


def select(
    entries: Sequence[Entry], selection: Selection, described: Mapping[str, Kind], source: str
) -> tuple[Entry, ...]:
    """The entries that are wanted.

    Of more runs than are wanted, those with the smallest hashes of their keys are taken: a choice that follows neither
    time nor workload, and to which runs are only added when more are wanted later.

    Parameters
    ----------
    entries : sequence of Entry
        What the source holds.
    selection : Selection
        What is wanted of it.
    described : mapping
        Phase and workload by run key, where a table says them; else they are those of the name.
    source : str
        What the source is called.

    Raises
    ------
    InfraScopeError
        Nothing is selected.
    """
    if not selection:
        return tuple(entries)
    matching: dict[str, list[Entry]] = {}
    for entry in entries:
        kind = kind_of(entry, described)
        if kind is not None and entry.refusal is None and _fits(kind, selection):
            matching.setdefault(run_key(entry.path), []).append(entry)
    if not matching:
        raise InfraScopeError(f"{source}: none of its {len(entries):,} files is of {selection}")
    keys = sorted(matching, key=lambda key: hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest())
    wanted = set(keys[: selection.runs])
    return tuple(entry for key, of_key in matching.items() if key in wanted for entry in of_key)


def kind_of(entry: Entry, described: Mapping[str, Kind]) -> Kind | None:
    """Phase and workload of a run file; None if neither a table nor its name tells."""
    known = described.get(run_key(entry.path))
    if known is not None:
        return known
    try:
        name = parse_run_name(entry.path)
    except RunFileError:
        return None
    return name.phase, name.workload


def _fits(kind: Kind, selection: Selection) -> bool:
    phase, workload = kind
    if selection.phase is not None and phase != selection.phase:
        return False
    return selection.workload is None or fnmatchcase(workload.lower(), selection.workload.lower())
