"""Which runs are the reference, and which are judged by it.

What belongs here: finding labelled run files and dividing them, before anything is read. No run is ever judged by a
baseline that it was fitted on (docs/adr/0015).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from infrascope_core.errors import RunFileError
from infrascope_core.hosts.settings import HostSettings
from infrascope_core.run_files.jobs import find_jobs, on_several_hosts
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.name import RunName, labels_path, parse_run_name, types_path
from infrascope_core.run_files.sources.folder import find_run_files

ReferenceOf = Mapping[str, tuple[str, ...]]
"""Run keys of the reference runs by the run key of each judged run."""


@dataclass(frozen=True)
class LabelledRun:
    """A run file with labels.

    Attributes
    ----------
    path : Path
        Where the file lies.
    name : RunName
        What its name says.
    part : str
        First folder on the way from the one that was asked for to the file, "" at its top: results are given for
        each part.
    healthy : bool
        The label file has a header and no rows; or there is none, and the run was named as healthy.
    """

    path: Path
    name: RunName
    part: str
    healthy: bool

    @property
    def key(self) -> str:
        """The run key."""
        return self.name.run_key


Mode = Literal["others", "alone", "job"]
"""How runs are judged where nobody knows of a healthy one: by the others of their workload, each alone, or by the other
hosts of their job."""


@dataclass(frozen=True)
class Split:
    """Reference runs, judged runs, and who is judged by whom.

    Attributes
    ----------
    reference, judged : tuple of LabelledRun
        By run key; they share no run.
    reference_of : ReferenceOf
        For every judged run that has any.
    notes : tuple of str
        What a reader of the result must know about the division, a sentence each.
    mode : Mode, optional
        Given where runs are judged as if nobody knew of a healthy one.
    """

    reference: tuple[LabelledRun, ...]
    judged: tuple[LabelledRun, ...]
    reference_of: ReferenceOf
    notes: tuple[str, ...]
    mode: Mode | None = None


def find_labelled(
    paths: Iterable[Path], *, named_healthy: bool = False
) -> tuple[list[LabelledRun], list[tuple[Path, str]]]:
    """Find run files with labels.

    Parameters
    ----------
    paths : iterable of Path
        Files, and folders that are searched.
    named_healthy : bool
        Runs without a label file are healthy, because who names them says so.

    Returns
    -------
    runs : list of LabelledRun
        By run key.
    problems : list of (path, sentence)
        Run files that cannot be used: without labels, with labels that cannot be read, with unknown names, or
        with a name that another file has.

    Raises
    ------
    InfraScopeError
        A path does not exist.
    """
    found: dict[str, tuple[LabelledRun, Path]] = {}
    problems: list[tuple[Path, str]] = []
    for root in paths:
        for key, files in find_run_files([root]).items():
            for path in files:
                try:
                    run = _labelled(path, root, named_healthy)
                except RunFileError as error:
                    problems.append((error.path, error.fault))
                    continue
                if key in found and found[key][1] != path:
                    problems.append((path, f"{found[key][1]} is another file of the same name; this one is left out"))
                    continue
                found[key] = (run, path)
    return [found[key][0] for key in sorted(found)], problems


def _labelled(path: Path, root: Path, named_healthy: bool) -> LabelledRun:
    name = parse_run_name(path)
    labels = labels_path(path)
    if not labels.exists() and not named_healthy:
        raise RunFileError(
            path, f"has no labels; expected {labels.name} beside it, with a header alone if the run is healthy"
        )
    folders = path.relative_to(root.absolute()).parts[:-1] if root.is_dir() else ()
    healthy = not labels.exists() or read_labels(labels, name.run_key).is_empty()
    return LabelledRun(path, name, folders[0] if folders else "", healthy)


def split_healthy(runs: Sequence[LabelledRun]) -> Split:
    """Take the earlier half of each workload's healthy runs as the reference, and judge the rest.

    Of an odd number the one in the middle is reference too. A workload with a single healthy run has it as its
    reference, and no healthy run is left to be judged; one without any is not judged at all. Notes say both.
    """
    reference: list[LabelledRun] = []
    notes: list[str] = []
    for workload, members in _by_workload(runs).items():
        healthy = sorted((run for run in members if run.healthy), key=lambda run: (run.name.started_at, run.key))
        reference += healthy[: (len(healthy) + 1) // 2]
        if len(healthy) == 1 and len(members) > 1:
            notes.append(
                f"{_spelled(workload)}: its one healthy run is the reference, so false episodes are counted only "
                "between the faults of its other runs"
            )
    return _split(reference, runs, notes)


def split_by_reference(runs: Sequence[LabelledRun], reference: Sequence[LabelledRun]) -> Split:
    """Judge runs by the healthy ones among others of the same phase and workload.

    Parameters
    ----------
    runs : sequence of LabelledRun
        To be judged; those that are references themselves are not.
    reference : sequence of LabelledRun
        Those with faults are left out, and a note says so.
    """
    healthy = [run for run in reference if run.healthy]
    left_out = len(reference) - len(healthy)
    notes = [f"{left_out} of the reference runs are left out, because their labels hold faults"] if left_out else []
    return _split(healthy, runs, notes)


def split_by_phase(runs: Sequence[LabelledRun], phase: str, links: Path) -> Split:
    """Judge runs by the healthy runs of another phase of the same workload.

    Baselines are fitted per phase, so a reference run is presented under the phase of the runs it is to judge: by a
    link of that name, with its labels.

    Parameters
    ----------
    runs : sequence of LabelledRun
        All runs; those of `phase` are references.
    phase : str
        As in run names, `train` or `infer`.
    links : Path
        Folder for the links; it is made if there is none.
    """
    judged = [run for run in runs if run.name.phase != phase]
    phases = sorted({(run.name.phase, run.name.workload) for run in judged})
    reference = [
        _linked(run, wanted, links)
        for run in runs
        for wanted, workload in phases
        if run.name.phase == phase and run.healthy and run.name.workload == workload
    ]
    return _split(reference, judged, [])


def split_unlabelled(runs: Sequence[LabelledRun], mode: Mode) -> Split:
    """Judge all runs, none of which is known to be healthy: there is no reference."""
    return Split((), tuple(sorted(runs, key=lambda run: run.key)), {}, (), mode)


def by_job(runs: Sequence[LabelledRun], settings: HostSettings) -> list[tuple[LabelledRun, ...]]:
    """The runs of each job that ran on several hosts (`run_files.jobs`), by what their names say."""
    named = {run.key: run for run in runs}
    rows = [{"platform": "", "run_key": run.key, "hosts": [run.name.host], **asdict(run.name)} for run in runs]
    jobs = on_several_hosts(find_jobs(pl.DataFrame(rows), settings.start_within_s))
    by_key = jobs.group_by("job", maintain_order=True).agg("run_key")
    return [tuple(named[key] for key in keys) for keys in by_key["run_key"]]


def _linked(run: LabelledRun, phase: str, links: Path) -> LabelledRun:
    links.mkdir(parents=True, exist_ok=True)
    name = phase + run.path.name.removeprefix(run.name.phase)
    link = links.absolute() / name
    for source, target in ((of(run.path), of(link)) for of in (Path, labels_path, types_path)):
        target.unlink(missing_ok=True)
        if source.exists():  # types need not be declared
            target.symlink_to(source.absolute())
    return replace(run, path=link, name=parse_run_name(link))


def _split(reference: Sequence[LabelledRun], runs: Sequence[LabelledRun], notes: list[str]) -> Split:
    chosen = {run.key: run for run in reference}
    judged = sorted((run for run in runs if run.key not in chosen), key=lambda run: run.key)
    groups = {workload: tuple(sorted(r.key for r in rs)) for workload, rs in _by_workload(chosen.values()).items()}
    orphans = sorted({_workload(run) for run in judged} - set(groups))
    notes = notes + [f"{_spelled(w)}: no healthy run to compare with, so its runs are not judged" for w in orphans]
    reference_of = {run.key: groups[_workload(run)] for run in judged if _workload(run) in groups}
    return Split(tuple(chosen[key] for key in sorted(chosen)), tuple(judged), reference_of, tuple(notes))


def _workload(run: LabelledRun) -> tuple[str, str]:
    return run.name.phase, run.name.workload


def _spelled(workload: tuple[str, str]) -> str:
    return " ".join(workload)


def _by_workload(runs: Iterable[LabelledRun]) -> dict[tuple[str, str], list[LabelledRun]]:
    groups: dict[tuple[str, str], list[LabelledRun]] = {}
    for run in sorted(runs, key=lambda run: run.key):
        groups.setdefault(_workload(run), []).append(run)
    return dict(sorted(groups.items()))
