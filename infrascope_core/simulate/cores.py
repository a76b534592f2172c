"""The cores: how busy each is, at which clock, with how many interrupts, and what the packages draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from infrascope_core.simulate.activity import drift, lag
from infrascope_core.simulate.disturbance import Signal, placement
from infrascope_core.simulate.fabric import Link
from infrascope_core.simulate.machines import Machine
from infrascope_core.simulate.plan import seed_of
from infrascope_core.simulate.scene import Scene

_MTU_BYTES = {"ib0": 4096.0}
_JUMBO_BYTES = 9000.0
_INTERRUPTS_PER_PACKET = 1 / 40
_MOST_INTERRUPTS_PER_S = 30_000.0
_SECONDS_PER_INTERRUPT = 5e-6
_NEIGHBOUR_LOAD = 0.85
"""Load of others on a core at full intensity."""
_WRITER_LOAD = 0.35
"""Load of those who read and write, on the same cores."""


Matrix = npt.NDArray[np.float32]
"""Cores by samples; single precision, because there are many and no tool shows more than five digits."""


def single(signal: npt.NDArray[np.floating]) -> Matrix:
    """A signal in single precision, so that what is computed of it with a matrix stays so."""
    return signal.astype(np.float32)


@dataclass(frozen=True)
class Cores:
    """The visible cores over n samples.

    Attributes
    ----------
    busy, mhz, interrupts : array of shape (visible cores, n), single precision
        Share of the time at work; clock while at work; interrupts per second.
    package_watts : array of shape (packages, n)
    """

    busy: Matrix
    mhz: Matrix
    interrupts: Matrix
    package_watts: Signal


def cores(scene: Scene, disk_load: Signal, fabric: Link) -> Cores:
    """The cores of a host, given what its disk and its fabric carry.

    Threads are laid onto cores the same way in every run of a workload; how much each takes wanders.
    """
    here, act, wrong = scene.here, scene.activity, scene.wrong
    place = np.random.default_rng(seed_of("placement", scene.job.platform, scene.job.workload))
    weights = _weights(scene, place)
    by_core, handling = _interrupts(scene, disk_load, fabric, place)
    shape = (len(here.visible), scene.samples)
    level = scene.draws.stream("levels")
    threads = np.stack(
        [
            _computing(scene) * float(np.exp(level.normal(0, 0.008))),
            _loading(scene) * (1 - 0.3 * disk_load) * float(np.exp(level.normal(0, 0.03))),
            0.5 * act.sync / max(scene.profile.sync_share, 0.02) + (0.4 + 3.5 * wrong.funnel) * act.working,
            0.9 * disk_load + scene.phase("checkpoint"),
        ]
    )
    uneven = np.exp(0.05 * single(drift(scene.draws.stream("cores"), shape, 12.0, scene.dt)))
    uneven *= 1 + 0.03 * scene.draws.stream("core noise").standard_normal(shape, dtype=np.float32)
    load = np.einsum("ck,kn->cn", single(weights), single(threads)) * uneven + np.float32(0.004)  # no BLAS: same bytes
    others = _NEIGHBOUR_LOAD * wrong.neighbour + _WRITER_LOAD * wrong.foreign_io
    if others.any():
        taken = single(others)
        load[wrong.hot_cores] = load[wrong.hot_cores] * (1 - 0.5 * taken) + taken
    busy = _saturated(load + handling)
    mhz = _clock(scene, busy, disk_load)
    interrupts = by_core + single(0.15 * here.tick_hz + 30 * act.sync) + 0.85 * here.tick_hz * busy
    return Cores(busy, mhz, interrupts, _watts(scene, busy, mhz))


def _saturated(load: Matrix) -> Matrix:
    """Busy share of a core for the load that is asked of it: what exceeds 0.9 crowds below 1."""
    high = load > 0.9
    load[high] = 1 - 0.1 * np.exp(9 - 10 * load[high])
    return np.maximum(load, np.float32(0.002))


def _weights(scene: Scene, place: np.random.Generator) -> Signal:
    """Cores that each kind of thread takes of each core at full activity: (cores, kinds)."""
    here, profile = scene.here, scene.profile
    count = len(here.visible)
    return np.stack(
        [
            _fill(profile.spin_cores, placement(scene.job), 0.94 if here.gpus else 0.86),
            profile.loader_cores * place.dirichlet(np.full(count, 2.5)),
            profile.comm_cores * place.dirichlet(np.full(count, 2.0)),
            0.8 * place.dirichlet(np.full(count, 0.7)),
        ],
        axis=1,
    )


def _fill(threads: float, order: npt.NDArray[np.int64], most: float) -> Signal:
    """Threads laid onto cores in a fixed order, each core up to `most`; many threads spread over all."""
    count = len(order)
    share = np.clip(threads / most - np.arange(count), 0, 1) * most
    if threads > 0.5 * count:
        share = threads / count * np.linspace(1.18, 0.82, count)
    placed = np.empty(count)
    placed[order] = share
    return placed


def _computing(scene: Scene) -> Signal:
    """Activity of the job's threads: on GPU hosts they poll all the time; on CPU hosts they compute and wait."""
    act = scene.activity
    process = (
        0.55 * scene.phase("startup") + 0.7 * scene.phase("loading") + act.working + 0.97 * scene.phase("evaluation")
        + 0.5 * scene.phase("checkpoint") + 0.25 * scene.phase("ending") - 0.5 * scene.wrong.gpu_hang * act.working
    )  # fmt: skip
    if scene.here.gpus:
        return process
    return process - act.working + act.compute - 0.4 * act.lagging + 0.55 * act.sync + 0.5 * act.input


