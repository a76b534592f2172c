"""One host's latent state: cores, memory, disk, fabric and GPUs, as they follow from what the job does and what is wrong.

What belongs here: the couplings, in physical units. How a tool reports them is the business of `instruments`.
The orders of magnitude are those of FORMAT ("Typical values"); the directions are those of Reveal, sections 5.6 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrascope_core.simulate.activity import Activity, clock_cut, drift, lag
from infrascope_core.simulate.disturbance import Disturbance, Signal, slots
from infrascope_core.simulate.machines import Machine, gpu
from infrascope_core.simulate.plan import Draws, Job, seed_of
from infrascope_core.simulate.workloads import Profile

_MTU_BYTES = {"ib0": 4096.0}
_INTERRUPTS_PER_PACKET = 1 / 40
_MOST_INTERRUPTS_PER_S = 30_000.0
_SECONDS_PER_INTERRUPT = 5e-6
_FLUSH_S = 5.0
"""Dirty pages wait about this long before they are written (vm.dirty_writeback_centisecs)."""
_HUGE_PAGE_KB = 2**20


@dataclass(frozen=True)
class Link:
    """A network interface: bytes per second received and sent."""

    received: Signal
    sent: Signal


@dataclass(frozen=True)
class Device:
    """A GPU: shares 0..1, watts, degrees, MHz, MiB, lanes."""

    running: Signal
    memory_traffic: Signal
    watts: Signal
    celsius: Signal
    clock_mhz: Signal
    memory_mib: Signal
    lanes: Signal


@dataclass(frozen=True)
class State:
    """The latent state of a host over n samples.

    Attributes
    ----------
    busy, mhz, interrupts : array of shape (visible cores, n)
        Share of the time at work, clock while at work, interrupts per second.
    ipc, stall, miss : Signal
        Instructions per cycle; share of the cycles that wait behind L3; share of cache references that miss.
    package_watts : array of shape (packages, n)
    memory_kb : dict of str to Signal
        Levels by their name in /proc/meminfo.
    reading, writing : Signal
        The disk's traffic, bytes per second.
    retransmitted : Signal
        Segments expected to be sent again, per second.
    churn : Signal
        Connections that are opened and closed beyond the usual, 0..1.
    """

    busy: Signal
    mhz: Signal
    interrupts: Signal
    ipc: Signal
    stall: Signal
    miss: Signal
    latency: Signal
    package_watts: Signal
    memory_kb: dict[str, Signal]
    reading: Signal
    writing: Signal
    disk_load: Signal
    links: dict[str, Link]
    retransmitted: Signal
    churn: Signal
    connections: Signal
    devices: list[Device]
    huge_pages: int


def phase_load(profile: Profile, act_phases: dict[str, Signal]) -> Signal:
    """Mean load of a GPU by phase, 0..1 of the power between idle and full, without the detail of the step."""
    mean = profile.gpu_load * (1 - 0.6 * profile.sync_share)
    return mean * (0.7 * act_phases["warmup"] + act_phases["step"] + 0.8 * act_phases["evaluation"])


def host_state(job: Job, profile: Profile, act: Activity, wrong: Disturbance, dt: float, draws: Draws) -> State:
    """The state of one host.

    Parameters
    ----------
    act : Activity
        What the job does on this host, n samples.
    wrong : Disturbance
        What is wrong with it.
    dt : float
        Time between samples, in seconds.
    draws : Draws
        The host's random numbers in this job.
    """
    here = job.machine
    reading, own_writing = _disk_demand(profile, act, draws, dt)
    foreign = wrong.foreign_io * here.disk_mb_s * 1e6
    written = lag(own_writing, _FLUSH_S, dt, 0.0)
    reading, writing = reading + 0.55 * foreign, written + 0.3 * foreign
    capacity = here.disk_mb_s * 1e6
    squeeze = np.minimum(1, capacity / np.maximum(reading + writing, 1))
    reading, writing = reading * squeeze, writing * squeeze
    disk_load = (reading + writing) / capacity

    links = _links(job, profile, act, wrong, draws, dt)
    fabric = links[here.fabric]
    busy, mhz, interrupts = _cores(job, profile, act, wrong, disk_load, fabric, draws, dt)
    others = wrong.neighbour * len(wrong.hot_cores) / len(here.visible)
    steady = np.exp(0.012 * drift(draws.stream("ipc"), len(reading), 6.0, dt))
    mix = 1 + 0.05 * act.phases["evaluation"] - 0.12 * act.phases["startup"] - 0.08 * act.phases["checkpoint"]
    swing = 1 + 0.06 * (act.sync - act.input)
    ipc = profile.ipc * mix * swing * steady * (1 - 0.5 * wrong.remote) * (1 - 0.9 * others) * (1 - 0.05 * disk_load)
    stall_noise = np.exp(0.05 * drift(draws.stream("stall"), len(reading), 3.0, dt))
    stall = profile.stall_share * stall_noise * (1 + 0.35 * act.input - 0.2 * act.sync)
    stall = np.minimum(stall * (1 + 2.6 * wrong.remote + 2.2 * others), 0.85)
    miss = np.minimum(profile.miss_share * (1 + 0.7 * wrong.remote + 2.5 * others) * stall_noise**0.4, 0.95)
    return State(
        busy=busy,
        mhz=mhz,
        interrupts=interrupts,
        ipc=ipc,
        stall=stall,
        miss=miss,
        latency=stall_noise * (1 + 4.0 * wrong.remote + 0.5 * others),
        package_watts=_packages(here, busy, mhz, draws, dt),
        memory_kb=_memory(job, profile, act, wrong, reading, own_writing, writing, draws, dt),
        reading=reading,
        writing=writing,
        disk_load=disk_load,
        links=links,
        retransmitted=_retransmitted(profile, act, wrong, fabric, here, draws, dt),
        churn=np.clip((wrong.loss_percent - 0.1) * 4, 0, 1.5),
        connections=profile.connections * (0.3 + 0.7 * (1 - act.phases["startup"] - act.phases["ending"])),
        devices=[_device(job, profile, act, wrong, index, draws, dt) for index in range(here.gpus)],
        huge_pages=wrong.huge_pages,
    )


def _disk_demand(profile: Profile, act: Activity, draws: Draws, dt: float) -> tuple[Signal, Signal]:
    """Bytes per second that the job reads from and writes to the page cache."""
    n = len(act.input)
    rough = np.exp(0.25 * draws.stream("reading").standard_normal(n))
    fetching = act.input / max(profile.input_share, 0.01)
    reading = (
        1e6
        * rough
        * (
            90 * act.phases["startup"]
            + profile.loading_mb_s * act.phases["loading"]
            + profile.read_mb_s * (0.3 * act.working + 0.7 * fetching)
            + profile.read_mb_s * act.phases["evaluation"]
        )
    )
    saving = profile.checkpoint_mb / max(profile.checkpoint_s, 0.1)
    logging = 0.25 * (slots(draws, "log", np.arange(n) * dt, 1.0) < 0.3)
    return reading, 1e6 * (saving * act.phases["checkpoint"] + logging + 0.05)


def _links(job: Job, profile: Profile, act: Activity, wrong: Disturbance, draws: Draws, dt: float) -> dict[str, Link]:
    here = job.machine
    n = len(act.input)
    grain = 0.06 + 0.3 * np.minimum(wrong.loss_percent, 1) ** 0.5
    wave = np.exp(grain * draws.stream("fabric").standard_normal(n) - grain**2 / 2)
    comb = 2 * (
        slots(draws, "queue", np.arange(n) * dt, 0.25) < 0.5
    )  # one queue: nothing for a while, then all at once
    wave = wave * (1 - wrong.funnel + wrong.funnel * comb)
    keep = 1 / (1 + 0.05 * wrong.loss_percent)
    alone = 1.0 if job.hosts > 1 else 0.9
    flow = 1e6 * alone * wave * keep * (profile.sync_mb_s * act.sync + profile.steady_mb_s * act.compute)
    flow = flow + 1e6 * 0.4 * profile.sync_mb_s * act.phases["loading"] * (here.gpus > 0)  # weights from the other host
    flow = np.minimum(flow, 0.97 * here.fabric_gbit / 8 * 1e9)
    skew = np.exp(0.015 * draws.stream("skew").standard_normal(n))
    links = {here.fabric: Link(flow, flow * skew)}
    chatter = 1e3 * profile.management_kb_s * draws.stream("chatter").gamma(1.6, 1 / 1.6, n)
    if here.fabric == here.interfaces[0]:  # one link for all: silent between exchanges but for a packet now and then
        rare = draws.stream("rare").random(n) < -np.expm1(-0.8 * dt)
        talk = chatter * rare / min(0.8 * dt, 1)
        return {here.fabric: Link(flow + talk, flow * skew + 0.7 * talk)}
    busy_start = (
        1 + 6 * act.phases["startup"] + 20 * act.phases["loading"]
    )  # files of the job come over the management link
    links[here.interfaces[0]] = Link(chatter * busy_start, 0.35 * chatter)
    return links


def _retransmitted(
    profile: Profile, act: Activity, wrong: Disturbance, fabric: Link, here: Machine, draws: Draws, dt: float
) -> Signal:
    """Segments per second: bursts that belong to the job's own traffic, and those that loss adds to them.

    Loss adds no orders of magnitude; it makes them burstier and ties them to the fabric's jitter (Reveal, section 6).
    """
    n = len(fabric.sent)
    traffic = fabric.sent / (1e6 * profile.sync_mb_s)
    bursts = 6.0 * (slots(draws, "intrinsic", np.arange(n) * dt, 1.5) < 1 / 6)
    own = profile.retransmissions_per_s * (0.3 + 0.7 * bursts) * np.minimum(traffic * 3, 2)
    volleys = 4.0 * (slots(draws, "volleys", np.arange(n) * dt, 0.3) < 0.25)
    added = 16 * wrong.loss_percent**0.6 * volleys * (0.25 + np.minimum(traffic * 3, 2)) * act.working
    choked = 1 - 0.6 * wrong.funnel  # a queue that is full sends less again (section 6: retransmissions flatten)
    return own * choked + added


def _cores(
    job: Job,
    profile: Profile,
    act: Activity,
    wrong: Disturbance,
    disk_load: Signal,
    fabric: Link,
    draws: Draws,
    dt: float,
) -> tuple[Signal, Signal, Signal]:
    """Busy share, clock and interrupts per second of each visible core."""
    here = job.machine
    cores, n = len(here.visible), len(act.input)
    place = np.random.default_rng(seed_of("placement", job.platform, job.workload))
    order = place.permutation(cores)
    affinity = place.dirichlet(np.full(cores, 3.0))
    hot = np.zeros(cores)
    hot[wrong.hot_cores[:2]] = (0.6, 0.4)

    traffic = np.minimum(
        (fabric.received + fabric.sent) / _MTU_BYTES.get(here.fabric, 9000.0) * _INTERRUPTS_PER_PACKET,
        _MOST_INTERRUPTS_PER_S,
    )
    shaky = 1 + 0.8 * np.clip((wrong.loss_percent - 0.15) / 0.85, 0, 1) * (
        2 * (slots(draws, "irq swing", np.arange(n) * dt, 0.5) < 0.5) - 1
    )
    devices = (400 + traffic + 9_000 * disk_load) * shaky
    focus = wrong.irq_focus
    by_core = affinity[:, None] * (devices * (1 - 0.9 * focus)) + hot[:, None] * (
        (0.9 * devices + 9_000 * (act.working + act.phases["evaluation"])) * focus
    )
    handling = by_core * _SECONDS_PER_INTERRUPT * (1 + 7 * focus)

    process = (
        0.55 * act.phases["startup"] + 0.7 * act.phases["loading"] + act.working + 0.97 * act.phases["evaluation"]
        + 0.5 * act.phases["checkpoint"] + 0.25 * act.phases["ending"]
    )  # fmt: skip
    fetching = act.input / max(profile.input_share, 0.01)
    loader = 1.2 * act.phases["loading"] + act.working * 0.55 + 0.45 * fetching + 0.8 * act.phases["evaluation"]
    level = draws.stream("levels")
    activities = np.stack(
        [
            _compute_threads(here, process, act) * float(np.exp(level.normal(0, 0.008))),
            loader * (1 - 0.3 * disk_load) * float(np.exp(level.normal(0, 0.03))),
            act.sync / max(profile.sync_share, 0.02) * 0.5 + 0.4 * act.working + 2.2 * wrong.funnel * act.working,
            0.9 * disk_load + act.phases["checkpoint"],
        ]
    )
    weights = np.stack(
        [
            _fill(profile.spin_cores, cores, order, 0.94 if here.gpus else 0.86),
            profile.loader_cores * place.dirichlet(np.full(cores, 2.5)),
            profile.comm_cores * place.dirichlet(np.full(cores, 2.0)),
            0.8 * place.dirichlet(np.full(cores, 0.7)),
        ],
        axis=1,
    )
    uneven = np.exp(0.05 * drift(draws.stream("cores"), (cores, n), 12.0, dt))
    rough = 1 + 0.03 * draws.stream("core noise").standard_normal((cores, n), dtype=np.float32)
    own = (weights @ activities) * uneven * rough + 0.004
    neighbour = np.zeros((cores, 1))
    neighbour[wrong.hot_cores] = 0.85
    taken = neighbour * wrong.neighbour
    busy = np.clip(own * (1 - 0.5 * taken) + taken + handling, 0.002, 0.999)

    swing = np.clip((wrong.loss_percent - 0.15) / 0.85, 0, 1) * np.sin(2 * np.pi * np.arange(n) * dt / 1.3)
    governor = (
        (1 - 0.09 * busy.mean(axis=0))
        * (1 - 0.05 * np.minimum(disk_load, 1) - 0.10 * wrong.foreign_io)
        * (1 - 0.06 * np.abs(swing) - 0.05 * focus * 0.5 - 0.03 * wrong.neighbour)
        * (1 - wrong.cpu_throttle)
        * np.exp(0.004 * drift(draws.stream("governor"), n, 5.0, dt))
    )
    grain = 0.006 * draws.stream("clock noise").standard_normal((cores, n), dtype=np.float32)
    mhz = here.busy_mhz * governor * (1 + grain)
    interrupts = by_core + here.tick_hz * (0.15 + 0.85 * busy) + 30 * act.sync
    return busy, mhz, interrupts


def _compute_threads(here: Machine, process: Signal, act: Activity) -> Signal:
    """Load of the job's threads: on GPU hosts they poll all the time; on CPU hosts they compute, and wait in between."""
    if here.gpus:
        return process
    return process - act.working + act.compute - 0.4 * act.lagging + 0.55 * act.sync + 0.5 * act.input


