"""What the job does at each moment: its phases, and within the step what is fetched, computed and exchanged.

What belongs here: the job's own course, the same on all of its hosts, and how faults slow it down. Signals hold, per
sample, the mean since the sample before; so they are right for steps shorter than a sample, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.signal import lfilter

from infrascope_core.simulate.disturbance import LANES, Disturbance, Signal
from infrascope_core.simulate.machines import gpu
from infrascope_core.simulate.plan import Draws
from infrascope_core.simulate.workloads import Profile

_BEFORE_S = 1e5
"""The first phase reaches back this far, for the samples that are made before the file begins."""
PHASES = ("startup", "loading", "warmup", "step", "evaluation", "checkpoint", "ending")
_LONGEST_PREPARATION = 0.35
"""Start-up, loading, warm-up and end take at most this share of a run; in a shorter run they are shorter."""
_LONGEST_BESIDE_STEPS = 0.4
"""Evaluations and checkpoints take at most this share of what is left; in a shorter run they are shorter."""
_STEPPING_SHARE = 0.85
"""Share of a run that epochs take, for their number."""
FUNNEL_DELAY = 1.9
"""A single queue lengthens the exchange by this multiple of itself."""
GPU_SYNC_LOAD = 0.42
"""A GPU that exchanges or waits draws this share of the power of one that computes."""
_EVALUATION_PERIOD = 0.4
"""A forward pass takes this share of a step's period."""


@dataclass(frozen=True)
class Activity:
    """Shares of the time since the sample before, 0..1.

    Attributes
    ----------
    phases : dict of str to Signal
        By `PHASES`; they sum to 1.
    input, compute, sync : Signal
        Within warm-up and steps: fetching the next batch, computing, exchanging (waiting for other hosts included).
    exchange : Signal
        `sync` weighted with how fast data flows in it: what a step exchanges does not grow when it takes longer.
    lagging : Signal
        Part of `compute` in which only a slow GPU computes and its peers wait.
    forward : Signal
        Forward passes of the evaluation.
    """

    phases: dict[str, Signal]
    input: Signal
    compute: Signal
    sync: Signal
    exchange: Signal
    lagging: Signal
    forward: Signal

    @property
    def working(self) -> Signal:
        """Warm-up and steps."""
        return self.phases["warmup"] + self.phases["step"]


@dataclass(frozen=True)
class Delay:
    """What one host adds to each step, in shares of the healthy period."""

    input: Signal
    compute: Signal
    lagging: Signal
    sync: Signal
    hang: Signal

    @property
    def total(self) -> Signal:
        """All of it, hanging excepted."""
        return self.input + self.compute + self.lagging + self.sync


def lag(signal: Signal, tau_s: float, dt: float, start: float | None = None) -> Signal:
    """First-order lag of a signal; from `start`, or settled at the first value."""
    keep = float(np.exp(-dt / tau_s))
    before = signal[..., :1] if start is None else np.full((*signal.shape[:-1], 1), start)
    filtered: Signal = lfilter([1 - keep], [1, -keep], signal, axis=-1, zi=keep * before)[0]
    return filtered


def drift(rng: np.random.Generator, shape: int | tuple[int, int], tau_s: float, dt: float) -> Signal:
    """Noise with a memory of tau (an Ornstein-Uhlenbeck process of mean 0 and standard deviation 1)."""
    keep = float(np.exp(-dt / tau_s))
    white = rng.standard_normal(shape, dtype=np.float32)
    white[..., 1:] *= np.float32(np.sqrt(1 - keep**2))
    walk: Signal = lfilter([1.0], [1.0, -keep], white, axis=-1)
    return walk


def phase_load(profile: Profile, phases: dict[str, Signal]) -> Signal:
    """Mean load of a GPU by phase, 0..1 of the power between idle and full, without the detail of the step."""
    mean = profile.gpu_load * (1 - (1 - GPU_SYNC_LOAD) * profile.sync_share)
    return mean * (0.7 * phases["warmup"] + phases["step"] + 0.8 * phases["evaluation"])


def clock_cut(state: Disturbance, load: Signal, dt: float) -> Signal:
    """Clock of a GPU whose cooling fails, 0..1 of its boost clock.

    The load is the phase's, without the detail of the step: heat is slower than steps.
    """
    part = gpu()
    watts = part.idle_watt + part.context_watt + (part.full_watt - part.idle_watt - part.context_watt) * load
    resistance = part.kelvin_per_watt * (1 + state.heat)
    hot = lag(part.ambient_c + resistance * watts, part.thermal_lag_s / 2, dt)
    usual = lag(part.ambient_c + part.kelvin_per_watt * watts, part.thermal_lag_s / 2, dt)
    bins = 0.0015 * (hot - usual)  # boost clocks give way a little with every degree, long before the throttle
    cut: Signal = np.clip(1 - bins - 0.016 * np.maximum(hot - part.slowdown_c, 0), 0.4, 1)
    return cut


def delay(state: Disturbance, profile: Profile, clock: Signal) -> Delay:
    """How a host's disturbances lengthen its steps."""
    compute_share = 1 - profile.input_share - profile.sync_share
    retried = 0.10 * np.sqrt(state.loss_percent)
    return Delay(
        input=profile.copy_share * (LANES / state.lanes - 1)
        + profile.input_share * (1.2 * state.foreign_io + 0.6 * state.neighbour + 0.4 * state.remote),
        compute=compute_share
        * (0.14 * state.remote + (1 / clock - 1) + (1 / (1 - state.cpu_throttle) - 1) * 0.8 + 0.10 * state.neighbour),
        lagging=compute_share * (1 / (1 - state.slow_gpu) - 1),
        sync=profile.sync_share * (FUNNEL_DELAY * state.funnel + 0.35 * state.irq_focus + 0.25 * state.remote)
        + (profile.sync_share + 0.05) * retried,
        hang=state.gpu_hang,
    )


