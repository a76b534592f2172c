"""Faults as disturbances of a host's latent state: what each fault turns, never what a column shows.

What belongs here: the time course of a fault and the quantities of the model it acts on. How those spread to
metrics is the model's business (`activity`, `host`, `instruments`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from infrascope_core.simulate.plan import FAULTS, Draws, Fault, Job, seed_of

Signal = npt.NDArray[np.float64]
"""One value per sample."""

_RAMP_S = 0.5
"""A fault takes this long to come and to go."""
_LOSS_PERCENT = ((0.0, 0.0), (0.2, 0.1), (0.5, 0.2), (1.0, 1.0))
"""Intensity and the share of packets lost, %: the three rates of Reveal, section 6, at low, middle and high."""
_LEAK_KB_S = ((0.0, 0.0), (0.2, 25e3), (0.5, 120e3), (1.0, 500e3))
_LANES_LEFT = ((0.35, 8), (0.75, 4), (1.0, 1))
"""Up to which intensity the PCIe link, of 16 lanes, keeps how many."""
LANES = 16
"""Lanes of a healthy link."""
_WRITERS = 4
"""Processes that make a storage burst."""
_REFRESH_S = ((0.35, 2.0), (0.75, 10.0))
"""Up to which intensity a stuck sensor refreshes, and how often; above, never."""


@dataclass
class Disturbance:
    """What is wrong with one host, as quantities of the model over n samples; neutral values mean healthy.

    Attributes
    ----------
    remote : Signal
        Share of the memory accesses that go to the other node, 0..1.
    funnel : Signal
        How far the fabric's completions are forced through one queue, 0..1.
    irq_focus : Signal
        Share of the device interrupts that `hot_cores` take on top of their own, 0..1.
    loss_percent, leak_kb, foreign_io, gpu_hang : Signal
        Packets lost, %; memory leaked so far, kB; others' use of the disk, 0..1; GPUs not used although held, 0..1.
    heat, cpu_throttle : Signal
        What a GPU's thermal resistance exceeds the healthy one by (1: double); cut of the CPU's clock, 0..1.
    lanes, slow_gpu : Signal
        PCIe lanes of GPU `gpu`; cut of its clock, 0..1.
    neighbour : Signal
        Load of others on each of `hot_cores`, cores.
    guests : Signal
        How many processes of others there are, at work or not.
    huge_pages : float
        Share of the memory that the job leaves over, set aside as pages of 1 GiB, 0..1.
    hot_cores : list of int
        Positions among the visible cores that the seed picks.
    held, silent : dict of str to array
        Sensors that repeat (index of the sample shown) or are silent (mask), by metric.
    """

    remote: Signal
    funnel: Signal
    irq_focus: Signal
    loss_percent: Signal
    leak_kb: Signal
    foreign_io: Signal
    gpu_hang: Signal
    heat: Signal
    cpu_throttle: Signal
    lanes: Signal
    slow_gpu: Signal
    neighbour: Signal
    guests: Signal
    huge_pages: float = 0.0
    gpu: int = 0
    hot_cores: list[int] = field(default_factory=list)
    held: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    silent: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)


@dataclass(frozen=True)
class Label:
    """A fault as the labels tell it: first and last sample, both inclusive, and the culprits' names on this host."""

    fault: str
    subsystem: str
    first: int
    last: int
    metrics: tuple[str, ...]


def placement(job: Job) -> npt.NDArray[np.int64]:
    """Positions of the visible cores in the order in which the workload's threads fill them; the same in every run."""
    rng = np.random.default_rng(seed_of("order", job.platform, job.workload))
    return rng.permutation(len(job.machine.visible))


