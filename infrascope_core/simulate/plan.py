"""What is to be simulated: a job on its hosts, and the faults that strike it.

What belongs here: arguments, their check, and what follows from them alone (names, culprits, random seeds).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from infrascope_core.errors import RunFileError, SimulationError
from infrascope_core.run_files.name import RunName, parse_run_name
from infrascope_core.run_files.tables import Platform
from infrascope_core.simulate.machines import Machine, machine

Phase = Literal["train", "infer"]

LEVELS = {"low": 0.2, "middle": 0.5, "high": 1.0}
"""Named intensities: barely visible, plain, gross."""

_FAULT = re.compile(r"(?P<name>\w+)(:(?P<intensity>[^@#]*))?(@(?P<start>[^-#]*)-(?P<end>[^#]*))?(#(?P<host>.*))?")
_FAULT_FORM = "expected NAME[:INTENSITY][@START-END][#HOST], as packet_loss:middle@1:00-1:40#0"
_CLOCK = re.compile(r"(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+(?:\.\d+)?)s?")
_EPOCH = datetime(2025, 4, 1)
_MOST_SAMPLES = 200_000
"""A host is simulated as a whole: about 12 kB of memory per sample."""
_START_RANGE_S = 60 * 86_400
_LLM_FOLDER = {"train": "train_separated", "infer": "infer_separated"}


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    Attributes
    ----------
    subsystem : dict of str to str
        Where its root lies, by platform. A platform that is missing cannot have the fault.
    culprits : dict of str to tuple of str
        Host-free names of the metrics that are the point of it, by platform; `{gpu}`, `{peer}` and `{core0}` …
        stand for what the seed picks.
    whole_run : bool
        It is a state of the host and cannot begin or end within a run.
    """

    name: str
    meaning: str
    subsystem: dict[str, str]
    culprits: dict[str, tuple[str, ...]]
    whole_run: bool = False

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that can have the fault."""
        return tuple(self.subsystem)


@cache
def _catalogue() -> dict[str, FaultKind]:
    text = (resources.files(__package__) / "faults.yaml").read_text(encoding="utf-8")
    kinds = {}
    for name, entry in yaml.safe_load(text).items():
        here: dict[str, Any] = {p: entry[p] for p in ("gpu", "cpu") if p in entry}
        kinds[name] = FaultKind(
            name=name,
            meaning=entry["meaning"],
            subsystem={p: e["subsystem"] for p, e in here.items()},
            culprits={p: tuple(e["culprits"]) for p, e in here.items()},
            whole_run=entry.get("whole_run", False),
        )
    return kinds


FAULTS: dict[str, FaultKind] = _catalogue()
"""All faults by name."""


@dataclass(frozen=True)
class Fault:
    """One fault of a job.

    Attributes
    ----------
    intensity : float
        0 (nothing) to 1 (gross).
    start_s, end_s : float
        Seconds from the file's first sample, both inclusive; an `end_s` of None is the run's end.
    host : int
        Index of the host it strikes, from 0.
    """

    name: str
    intensity: float = LEVELS["middle"]
    start_s: float = 0.0
    end_s: float | None = None
    host: int = 0


def parse_fault(text: str) -> Fault:
    """Read `NAME[:INTENSITY][@START-END][#HOST]`.

    The intensity is low, middle, high or a number from 0 to 1; times are seconds, mm:ss or h:mm:ss from the file's
    first sample, and without them the fault holds for the whole run; hosts count from 0.

    Raises
    ------
    SimulationError
        The text has another form. Whether job and fault go together is checked by `Job`.
    """
    match = _FAULT.fullmatch(text.strip())
    if match is None:
        raise SimulationError(f"fault {text!r}: {_FAULT_FORM}")
    given = match["intensity"]
    try:
        intensity = LEVELS["middle"] if given is None else LEVELS.get(given) or float(given)
    except ValueError:
        raise SimulationError(
            f"fault {text!r}: the intensity {given!r} is neither {', '.join(LEVELS)} nor a number from 0 to 1"
        ) from None
    if match["host"] is not None and not match["host"].isdecimal():
        raise SimulationError(f"fault {text!r}: the host {match['host']!r} is no number from 0")
    return Fault(
        match["name"],
        intensity,
        0.0 if match["start"] is None else _seconds(text, match["start"]),
        None if match["end"] is None else _seconds(text, match["end"]),
        int(match["host"] or 0),
    )


def _seconds(text: str, clock: str) -> float:
    match = _CLOCK.fullmatch(clock.strip())
    if match is None:
        raise SimulationError(f"fault {text!r}: the time {clock!r} is neither seconds nor mm:ss")
    return int(match["hours"] or 0) * 3600 + int(match["minutes"] or 0) * 60 + float(match["seconds"])


@dataclass(frozen=True)
class Job:
    """A training or inference job on one or several hosts.

    Attributes
    ----------
    model, task, dataset : str
        The workload, as file names give it. One that `workloads.yaml` does not know gets a profile of its own,
        derived from its name alone.
    minutes : float
        Length of the run.
    seed : int
        Decides everything random: which noise, which core, which GPU, and the start time unless it is given.
    interval_s : float
        Time between samples, in seconds.
    one_file : bool
        Write all hosts into one file (1,582 columns for two CPU hosts), under the first host's name.
    started_at : datetime, optional
        Naive UTC, to the second.

    Raises
    ------
    SimulationError
        An argument is out of its range, a fault is unknown, impossible on the platform or outside of the run.
    """

    platform: Platform
    model: str = "BERTBASE"
    task: str = "TextClassification"
    dataset: str = "default"
    phase: Phase = "train"
    minutes: float = 5.0
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    hosts: int = 1
    one_file: bool = False
    interval_s: float = 0.1
    started_at: datetime | None = None
    _names: tuple[RunName, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        if self.platform not in ("gpu", "cpu"):
            raise SimulationError(f"the platform {self.platform!r} is neither gpu nor cpu")
        if self.phase not in ("train", "infer"):
            raise SimulationError(f"the phase {self.phase!r} is neither train nor infer")
        if not 0.01 <= self.interval_s <= 3600:
            raise SimulationError(f"an interval of {self.interval_s:g} s is out of the range from 0.01 s to 3600 s")
        if not self.samples_exactly >= 3:
            raise SimulationError(
                f"{self.minutes:g} minutes at {self.interval_s:g} s hold fewer than the 3 samples that a run needs"
            )
        if self.samples_exactly > _MOST_SAMPLES:
            raise SimulationError(
                f"{self.minutes:g} minutes at {self.interval_s:g} s are more than {_MOST_SAMPLES:,} samples; "
                "take a longer interval"
            )
        if not 1 <= self.hosts <= 99:
            raise SimulationError(f"{self.hosts} hosts are out of the range from 1 to 99")
        if self.one_file and self.hosts < 2:
            raise SimulationError("one file for all hosts needs at least two hosts")
        for fault in self.faults:
            self._check(fault)
        for one, other in combinations(self.faults, 2):
            if (one.name, one.host) == (other.name, other.host) and self._overlap(one, other):
                raise SimulationError(f"fault {one.name}: two of its intervals on host {one.host} overlap")
        self.run_names()

    @property
    def samples_exactly(self) -> float:
        """Samples of the run before rounding; nan where the minutes are."""
        return self.minutes * 60 / self.interval_s

    @property
    def samples(self) -> int:
        """Samples of each host."""
        return int(self.samples_exactly + 1e-9)

    @property
    def duration_s(self) -> float:
        """Time of the last sample, in seconds from the first."""
        return (self.samples - 1) * self.interval_s

    @property
    def machine(self) -> Machine:
        """The kind of host that it runs on."""
        return machine(self.platform)

    @property
    def workload(self) -> str:
        """MODEL__TASK__DATASET, as the public data set's metadata writes it."""
        return f"{self.model}__{self.task}__{self.dataset}"

    def host_names(self) -> list[str]:
        """Names of the hosts, by index."""
        return [self.machine.host_name(index) for index in range(self.hosts)]

    def start(self) -> datetime:
        """Start of the first host's file; without a given one, derived from all that tells two jobs apart."""
        if self.started_at is not None:
            return self.started_at.replace(microsecond=0)
        told = (self.seed, self.platform, self.workload, self.phase, self.minutes, self.interval_s, self.hosts)
        return _EPOCH + timedelta(seconds=seed_of("start", *told, *self.faults) % _START_RANGE_S)

    def run_names(self) -> list[RunName]:
        """What the name of each file says; hosts of one job start within seconds of each other."""
        owners = self.host_names()[:1] if self.one_file else self.host_names()
        return [
            self._run_name(host, self.start() + timedelta(seconds=seed_of("host start", self.seed, host) % 3 * (i > 0)))
            for i, host in enumerate(owners)
        ]

    def path(self, name: RunName) -> Path:
        """A file's path below the output folder; LLM runs lie in the folder that gives their phase (docs/format.md)."""
        return Path(_LLM_FOLDER[self.phase] if name.mode == "llm" else "", f"{name.run_key}.txt")

    def _run_name(self, host: str, start: datetime) -> RunName:
        stem = f"{self.model}for{self.task}_{self.dataset}_{start:%Y-%m-%dT%H-%M-%S}_{host}"
        try:
            name = parse_run_name(Path(f"{self.phase}_{stem}.txt"))
            if name.mode == "llm":
                name = parse_run_name(Path(_LLM_FOLDER[self.phase], f"data_{stem}.txt"))
        except RunFileError:
            name = None
        if name is None or (name.model, name.task, name.dataset) != (self.model, self.task, self.dataset):
            raise SimulationError(
                f"the workload {self.workload!r} makes no file name; expected letters and digits, as "
                "BERTBASE__TextClassification__default, the task with a capital"
            )
        return name

    def _overlap(self, one: Fault, other: Fault) -> bool:
        ends = [self.duration_s if fault.end_s is None else fault.end_s for fault in (one, other)]
        return max(one.start_s, other.start_s) <= min(ends)

    def _check(self, fault: Fault) -> None:
        kind = FAULTS.get(fault.name)
        if kind is None:
            raise SimulationError(f"unknown fault {fault.name!r}; known are {', '.join(FAULTS)}")
        said = f"fault {fault.name}"
        if self.platform not in kind.platforms:
            raise SimulationError(f"{said} strikes GPU hosts only, and the platform is {self.platform}")
        if not 0 < fault.intensity <= 1:
            raise SimulationError(f"{said}: an intensity of {fault.intensity:g} is out of the range above 0 up to 1")
        if not 0 <= fault.host < self.hosts:
            raise SimulationError(f"{said}: there is no host {fault.host} among {self.hosts}, counted from 0")
        end_s = self.duration_s if fault.end_s is None else fault.end_s
        if kind.whole_run and (fault.start_s > 0 or end_s < self.duration_s):
            raise SimulationError(f"{said} is a state of the host for the whole run; leave out its interval")
        if fault.end_s is not None and not fault.start_s < end_s:
            raise SimulationError(f"{said}: its start {fault.start_s:g} s does not lie before its end {end_s:g} s")
        if not 0 <= fault.start_s < self.duration_s or (
            not kind.whole_run and end_s > self.duration_s + self.interval_s
        ):
            raise SimulationError(
                f"{said}: the interval from {fault.start_s:g} to {end_s:g} s does not lie within the run of "
                f"{self.duration_s:g} s"
            )
        if fault.start_s + self.interval_s > end_s:
            raise SimulationError(f"{said}: its interval is shorter than that of the samples, {self.interval_s:g} s")


def seed_of(*scope: object) -> int:
    """A seed from whatever tells two things apart; the same in every process."""
    return int.from_bytes(hashlib.sha256(repr(scope).encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Draws:
    """Random numbers by name: each name has a stream of its own.

    So a fault that changes what is drawn for one signal leaves the noise of all others as it is, and a run with a fault
    differs from its healthy twin only by what the fault does.
    """

    scope: tuple[object, ...]

    def stream(self, name: str) -> np.random.Generator:
        """The generator of a name."""
        return np.random.Generator(np.random.SFC64(seed_of(*self.scope, name)))