def _fill(threads: float, cores: int, order: Signal, most: float) -> Signal:
    """Threads laid onto cores in a fixed order, each core up to `most`, later ones less."""
    share = np.clip(threads / most - np.arange(cores), 0, 1) * most
    if threads > 0.6 * cores:  # more threads than fit side by side: spread, the later cores a little less
        share = threads / cores * np.linspace(1.18, 0.82, cores)
    placed = np.empty(cores)
    placed[order] = share
    return placed


def _packages(here: Machine, busy: Signal, mhz: Signal, draws: Draws, dt: float) -> Signal:
    """Watts of each package, from its cores' load and clock (dynamic power goes with f V², about f to the 2.4)."""
    count = max(len(here.packages) - 1, 1)
    package = np.array([core * count // here.cores for core in here.visible])
    watts = here.core_watt * busy * (mhz / here.busy_mhz) ** 2.4
    noise = 0.6 * draws.stream("watts").standard_normal((count, busy.shape[1]))
    totals = np.stack([here.idle_watt + watts[package == p].sum(axis=0) for p in range(count)])
    return (
        np.asarray(lag(totals[0], 0.2, dt)[None] if count == 1 else np.stack([lag(t, 0.2, dt) for t in totals])) + noise
    )


def _memory(
    job: Job,
    profile: Profile,
    act: Activity,
    wrong: Disturbance,
    reading: Signal,
    saved: Signal,
    writing: Signal,
    draws: Draws,
    dt: float,
) -> dict[str, Signal]:
    """Levels of /proc/meminfo in kB."""
    here = job.machine
    host = np.random.default_rng(seed_of("memory of host", job.platform, draws.scope[-1]))
    base_kb = here.memory_kb * (0.018 + 0.004 * host.random())
    n = len(reading)
    ramp = lag(1 - act.phases["startup"] * 0.8 - act.phases["ending"] * 0.75, 3.5, dt, 0.05)
    breathing = 0.004 * drift(draws.stream("heap"), n, 2.0, dt) + 0.02 * act.phases["evaluation"]
    anon = base_kb + profile.host_memory_gb * 1e6 * ramp * (
        1 + breathing * act.working + 0.02 * act.phases["evaluation"]
    )
    anon = np.minimum(anon + wrong.leak_kb, 0.93 * here.memory_kb)
    cache_kb = here.memory_kb * 0.03 + np.minimum(np.cumsum(reading) * dt / 1e3, profile.dataset_mb * 1e3)
    cache_kb = cache_kb + np.cumsum(saved) * dt / 1e3 * 0.2
    huge_kb = wrong.huge_pages * _HUGE_PAGE_KB
    room = 0.985 * here.memory_kb - anon - huge_kb
    cache_kb = np.minimum(cache_kb, 0.9 * np.maximum(room, 1e5))
    dirty = (
        lag(saved, _FLUSH_S, dt, 0.0) * _FLUSH_S / 1e3 + 90 * wrong.foreign_io * lag(wrong.foreign_io, 2.0, dt) * 1e3
    )
    slab = here.memory_kb * 0.006 + 0.02 * cache_kb
    kernel = 18_000 + 40 * profile.connections + 4e3 * act.working
    free = here.memory_kb - anon - cache_kb - slab - kernel - huge_kb
    jitter = 40 * draws.stream("pages").standard_normal(n)
    anon, free = anon + np.abs(jitter), free - np.abs(jitter)
    file_active = 0.35 * cache_kb
    return {
        "MemTotal": np.full(n, float(here.memory_kb)),
        "MemFree": free,
        "MemAvailable": free + 0.92 * cache_kb + 0.6 * slab,
        "Buffers": 3200 + 0.0008 * cache_kb,
        "Cached": cache_kb,
        "Active": 0.92 * anon + file_active,
        "Active(anon)": 0.92 * anon,
        "Active(file)": file_active,
        "Inactive": 0.08 * anon + cache_kb - file_active,
        "Inactive(anon)": 0.08 * anon,
        "Inactive(file)": cache_kb - file_active,
        "AnonPages": anon,
        "AnonHugePages": np.floor(0.4 * anon / 2048) * 2048,
        "Committed_AS": 1.7 * anon + 2.4e6,
        "Dirty": dirty,
        "Writeback": writing * 0.03 / 1e3,
        "Mapped": 480_000 + 9e5 * ramp,
        "Shmem": 52_000 + 1.1e6 * ramp * (1 + 0.02 * act.input),
        "Slab": slab,
        "SReclaimable": 0.65 * slab,
        "KReclaimable": 0.65 * slab,
        "SUnreclaim": 0.35 * slab,
        "KernelStack": kernel,
        "PageTables": 9_000 + 0.0022 * anon,
        "VmallocUsed": 310_000 + 200 * np.floor(10 * ramp),
        "Unevictable": 11_000 + 2.0e5 * ramp * (1 + 0.5 * wrong.remote),
        "Mlocked": 11_000 + 2.0e5 * ramp,
        "Percpu": np.full(n, 62_000.0),
    }


def _device(
    job: Job, profile: Profile, act: Activity, wrong: Disturbance, index: int, draws: Draws, dt: float
) -> Device:
    part = gpu()
    n = len(act.input)
    host = np.random.default_rng(seed_of("gpu of host", draws.scope[-1], index))
    warmer, hungrier = host.normal(0, 0.8), float(np.exp(host.normal(0, 0.012)))
    struck = index == wrong.gpu
    hot, clock = clock_cut(wrong, phase_load(profile, act.phases), dt)
    if not struck:
        hot, clock = np.zeros(n), np.ones(n)
    slow = 1 - wrong.slow_gpu if struck else np.ones(n)
    waiting = act.sync if struck else act.sync + act.lagging
    computing = act.compute if struck else act.compute - act.lagging
    exposed = profile.exposed_input * act.input + (
        np.maximum(act.input - profile.input_share * act.working, 0)
        if struck
        else 0.8 * np.maximum(act.input - profile.input_share * act.working, 0)
    ) * (wrong.lanes < 16)
    hidden = np.maximum(act.input - exposed, 0)
    on = 1 - wrong.gpu_hang
    running = np.clip(computing + waiting + hidden + act.forward * (1 - 0.3 * profile.exposed_input), 0, 1) * on
    working = computing + 0.6 * hidden
    drive = (clock * slow) ** 1.7
    wander = np.exp(0.012 * drift(draws.stream(f"gpu {index}"), n, 3.0, dt))
    load = (
        np.clip(
            profile.gpu_load * hungrier * wander * (drive * working + 0.42 * waiting + 0.78 * act.forward * drive), 0, 1
        )
        * on
    )
    loaded = lag(1 - act.phases["startup"] - act.phases["ending"], 0.6, dt, 0.0)
    span = part.full_watt - part.idle_watt - part.context_watt
    watts = lag(part.idle_watt + part.context_watt * loaded + span * load, part.sensor_lag_s, dt)
    cool = part.ambient_c + warmer
    celsius = lag(cool + part.kelvin_per_watt * watts * (1 + (wrong.heat if struck else 0.0)), part.thermal_lag_s, dt)
    limit = part.slowdown_c + 3
    celsius = np.where(celsius > limit, limit + 0.15 * (celsius - limit), celsius)
    del hot
    memory = profile.gpu_memory_gb * 1000 * lag(
        0.5 * act.phases["loading"] + 0.85 * act.phases["warmup"] + act.phases["step"] + act.phases["evaluation"]
        + act.phases["checkpoint"], 0.8, dt, 0.0,
    )  # fmt: skip
    boost = part.boost_mhz - 45 * np.clip(load, 0, 1) * slow
    return Device(
        running=running,
        memory_traffic=profile.gpu_memory_load
        / 100
        * wander
        * (drive * working + 0.25 * waiting + 0.8 * act.forward)
        * on,
        watts=watts + 0.7 * draws.stream(f"watts {index}").standard_normal(n),
        celsius=celsius,
        clock_mhz=np.where(loaded > 0.05, boost * clock * slow, part.idle_mhz),
        memory_mib=np.minimum(330 * (loaded > 0.05) + 4 + memory, part.memory_mib - 300),
        lanes=wrong.lanes if struck else np.full(n, 16.0),
    )
