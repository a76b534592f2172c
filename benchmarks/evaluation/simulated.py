"""The simulated part of the suite: which jobs there are, and writing their run files.

reference/1, 2 ...       healthy, what is normal, one of each workload and platform
more-reference/5, 6 ...  more of them, where a data set has more references
contaminated/1           with faults of middle intensity, and labels that say it is healthy
other-host/1, 2 ...      references from another host of the same kind
judged/healthy/          healthy
judged/more-healthy/     the same, for more hours
judged/low/ middle/ high/  several faults a run, all of that intensity
hosts/healthy/ middle/   jobs of several hosts, one of which has a fault of middle intensity
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

from infrascope_core.run_files.name import labels_path, parse_run_name
from infrascope_core.run_files.tables import Platform
from infrascope_core.simulate import FAULTS, LEVELS, Fault, Job, write_job

PLATFORMS: tuple[Platform, ...] = ("gpu", "cpu")
Seeds = Literal["development", "evaluation"]


@dataclass(frozen=True)
class PlannedRun:
    """One run file to be.

    Attributes
    ----------
    host : str, optional
        Whose file of the job is kept, and what the job writes for its other hosts deleted; None keeps them all.
    truthful : bool
        Whether its labels hold its faults; else they say that it is healthy.
    """

    folder: str
    job: Job
    host: str | None
    truthful: bool = True


def planned(plan: dict[str, Any], seeds: Seeds, workloads: int | None = None) -> Iterator[PlannedRun]:
    """All runs of the plan; the first so many workloads only, if asked. Faults take turns in their places in a run."""
    seed = count(plan["seeds"][seeds])
    per_run = _places(plan)
    few, more = plan["reference_runs"], plan["reference_runs"] + plan["more_reference_runs"]
    healthy = [
        *(f"reference/{number}" for number in range(1, few + 1)),
        *["judged/healthy"] * plan["healthy_runs"],
        *["judged/more-healthy"] * plan["more_healthy_runs"],
        *(f"more-reference/{number}" for number in range(few + 1, more + 1)),
    ]
    for turn, workload in enumerate(plan["workloads"][:workloads]):
        for platform in PLATFORMS:
            kinds = [kind for kind in FAULTS.values() if platform in kind.platforms]
            passing = [kind.name for kind in kinds if not kind.whole_run]
            passing = passing[turn % len(passing) :] + passing[: turn % len(passing)]
            lasting = [(kind.name,) for kind in kinds if kind.whole_run]
            jobs = (Job(platform, **workload, minutes=plan["minutes"], seed=number) for number in seed)
            for folder in healthy:
                yield _run(plan, folder, next(jobs))
            for level in plan["intensities"]:
                for names in [*_batches(passing, per_run), *lasting]:
                    yield _run(plan, f"judged/{level}", next(jobs), names, level)
            yield replace(_run(plan, "contaminated/1", next(jobs), passing[:per_run]), truthful=False)
            for number in range(1, few + 1):
                of_two = replace(next(jobs), hosts=2)
                yield PlannedRun(f"other-host/{number}", of_two, of_two.host_names()[1])
    yield from _jobs(plan, plan["workloads"][:workloads], seed)


def _jobs(plan: dict[str, Any], workloads: Sequence[dict[str, Any]], seed: Iterator[int]) -> Iterator[PlannedRun]:
    """Jobs of three to five hosts: healthy ones, and one for each kind of fault that comes and goes."""
    for platform in PLATFORMS:
        passing = [kind.name for kind in FAULTS.values() if platform in kind.platforms and not kind.whole_run]
        for turn, name in enumerate([*[None] * plan["healthy_jobs"], *passing]):
            hosts = 3 + turn % 3
            job = Job(
                platform, **workloads[turn % len(workloads)], minutes=plan["minutes"], hosts=hosts, seed=next(seed)
            )
            if name is None:
                yield PlannedRun("hosts/healthy", job, None)
            else:
                run = _run(plan, "hosts/middle", job, [name])
                faults = tuple(replace(fault, host=turn % hosts) for fault in run.job.faults)
                yield PlannedRun(run.folder, replace(job, faults=faults), None)


def write(runs: Iterator[PlannedRun], folder: Path) -> int:
    """Write the run files below the folder; returns how many."""
    written = 0
    for run in runs:
        for path in write_job(run.job, folder / run.folder):
            labels = labels_path(path)
            if run.host not in {None, parse_run_name(path).host}:
                path.unlink()
                labels.unlink()
                continue
            if not run.truthful:
                header, *_ = labels.read_text(encoding="utf-8").splitlines(keepends=True)
                labels.write_text(header, encoding="utf-8")
            written += 1
    return written


def _batches(names: list[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(names[start : start + size]) for start in range(0, len(names), size)]


def _places(plan: dict[str, Any]) -> int:
    """How many faults fit into a run, with healthy time after the last."""
    room = plan["minutes"] * 60 - plan["first_fault_s"][1]
    return int(room // (plan["fault_s"] + plan["healthy_s"]))


def _run(plan: dict[str, Any], folder: str, job: Job, names: Sequence[str] = (), level: str = "middle") -> PlannedRun:
    """A run of the job with these faults; the first begins at a moment of its own."""
    first = random.Random(job.seed).randint(*plan["first_fault_s"])
    faults = tuple(_fault(plan, name, level, first, place) for place, name in enumerate(names))
    return PlannedRun(folder, replace(job, faults=faults), job.host_names()[0])


def _fault(plan: dict[str, Any], name: str, level: str, first: float, place: int) -> Fault:
    if FAULTS[name].whole_run:
        return Fault(name, LEVELS[level])
    start = first + place * (plan["fault_s"] + plan["healthy_s"])
    return Fault(name, LEVELS[level], start, start + plan["fault_s"])
