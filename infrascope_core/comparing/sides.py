"""Which runs are before a change and which are after it: by key, pattern, folder, or as the settings declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from infrascope_core.comparing.figures import RunFigures, by_job, figures_of
from infrascope_core.comparing.settings import DeclaredComparison
from infrascope_core.comparing.verdict import Comparison, Outcome, compare
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.wording import count
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.folder import find_run_files
from infrascope_core.store.folder import DataFolder

_LONGEST = 60
"""Most characters of an argument that a message repeats."""


@dataclass(frozen=True)
class Sides:
    """The runs of a comparison, by figures, with what came of it."""

    before: Sequence[RunFigures]
    after: Sequence[RunFigures]
    comparison: Comparison

    @property
    def cases(self) -> tuple[list[RunFigures], list[RunFigures]]:
        """What is compared, before and after: the hosts of a job are one."""
        return by_job(self.before), by_job(self.after)

    @property
    def number(self) -> str:
        """How many there are on either side, in words."""
        before, after = self.cases
        if (len(before), len(after)) == (len(self.before), len(self.after)):
            return f"{count(len(before), 'run')} before, {len(after)} after"
        hosts = f"{len(self.before)} and {len(self.after)} runs of their hosts"
        return f"{count(len(before), 'job')} before, {len(after)} after ({hosts})"


def chosen(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Keys of the runs that are asked for on a command line.

    Parameters
    ----------
    asked : sequence of str
        Run keys, patterns of them, or folders of run files.
    known : sequence of str
        Keys of the accepted runs, sorted.

    Raises
    ------
    InfraScopeError
        One of them is empty, or names no accepted run.
    """
    found: dict[str, None] = {}
    for text in asked:
        if not text.strip():
            raise InfraScopeError("an empty name; expected a run key, a pattern of run keys, or a folder of run files")
        if _is_folder(text):
            there = find_run_files([Path(text)])
            matches = [key for key in known if key in there]
        else:
            matches = matching([text], known)
        if not matches:
            short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"
            raise InfraScopeError(f"{short}: no accepted run is named so, nor is there a folder with such runs")
        found |= dict.fromkeys(matches)
    return list(found)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):  # too long to be a name, or none at all
        return False


def matching(patterns: Sequence[str], known: Sequence[str]) -> list[str]:
    """The known run keys that are, or match, one of the patterns."""
    return [key for key in known if any(key == pattern or fnmatchcase(key, pattern) for pattern in patterns)]


def compared(folder: DataFolder, before: Sequence[str], after: Sequence[str]) -> Sides:
    """Compare the runs of two sets of keys.

    Raises
    ------
    InfraScopeError
        A run is on both sides.
    """
    if both := sorted(set(before) & set(after)):
        raise InfraScopeError(f"{both[0]}: a run cannot be before and after the change")
    sides = figures_of(folder, before), figures_of(folder, after)
    return Sides(*sides, compare(*sides))


def keys_declared(folder: DataFolder, declared: DeclaredComparison) -> tuple[list[str], list[str]]:
    """Run keys before and after, as the settings declare them and runs are there."""
    known = accepted(folder)["run_key"].to_list()
    return matching(declared.before, known), matching(declared.after, known)


def compared_as_declared(folder: DataFolder, declared: DeclaredComparison) -> Sides:
    """Compare runs as the settings declare it; where that cannot be done, the sentence says why.

    One declaration that fits no runs must not keep all else from being made.
    """
    try:
        return compared(folder, *keys_declared(folder, declared))
    except InfraScopeError as error:
        return Sides((), (), Comparison(f"Nothing is compared. {error}.", Outcome.NOT_JUDGED, (), ()))