def picks(job: Job, host: int) -> tuple[int, list[int]]:
    """The GPU and the three cores (positions among the visible ones) that the seed picks on a host.

    Cores are of the half that the job's polling threads leave free: a scheduler puts others where there is room.
    """
    rng = np.random.default_rng(seed_of("picks", job.seed, host))
    cores = rng.choice(placement(job)[len(job.machine.visible) // 2 :], 3, replace=False)
    return int(rng.integers(max(job.machine.gpus, 1))), [int(core) for core in cores]


def labels(job: Job, host: int, times: Signal) -> list[Label]:
    """The labels of a host in the order of time, for sample times in seconds from the first."""
    found = []
    for fault in _of_host(job, host):
        kind = FAULTS[fault.name]
        first, last = _span(fault, times)
        found.append(Label(fault.name, kind.subsystem[job.platform], first, last, culprits(job, fault.name, host)))
    return sorted(found, key=lambda label: (label.first, label.last, label.fault))


def culprits(job: Job, name: str, host: int) -> tuple[str, ...]:
    """Host-free names of the metrics that are the point of a fault on a host of this job."""
    gpu, cores = picks(job, host)
    stands = {"gpu": gpu, "peer": 1 - gpu} | {f"core{i}": job.machine.visible[core] for i, core in enumerate(cores)}
    return tuple(metric.format(**stands) for metric in FAULTS[name].culprits[job.platform])


def disturb(job: Job, host: int, times: Signal) -> Disturbance:
    """What the job's faults do to one host."""
    n = len(times)
    gpu, cores = picks(job, host)
    zero = {name: np.zeros(n) for name in Disturbance.__dataclass_fields__ if name not in _NO_SIGNAL}
    state = Disturbance(**zero | {"lanes": np.full(n, float(LANES))}, gpu=gpu, hot_cores=cores)
    for number, fault in enumerate(_of_host(job, host)):
        draws = Draws(("fault", job.seed, host, fault.name, number))
        _STRIKES[fault.name](state, _Strike(job, fault, times, draws, envelope(fault, times)))
    return state


_NO_SIGNAL = ("huge_pages", "gpu", "hot_cores", "held", "silent")


def _of_host(job: Job, host: int) -> list[Fault]:
    return [fault for fault in job.faults if fault.host == host]


def _span(fault: Fault, times: Signal) -> tuple[int, int]:
    first = int(np.searchsorted(times, fault.start_s))
    last = len(times) if fault.end_s is None else int(np.searchsorted(times, fault.end_s, side="right"))
    return first, max(last - 1, first)


def envelope(fault: Fault, times: Signal) -> Signal:
    """The course of a fault: 0 outside of its interval, 1 within, with a short ramp at either end."""
    first, last = _span(fault, times)
    start = times[first] if fault.start_s > 0 else -np.inf
    end = times[last] if fault.end_s is not None else np.inf
    ramp = min(_RAMP_S, (times[last] - times[first]) / 4)
    inside = (np.arange(len(times)) >= first) & (np.arange(len(times)) <= last)
    if ramp <= 0:
        return inside.astype(float)
    course: Signal = np.clip(np.minimum((times - start) / ramp + 0.2, (end - times) / ramp + 0.2), 0, 1) * inside
    return course


def slots(draws: Draws, name: str, times: Signal, length_s: float) -> Signal:
    """A uniform number per slot of time, held through the slot: decides on and off."""
    index = np.floor(np.maximum(times, 0) / length_s).astype(int)
    values = draws.stream(name).random(int(index[-1]) + 1)
    return np.asarray(values[index], dtype=np.float64)


@dataclass(frozen=True)
class _Strike:
    """One fault at work: its intensity x, its course 0..1, and the sample times."""

    job: Job
    fault: Fault
    times: Signal
    draws: Draws
    course: Signal

    @property
    def x(self) -> float:
        return self.fault.intensity

    def slots(self, length_s: float) -> Signal:
        return slots(self.draws, "slots", self.times, length_s)


def _numa_misplacement(state: Disturbance, by: _Strike) -> None:
    state.remote += by.x * by.course


def _single_queue_pair(state: Disturbance, by: _Strike) -> None:
    state.funnel += by.x * by.course


def _irq_imbalance(state: Disturbance, by: _Strike) -> None:
    state.irq_focus += by.x * by.course


def _huge_pages_1g(state: Disturbance, by: _Strike) -> None:
    state.huge_pages = by.x


def _packet_loss(state: Disturbance, by: _Strike) -> None:
    state.loss_percent += _between(_LOSS_PERCENT, by.x) * by.course


def _thermal_throttling(state: Disturbance, by: _Strike) -> None:
    if by.job.machine.gpus:
        state.heat += 1.6 * by.x * by.course
    else:
        state.cpu_throttle += 0.6 * by.x * by.course


def _pcie_downtraining(state: Disturbance, by: _Strike) -> None:
    lanes = next(lanes for limit, lanes in _LANES_LEFT if by.x <= limit)
    state.lanes = np.where(by.course > 0, lanes, state.lanes)


def _memory_leak(state: Disturbance, by: _Strike) -> None:
    step_s = np.diff(by.times, prepend=by.times[0])
    state.leak_kb += np.cumsum(_between(_LEAK_KB_S, by.x) * by.course * step_s) * (by.course > 0)


def _storage_burst(state: Disturbance, by: _Strike) -> None:
    state.foreign_io += by.x**1.6 * by.course * (by.slots(0.8) < 0.65)
    state.guests += _WRITERS * (by.course > 0)


def _gpu_straggler(state: Disturbance, by: _Strike) -> None:
    state.slow_gpu += 0.55 * by.x * by.course


def _gpu_held_idle(state: Disturbance, by: _Strike) -> None:
    number = by.slots(1.0)
    least = number[by.course > 0].min()  # one slot at least, else there is no fault
    state.gpu_hang += (by.course > 0) * (number <= max(by.x**1.5, least))


def _noisy_neighbour(state: Disturbance, by: _Strike) -> None:
    state.neighbour += by.x * by.course
    state.guests += len(state.hot_cores) * (by.course > 0)


def _sensor_stuck(state: Disturbance, by: _Strike) -> None:
    refresh_s = next((s for limit, s in _REFRESH_S if by.x <= limit), np.inf)
    index = _held_index(by.times, by.course > 0, refresh_s)
    state.held |= dict.fromkeys(culprits(by.job, by.fault.name, by.fault.host), index)


def _sensor_missing(state: Disturbance, by: _Strike) -> None:
    silent = (by.course > 0) & (by.draws.stream("silent").random(len(by.times)) < by.x)
    state.silent |= dict.fromkeys(culprits(by.job, by.fault.name, by.fault.host), silent)


_STRIKES: dict[str, Callable[[Disturbance, _Strike], None]] = {
    "numa_misplacement": _numa_misplacement,
    "single_queue_pair": _single_queue_pair,
    "irq_imbalance": _irq_imbalance,
    "huge_pages_1g": _huge_pages_1g,
    "packet_loss": _packet_loss,
    "thermal_throttling": _thermal_throttling,
    "pcie_downtraining": _pcie_downtraining,
    "memory_leak": _memory_leak,
    "storage_burst": _storage_burst,
    "gpu_straggler": _gpu_straggler,
    "gpu_held_idle": _gpu_held_idle,
    "noisy_neighbour": _noisy_neighbour,
    "sensor_stuck": _sensor_stuck,
    "sensor_missing": _sensor_missing,
}
"""By the names of `faults.yaml`."""


def _between(table: tuple[tuple[float, float], ...], x: float) -> float:
    return float(np.interp(x, [at for at, _ in table], [value for _, value in table]))


def _held_index(times: Signal, inside: npt.NDArray[np.bool_], refresh_s: float) -> npt.NDArray[np.int64]:
    """Which sample a stuck sensor shows at each moment."""
    own = np.arange(len(times))
    first = int(np.argmax(inside))
    slot = np.floor((times - times[first]) / refresh_s) if np.isfinite(refresh_s) else np.zeros(len(times))
    fresh = ~inside | (np.diff(slot, prepend=-1) > 0) | (own == first)
    return np.maximum.accumulate(np.where(fresh, own, 0))
