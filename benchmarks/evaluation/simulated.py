"""The simulated part of the suite: which jobs there are, and writing their run files.

reference/1, 2 ...  healthy, what is normal, one of each workload and platform
healthy/            healthy, judged
more-healthy/       the same, for more hours
low/ middle/ high/  several faults a run, all of that intensity
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from infrascope_core.run_files.tables import Platform
from infrascope_core.simulate import FAULTS, LEVELS, Fault, Job, write_job

PLATFORMS: tuple[Platform, ...] = ("gpu", "cpu")
Seeds = Literal["development", "evaluation"]


@dataclass(frozen=True)
class PlannedRun:
    """One run file to be."""

    folder: str
    job: Job


def planned(plan: dict[str, Any], seeds: Seeds, workloads: int | None = None) -> Iterator[PlannedRun]:
    """All runs of the plan; the first so many workloads only, if asked. Faults take turns in their places in a run."""
    seed = count(plan["seeds"][seeds])
    per_run = _places(plan)
    for turn, workload in enumerate(plan["workloads"][:workloads]):
        for platform in PLATFORMS:
            kinds = [kind for kind in FAULTS.values() if platform in kind.platforms]
            passing = [kind.name for kind in kinds if not kind.whole_run]
            passing = passing[turn % len(passing) :] + passing[: turn % len(passing)]
            lasting = [(kind.name,) for kind in kinds if kind.whole_run]
            references = [f"reference/{number}" for number in range(1, plan["reference_runs"] + 1)]
            judged = ["healthy"] * plan["healthy_runs"] + ["more-healthy"] * plan["more_healthy_runs"]
            healthy = [*references, *judged]
            for folder in healthy:
                yield PlannedRun(folder, _job(plan, workload, platform, next(seed), ()))
            for level in plan["intensities"]:
                for names in [*_batches(passing, per_run), *lasting]:
                    faults = tuple(_fault(plan, name, level, place) for place, name in enumerate(names))
                    yield PlannedRun(level, _job(plan, workload, platform, next(seed), faults))


def write(runs: Iterator[PlannedRun], folder: Path) -> int:
    """Write the run files below the folder; returns how many."""
    return sum(len(write_job(run.job, folder / run.folder)) for run in runs)


def _batches(names: list[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(names[start : start + size]) for start in range(0, len(names), size)]


def _places(plan: dict[str, Any]) -> int:
    """How many faults fit into a run, with healthy time after the last."""
    room = plan["minutes"] * 60 - plan["first_fault_s"]
    return int(room // (plan["fault_s"] + plan["healthy_s"]))


def _fault(plan: dict[str, Any], name: str, level: str, place: int) -> Fault:
    if FAULTS[name].whole_run:
        return Fault(name, LEVELS[level])
    start = plan["first_fault_s"] + place * (plan["fault_s"] + plan["healthy_s"])
    return Fault(name, LEVELS[level], start, start + plan["fault_s"])


def _job(
    plan: dict[str, Any], workload: dict[str, Any], platform: Platform, seed: int, faults: tuple[Fault, ...]
) -> Job:
    return Job(platform, **workload, minutes=plan["minutes"], seed=seed, faults=faults)