def _loading(scene: Scene) -> Signal:
    act = scene.activity
    return 1.2 * scene.phase("loading") + 0.55 * act.working + 0.45 * scene.fetching + 0.8 * scene.phase("evaluation")


def _interrupts(scene: Scene, disk_load: Signal, fabric: Link, place: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Device interrupts per second of each core, and the share of its time that handling them takes.

    With a focus most go to two cores, as without irqbalance, and each costs more because queues build up.
    """
    count = len(scene.here.visible)
    affinity = place.dirichlet(np.full(count, 3.0))[:, None]
    hot = np.zeros((count, 1))
    hot[scene.wrong.hot_cores[:2], 0] = (0.6, 0.4)
    packets = (fabric.received + fabric.sent) / _MTU_BYTES.get(scene.here.fabric, _JUMBO_BYTES)
    swing = 2.0 * (scene.slots("irq swing", 0.5) < 0.5) - 1
    devices = 400 + np.minimum(packets * _INTERRUPTS_PER_PACKET, _MOST_INTERRUPTS_PER_S) + 9_000 * disk_load
    devices = devices * (1 + 0.8 * scene.loss_shakes * swing)
    focus = scene.wrong.irq_focus
    # unspread completions are not coalesced either: more interrupts for the same traffic
    uncoalesced = 25_000 * (scene.activity.working + scene.phase("evaluation"))
    by_core = single(affinity) * single(devices * (1 - 0.9 * focus))
    if focus.any():
        by_core += single(hot) * single((0.9 * devices + uncoalesced) * focus)
    return by_core, by_core * single(_SECONDS_PER_INTERRUPT * (1 + 7 * focus))


def _clock(scene: Scene, busy: Matrix, disk_load: Signal) -> Matrix:
    wrong = scene.wrong
    ringing = np.abs(np.sin(2 * np.pi * np.arange(scene.samples) * scene.dt / 1.3))
    governor = (
        (1 - 0.09 * busy.mean(axis=0))
        * (1 - 0.05 * np.minimum(disk_load, 1) - 0.10 * wrong.foreign_io)
        * (1 - 0.06 * scene.loss_shakes * ringing - 0.025 * wrong.irq_focus - 0.03 * wrong.neighbour)
        * (1 - wrong.cpu_throttle)
        * scene.wander("governor", 0.004, 5.0)
    )
    grain = 1 + 0.006 * scene.draws.stream("clock noise").standard_normal(busy.shape, dtype=np.float32)
    return grain * single(scene.here.busy_mhz * governor)


def _watts(scene: Scene, busy: Matrix, mhz: Matrix) -> Signal:
    """Watts of each package, from its cores' load and clock (dynamic power goes with f V², about f to the 2.4)."""
    here = scene.here
    packages = package_of_cores(here)
    mean_clock = (busy * mhz).sum(axis=0) / busy.sum(axis=0) / here.busy_mhz
    watts = [
        here.idle_watt + here.core_watt * busy[packages == p].sum(axis=0) * mean_clock**2.4
        for p in range(packages.max() + 1)
    ]
    noise = 0.6 * scene.draws.stream("watts").standard_normal((len(watts), scene.samples))
    return np.stack([lag(w, 0.2, scene.dt) for w in watts]) + noise


def package_of_cores(here: Machine) -> npt.NDArray[np.int64]:
    """The package of each visible core."""
    count = max(len(here.packages) - 1, 1)
    return np.array([core * count // here.cores for core in here.visible])
