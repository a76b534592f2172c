"""All that the state of a host follows from: the job, what it does, what is wrong, and the host's random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

import numpy as np

from infrascope_core.simulate.activity import Activity, drift
from infrascope_core.simulate.disturbance import Disturbance, Signal, slots
from infrascope_core.simulate.machines import Machine
from infrascope_core.simulate.plan import Draws, Job, seed_of
from infrascope_core.simulate.workloads import Profile

_BOOTED_EVERY = 2 * 86_400.0, 14 * 86_400.0
"""Seconds from one boot of a host to the next, from the shortest to the longest."""


@dataclass(frozen=True)
class Scene:
    """One host of a job over n samples.

    Attributes
    ----------
    activity : Activity
        What the job does on this host.
    wrong : Disturbance
        What is wrong with the host.
    dt : float
        Time between samples, in seconds.
    draws : Draws
        The host's random numbers in this job.
    """

    job: Job
    host: str
    profile: Profile
    activity: Activity
    wrong: Disturbance
    dt: float
    draws: Draws

    @property
    def here(self) -> Machine:
        """The kind of host."""
        return self.job.machine

    @property
    def samples(self) -> int:
        """Number of samples, n."""
        return len(self.activity.input)

    def uptime(self) -> float:
        """Seconds from the host's last boot to the job's start; it is booted again and again, whatever jobs it runs."""
        every = self.of_host("uptime").uniform(*_BOOTED_EVERY)
        start = self.job.start().replace(tzinfo=UTC).timestamp()
        return float((start + self.of_host("boot").uniform(0.0, every)) % every)

    def phase(self, name: str) -> Signal:
        """Share of each sample's time in a phase."""
        return self.activity.phases[name]

    def slots(self, name: str, length_s: float) -> Signal:
        """A uniform number per slot of time: decides on and off."""
        return slots(self.draws, name, np.arange(self.samples, dtype=float) * self.dt, length_s)

    def grain(self, name: str, spread: float) -> Signal:
        """White noise around 1."""
        noise: Signal = 1 + spread * self.draws.stream(name).standard_normal(self.samples)
        return noise

    def wander(self, name: str, spread: float, tau_s: float) -> Signal:
        """Log-normal noise around 1 with a memory of tau."""
        walk: Signal = np.exp(spread * drift(self.draws.stream(name), self.samples, tau_s, self.dt))
        return walk

    def of_host(self, what: str) -> np.random.Generator:
        """Random numbers that belong to the host alone: the same in every job that runs on it."""
        return np.random.default_rng(seed_of("host", self.host, what))

    @property
    def loss_shakes(self) -> Signal:
        """How far heavy packet loss unsettles interrupts and clocks, 0..1 (Reveal, section 6: seen at 1 %)."""
        shakes: Signal = np.clip((self.wrong.loss_percent - 0.15) / 0.85, 0, 1)
        return shakes

    @property
    def neighbour_share(self) -> Signal:
        """Share of the visible cores' capacity that others ask for."""
        return self.wrong.neighbour * len(self.wrong.hot_cores) / len(self.here.visible)

    @property
    def fetching(self) -> Signal:
        """How much of a step's fetching falls into each sample, around 1."""
        return self.activity.input / max(self.profile.input_share, 0.01)