def schedule(profile: Profile, usual: Profile, duration_s: float) -> list[tuple[str, float]]:
    """Phases in order, each with its end in seconds.

    The steps are whole epochs of equal length, each with an evaluation after it, and a checkpoint after every few and
    after the last; how many there are follows from the workload's `usual` profile, the lengths from the run's own.
    """
    preparation = profile.startup_s + profile.loading_s + profile.warmup_s + profile.ending_s
    scale = min(1.0, _LONGEST_PREPARATION * duration_s / preparation)
    plan: list[tuple[str, float]] = []
    now = 0.0
    for phase in ("startup", "loading", "warmup"):
        now += scale * float(getattr(profile, f"{phase}_s"))
        plan.append((phase, now))
    left = duration_s - scale * profile.ending_s - now
    if not usual.evaluation_every_s:
        return [*plan, ("step", now + left), ("ending", np.inf)]
    epochs = max(1, round(_STEPPING_SHARE * duration_s / usual.evaluation_every_s))
    every = max(1, round(usual.checkpoint_every_s / usual.evaluation_every_s)) if usual.checkpoint_every_s else 0
    saves = [bool(every) and (epoch % every == 0 or epoch == epochs) for epoch in range(1, epochs + 1)]
    beside = epochs * profile.evaluation_s + sum(saves) * profile.checkpoint_s
    shrink = min(1.0, _LONGEST_BESIDE_STEPS * left / beside)
    epoch_s = (left - shrink * beside) / epochs
    for saved in saves:
        for phase, length in (
            ("step", epoch_s),
            ("evaluation", shrink * profile.evaluation_s),
            ("checkpoint", shrink * profile.checkpoint_s * saved),
        ):
            now += length
            plan.append((phase, now))
    return [*plan, ("ending", np.inf)]


def activity(
    profile: Profile, phases: dict[str, Signal], delays: list[Delay], host: int, *, dt: float, draws: Draws
) -> Activity:
    """The job's course on one of its hosts, given what every host adds to each step.

    A step lasts as long as on the slowest host; the others wait for it where they synchronise.
    """
    own, n = delays[host], len(phases["step"])
    slowest = np.maximum.reduce([d.total for d in delays])
    hang = np.maximum.reduce([d.hang for d in delays])
    length = 1 + slowest
    wobble = np.exp(0.02 * drift(draws.stream("step wobble"), n, 4.0, dt))
    rate = (0.6 * phases["warmup"] + phases["step"]) * (1 - hang) / (profile.period_s * length * wobble)
    progress = np.cumsum(rate * dt) + draws.stream("step phase").random()

    fetching = (profile.input_share + own.input) / length
    lagging = own.lagging / length
    computing = (1 - profile.input_share - profile.sync_share + own.compute) / length
    bounds = np.cumsum([fetching, computing, lagging], axis=0)
    at_work = (phases["warmup"] + phases["step"]) * (1 - hang)
    shares = _duties(progress, [np.zeros_like(bounds[0]), *bounds, np.ones_like(bounds[0])])
    inputs, compute, late, sync = (share * at_work for share in shares)
    idle_peers = (phases["warmup"] + phases["step"]) * np.maximum(hang - own.hang, 0)  # others hang: wait for them
    flow = profile.sync_share / (profile.sync_share + own.sync + slowest - own.total)
    forward_progress = np.cumsum(phases["evaluation"] * dt) / (_EVALUATION_PERIOD * profile.period_s)
    (forward,) = _duties(forward_progress, [np.full(n, 0.06), np.ones(n)])
    return Activity(
        phases=phases,
        input=inputs,
        compute=compute + late,
        sync=sync + idle_peers,
        exchange=sync * flow,
        lagging=late,
        forward=forward * phases["evaluation"],
    )


def phase_shares(plan: list[tuple[str, float]], times: Signal) -> dict[str, Signal]:
    """Share of each sample's time in each phase of a schedule, from its exact boundaries."""
    latest = float(times[-1]) + 1
    ends = np.array([min(end, latest) for _, end in plan])
    lengths = np.diff(ends, prepend=-_BEFORE_S)
    edges = np.concatenate([[-_BEFORE_S], ends])
    moments = np.concatenate([[2 * times[0] - times[1]], times])
    shares = {}
    for phase in PHASES:
        spent = np.cumsum(lengths * [name == phase for name, _ in plan])
        shares[phase] = np.diff(np.interp(moments, edges, np.concatenate([[0.0], spent]))) / np.diff(moments)
    return shares


def _duties(progress: Signal, bounds: list[Signal]) -> list[Signal]:
    """Share of the time since the sample before that lay between each pair of bounds of the step, 0..1."""
    before = np.concatenate([[progress[0]], progress[:-1]])
    gone = progress - before
    moving = gone > 1e-9
    whole = np.floor(progress) - np.floor(before)
    now, then = progress % 1, before % 1
    shares = []
    for low, high in pairwise(bounds):
        spent = whole * (high - low) + np.clip(now - low, 0, high - low) - np.clip(then - low, 0, high - low)
        shares.append(np.clip(np.divide(spent, gone, out=np.zeros_like(gone), where=moving), 0, 1))
    return shares
