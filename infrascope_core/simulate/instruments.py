"""What the tools report of a host's state: perf, /proc, turbostat, nvidia-smi, ss and nstat, one function each.

What belongs here: units, rounding, sampling and the quirks of each tool (FORMAT, "Contents"). A reading is an array of
one value per sample, or one number for a column that never moves; nan is a value that the tool does not give.
Counters whose source is called `…_diff` are given per sample, all other counters since boot.
"""

from __future__ import annotations

import numpy as np

from infrascope_core.simulate.disturbance import Signal
from infrascope_core.simulate.host import State
from infrascope_core.simulate.machines import Machine, gpu
from infrascope_core.simulate.plan import Draws, seed_of

Readings = dict[str, Signal | float]
"""Host-free metric to its column."""

_SECTOR = 512
_JIFFIES_PER_S = 100


def read(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    """All readings of a host; columns that are missing here are always zero.

    Parameters
    ----------
    dt : float
        Time between samples, in seconds.
    draws : Draws
        The host's random numbers in this job; the last part of their scope is the host's name.
    """
    return {
        **_perf(here, state, dt, draws),
        **_meminfo(here, state),
        **(_turbostat_gpu_host(here, state, dt, draws) if here.gpus else _turbostat_cpu_host(here, state, dt, draws)),
        **_stat(here, state, dt, draws),
        **_nvidia_smi(state, draws),
        **_diskstats(here, state, dt, draws),
        **_net_dev(here, state, dt, draws),
        **_sockets(here, state, dt, draws),
    }


def count(expected: Signal, rng: np.random.Generator) -> Signal:
    """Whole numbers of events around an expectation; about Poisson, but one draw a value whatever the expectation.

    Below 10 events the exact distribution counts, above its normal approximation does.
    """
    shape = np.shape(expected)
    uniform = rng.random(shape)
    normal = rng.standard_normal(shape, dtype=np.float32)
    many = np.rint(expected + np.sqrt(np.maximum(expected, 0)) * normal)
    few = np.zeros(shape)
    small = np.asarray(expected) < 10
    if small.any():
        chance = np.exp(-np.where(small, np.maximum(expected, 0), 0.0))
        cumulated = chance.copy()
        for events in range(1, 25):  # the inverse of the distribution function, term by term
            few += uniform > cumulated
            chance = chance * np.where(small, np.maximum(expected, 0), 0.0) / events
            cumulated += chance
    chosen: Signal = np.where(small, few, many)
    return chosen


def _perf(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    n = len(state.ipc)

    def grain(name: str, spread: float) -> Signal:
        return 1 + spread * draws.stream(f"perf {name}").standard_normal(n)

    cycles = np.rint((state.busy * state.mhz).sum(axis=0) * 1e6 * dt * grain("cycles", 0.006))
    instructions = np.rint(cycles * state.ipc * grain("ipc", 0.012))
    branches = np.rint(instructions * 0.17 * grain("branches", 0.004))
    misses = np.rint(branches * 0.006 * grain("branch misses", 0.03))
    references = np.rint(instructions * 0.021 * grain("references", 0.02) * (1 + 0.5 * (state.stall - 0.08)))
    cache_misses = np.rint(references * np.minimum(state.miss * grain("misses", 0.02), 1))
    readings: Readings = {
        "Perf:Branches[count]": branches,
        "Perf:Branch_Misses[count]": misses,
        "Perf:Cache_Misses[count]": cache_misses,
        "Perf:Cache_References[count]": references,
        "Perf:Cycles[count]": cycles,
        "Perf:Instructions[count]": instructions,
    }
    if here.gpus:
        stalls = np.rint(cycles * np.minimum(state.stall * grain("stalls", 0.03), 0.95))
        waits = np.rint(np.minimum(stalls * 1.28 * grain("waits", 0.02), cycles))
        readings |= {
            "Perf:Cycle_activity_cycles_l3_miss[count]": waits,
            "Perf:Cycle_activity_stalls_l3_miss[count]": stalls,
            "Perf:Mem_trans_retired_load_latency_gt_128[count]": np.rint(
                instructions * 6e-6 * state.latency * grain("latency 128", 0.08)
            ),
            "Perf:Mem_trans_retired_load_latency_gt_256[count]": np.rint(
                instructions * 1.6e-6 * state.latency**1.3 * grain("latency 256", 0.12)
            ),
            "Perf:Mem-loads[count]": np.rint(instructions * 0.27 * grain("loads", 0.005)),
            "Perf:Mem-stores[count]": np.rint(instructions * 0.11 * grain("stores", 0.006)),
            "Perf:IPC[%]": 100 * instructions / cycles,
            "Perf:BranchUtilization[%]": 100 * misses / branches,
            "Perf:CacheUtilization[%]": 100 * cache_misses / references,
            "Perf:StallRatio[%]": 100 * stalls / cycles,
            "Perf:OccupancyRatio[%]": 100 * waits / cycles,
        }
    else:
        readings |= {
            "Perf:Ls_dc_accesses[count]": np.rint(instructions * 0.44 * grain("accesses", 0.006)),
            "Perf:Ls_dispatch_store_dispatch[count]": np.rint(instructions * 0.12 * grain("stores", 0.008)),
            "Perf:Ls_dispatch_ld_dispatch[count]": np.rint(instructions * 0.31 * grain("loads", 0.006)),
            "Perf:IPC[-]": instructions / cycles,
            "Perf:BranchUtilization[-]": misses / branches,
            "Perf:CacheUtilization[-]": cache_misses / references,
        }
    return readings


def _meminfo(here: Machine, state: State) -> Readings:
    levels: dict[str, Signal | float] = {name: np.rint(kb / 4) * 4 for name, kb in state.memory_kb.items()}
    total = float(here.memory_kb)
    huge = state.huge_pages > 0
    fixed: Readings = {
        "Memory:MemTotal[kB]": total,
        "Memory:CommitLimit[kB]": np.floor(total / 2) + here.swap_kb,
        "Memory:DirectMap1G[kB]": np.floor(total / 2**20) * 2**20 - 4 * 2**20,
        "Memory:Hugepagesize[kB]": float(2**20 if huge else 2048),
        "Memory:HugePages_Total[count]": float(state.huge_pages),
        "Memory:Hugetlb[kB]": float(state.huge_pages * 2**20),
        "Memory:SwapTotal[kB]": float(here.swap_kb),
        "Memory:MemoryUtilization[%]": 100 * (1 - state.memory_kb["MemAvailable"] / total),
    }
    if here.gpus:
        fixed |= {
            "Memory:DirectMap2M[kB]": 3_958_784.0,
            "Memory:DirectMap4k[kB]": 412_508.0,
            "Memory:SwapFree[kB]": float(here.swap_kb),
            "Memory:HugePages_Free[count]": float(state.huge_pages),
        }
        return fixed | {f"Memory:{name}[kB]": level for name, level in levels.items() if name != "MemTotal"}
    return fixed | {
        f"Meminfo_diff:{name}[kB]": np.diff(level, prepend=np.atleast_1d(level)[0])
        for name, level in levels.items()
        if name not in ("MemTotal", "Percpu")
    }


def _by_core(here: Machine, metric: str, unit: str, values: Signal, digits: int, average: bool = True) -> Readings:
    """A turbostat block: the visible cores, and `-`, the mean over all cores (for counts, the sum)."""
    rounded = np.round(values, digits) if digits else np.rint(values)
    readings: Readings = {
        f"Turbostat:{metric}.{core}[{unit}]": row for core, row in zip(here.visible, rounded, strict=True)
    }
    total = values.sum(axis=0)
    readings[f"Turbostat:{metric}.-[{unit}]"] = total / here.cores if average else np.rint(total)
    return readings


def _turbostat_common(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    n = len(state.ipc)
    tsc = np.rint(here.tsc_mhz + 0.6 * draws.stream("tsc").standard_normal(n))
    interrupts = np.rint(
        state.interrupts * dt
        + np.sqrt(state.interrupts * dt) * draws.stream("irq").standard_normal(state.interrupts.shape, dtype=np.float32)
    )
    mean_busy = state.busy.sum(axis=0)
    average = _by_core(here, "Avg_MHz", "MHz", state.busy * state.mhz, 0)
    return {
        **average,
        **_by_core(here, "Busy%", "%", 100 * state.busy, 2),
        **_by_core(here, "Bzy_MHz", "MHz", state.mhz, 0),
        "Turbostat:Bzy_MHz.-[MHz]": (state.busy * state.mhz).sum(axis=0) / mean_busy,
        **{f"Turbostat:TSC_MHz.{core}[MHz]": tsc for core in (*here.visible, "-")},
        **_by_core(here, "IRQ", "count", np.maximum(interrupts, 0), 0, average=False),
    }


def _turbostat_gpu_host(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    cores, n = state.busy.shape
    idle = 1 - state.busy
    shallow = np.clip(
        0.5 - 0.35 * idle + 0.04 * draws.stream("c1").standard_normal((cores, n), dtype=np.float32), 0.02, 0.98
    )
    host = np.random.default_rng(seed_of("heat of host", draws.scope[-1]))
    place = host.normal(0, 1.5, (cores, 1))
    warm = 33 + place + 24 * _heat(state.busy * (state.mhz / here.busy_mhz) ** 2, dt)
    watts = state.package_watts
    memory = 9 + 14 * state.miss * state.busy.mean(axis=0) * np.ones((2, 1))
    package = np.array([core * 2 // here.cores for core in here.visible])
    hottest = [warm[package == p].max(axis=0) + 2 for p in (0, 1)]
    readings = _turbostat_common(here, state, dt, draws) | {
        **_by_core(here, "CPU%c1", "%", 100 * idle * shallow, 2),
        **_by_core(here, "CPU%c6", "%", 100 * idle * (1 - shallow), 2),
        **_by_core(here, "CoreTmp", "C", warm, 0),
        "Turbostat:CoreTmp.-[C]": np.rint(warm.max(axis=0)),
        "Turbostat:PkgWatt.-[W]": watts.sum(axis=0),
        "Turbostat:RAMWatt.-[W]": memory.sum(axis=0),
        "Turbostat:PkgTmp.-[C]": np.rint(np.maximum(*hottest)),
    }
    for p in (0, 1):
        readings |= {
            f"Turbostat:PkgWatt.{p}[W]": watts[p],
            f"Turbostat:RAMWatt.{p}[W]": memory[p],
            f"Turbostat:PkgTmp.{p}[C]": np.rint(hottest[p]),
        }
    return readings


def _heat(power: Signal, dt: float) -> Signal:
    """A core's warmth follows its power with some seconds of lag."""
    from infrascope_core.simulate.activity import lag  # noqa: PLC0415

    return np.stack([lag(row, 7.0, dt) for row in power])


def _turbostat_cpu_host(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    cores, n = state.busy.shape
    idle = 1 - state.busy
    shallow = np.clip(
        0.62 - 0.3 * idle + 0.05 * draws.stream("c1").standard_normal((cores, n), dtype=np.float32), 0.02, 0.98
    )
    wakeups = np.maximum(state.interrupts, 0) * dt * (0.35 + 0.5 * idle)
    grain = draws.stream("wakeups").standard_normal((cores, n), dtype=np.float32)
    c1 = np.maximum(np.rint(wakeups * (0.4 + 0.5 * shallow) * (1 + 0.12 * grain)), 0)
    c2 = np.maximum(np.rint(wakeups * 0.5 * (1 - shallow) * (1 - 0.1 * grain)), 0)
    polls = np.floor(wakeups * 0.012 + draws.stream("polls").random((cores, n), dtype=np.float32))
    ipc = state.ipc * (1 + 0.05 * draws.stream("core ipc").standard_normal((cores, n), dtype=np.float32))
    half = cores // 2
    watts = here.core_watt * state.busy * (state.mhz / here.busy_mhz) ** 2.4
    per_core = np.round(watts[:half] + watts[half:] + 0.15, 2)  # turbostat gives a core's watts once, not per thread
    unknown = [*range(half, cores), "-"]
    return {
        **_turbostat_common(here, state, dt, draws),
        **_by_core(here, "IPC", "-", ipc, 2),
        **_by_core(here, "POLL", "count", polls, 0, average=False),
        **_by_core(here, "C1", "count", c1, 0, average=False),
        **_by_core(here, "C2", "count", c2, 0, average=False),
        **_by_core(here, "C1%", "%", 100 * idle * shallow, 2),
        **_by_core(here, "C2%", "%", 100 * idle * (1 - shallow), 2),
        **{f"Turbostat:CorWatt.{core}[W]": row for core, row in enumerate(per_core)},
        **{f"Turbostat:CorWatt.{core}[W]": np.nan for core in unknown},
        "Turbostat:PkgWatt.0[W]": state.package_watts[0],
    }


def _stat(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    """/proc/stat counts in jiffies of 10 ms: at 100 ms a core's utilization has eleven values or so."""
    rng = draws.stream("stat")
    shape = state.busy.shape
    jiffies = np.maximum(np.rint(_JIFFIES_PER_S * dt + 0.45 * rng.standard_normal(shape, dtype=np.float32)), 1)
    busy = np.floor(state.busy * jiffies + rng.random(shape, dtype=np.float32))
    share = 100 * np.minimum(busy / jiffies, 1)
    readings: Readings = {f"CPU:CPU{core}Utilization[%]": row for core, row in zip(here.visible, share, strict=True)}
    readings["AverageCPUUtilization[%]"] = share.sum(axis=0) / here.cores
    return readings


def _nvidia_smi(state: State, draws: Draws) -> Readings:
    readings: Readings = {}
    part = gpu()
    for index, device in enumerate(state.devices):
        n = len(device.watts)
        rough = draws.stream(f"smi {index}").standard_normal((2, n))
        running = np.where(
            device.running > 0.97, 1, np.clip(device.running + 0.02 * rough[0] * (device.running > 0.02), 0, 1)
        )
        used = np.rint(device.memory_mib / 2) * 2
        clock = np.rint(device.clock_mhz / 7.5) * 7.5
        values: Readings = {
            "utilization.gpu.{}[%]": np.rint(100 * running),
            "utilization.memory.{}[%]": np.clip(
                np.rint(100 * device.memory_traffic + 1.0 * rough[1] * (device.memory_traffic > 0.01)), 0, 100
            ),
            "utilization.jpeg.{}[%]": np.nan,
            "utilization.ofa.{}[%]": np.nan,
            "fan.speed.{}[%]": np.nan,
            "power.draw.{}[W]": np.maximum(device.watts, 0),
            "power.limit.{}[W]": part.full_watt,
            "enforced.power.limit.{}[W]": part.full_watt,
            "power.default_limit.{}[W]": part.full_watt,
            "power.min_limit.{}[W]": 100.0,
            "power.max_limit.{}[W]": part.full_watt,
            "temperature.gpu.{}[C]": np.rint(device.celsius),
            "temperature.memory.{}[C]": np.rint(device.celsius - 3 + 8 * device.memory_traffic),
            "clocks.gr.{}[MHz]": np.floor(clock),
            "clocks.sm.{}[MHz]": np.floor(clock),
            "clocks.mem.{}[MHz]": float(part.memory_mhz),
            "clocks.video.{}[MHz]": np.floor(clock * 0.9),
            "memory.total.{}[MiB]": float(part.memory_mib),
            "memory.reserved.{}[MiB]": 269.0,
            "memory.used.{}[MiB]": used,
            "memory.free.{}[MiB]": part.memory_mib - 269.0 - used,
            "pcie.link.gen.current.{}[count]": 3.0,
            "pcie.link.gen.max.{}[count]": 3.0,
            "pcie.link.width.current.{}[count]": device.lanes,
            "pcie.link.width.max.{}[count]": 16.0,
        }
        readings |= {f"GPU: {name.format(index)}": value for name, value in values.items()}
    return readings


def _diskstats(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    """Per sample on CPU hosts, since boot on GPU hosts (FORMAT: only the former's source is called a difference)."""
    wait = 1 + 4 * np.minimum(state.disk_load, 1) ** 2
    reads = count(state.reading * dt / 190e3, draws.stream("reads"))
    writes = count(state.writing * dt / 420e3 + 0.02, draws.stream("writes"))
    sectors_read = np.rint(np.where(reads > 0, np.maximum(state.reading * dt / _SECTOR / 8, reads), 0)) * 8
    sectors_written = np.rint(np.where(writes > 0, np.maximum(state.writing * dt / _SECTOR / 8, writes), 0)) * 8
    reading_ms = np.rint(reads * 0.55 * wait)
    writing_ms = np.rint(writes * 1.4 * wait)
    busy_ms = np.rint(np.minimum(1e3 * dt, 1e3 * dt * np.minimum(state.disk_load, 1) ** 0.7 + 0.2 * (reads + writes)))
    flushes = count(np.full(len(reads), 0.3 * dt), draws.stream("flushes"))
    counters = {
        "reads_completed_successfully[count]": reads,
        "reads_merged[count]": np.rint(0.08 * reads),
        "sectors_read[count]": sectors_read,
        "time_spent_reading_(ms)[ms]": reading_ms,
        "writes_completed[count]": writes,
        "writes_merged[count]": np.rint(0.6 * writes),
        "sectors_written[count]": sectors_written,
        "time_spent_writing_(ms)[ms]": writing_ms,
        "time_spent_doing_I/Os_(ms)[ms]": busy_ms,
        "weighted_time_spent_doing_I/Os_(ms)[ms]": reading_ms + writing_ms,
        "flush_requests_completed_successfully[count]": flushes,
        "time_spent_flushing_(ms)[ms]": flushes * 2,
    }
    in_flight = np.rint(np.minimum((reading_ms + writing_ms) / (1e3 * dt), 64))
    if not here.gpus:
        moved: Readings = {f"Storage_diff:{name}": values for name, values in counters.items()}
        return moved | {"Storage_diff:I/Os_currently_in_progress[count]": np.diff(in_flight, prepend=in_flight[0])}
    host = np.random.default_rng(seed_of("uptime of host", draws.scope[-1]))
    uptime = draws.stream("uptime").uniform(0.6, 1.4) * host.uniform(2e5, 6e5)
    since_boot: Readings = {
        f"Storage:{name}": np.rint(uptime * _RATE_SINCE_BOOT[name.split("[")[0]]) + np.cumsum(values)
        for name, values in counters.items()
        if not name.startswith("time_spent_flushing")
    }
    return since_boot | {"Storage:I/Os_currently_in_progress[count]": in_flight}


_RATE_SINCE_BOOT = {
    "reads_completed_successfully": 4.1,
    "reads_merged": 0.35,
    "sectors_read": 1500,
    "time_spent_reading_(ms)": 2.4,
    "writes_completed": 6.3,
    "writes_merged": 3.8,
    "sectors_written": 2600,
    "time_spent_writing_(ms)": 9.8,
    "time_spent_doing_I/Os_(ms)": 5.2,
    "weighted_time_spent_doing_I/Os_(ms)": 12.2,
    "flush_requests_completed_successfully": 0.3,
}
"""What a host's disk did per second before the job, on average."""


def _net_dev(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    readings: Readings = {}
    for name, link in state.links.items():
        received, sent = np.rint(link.received * dt), np.rint(link.sent * dt)
        size = 2048.0 if name == "ib0" else 1100.0 if name == "ens1f0" else 1480.0
        n = len(received)
        grain = 1 + 0.03 * draws.stream(f"packets {name}").standard_normal(n)
        gbit = here.fabric_gbit if name == here.fabric else here.management_gbit
        lost = draws.stream(f"drops {name}").random(n) < np.minimum(0.0006 + 0.02 * state.churn, 1) * (received > 0)
        readings |= {
            f"NetworkInterStat_diff:rx_bytes.{name}[Bytes]": received,
            f"NetworkInterStat_diff:rx_packets.{name}[count]": np.ceil(np.maximum(received / size * grain, 0)),
            f"NetworkInterStat_diff:rx_drop.{name}[count]": lost * 1.0,
            f"NetworkInterStat_diff:rx_multicast.{name}[count]": 1.0
            * (draws.stream(f"multicast {name}").random(n) < min(0.4 * dt, 1)),
            f"NetworkInterStat_diff:tx_bytes.{name}[Bytes]": sent,
            f"NetworkInterStat_diff:tx_packets.{name}[count]": np.ceil(np.maximum(sent / size * grain, 0)),
            f"NetworkInterStat_diff:NetworkUtilization.{name}[%]": np.minimum(
                100 * 8 * np.maximum(link.received, link.sent) / (gbit * 1e9), 100
            ),
        }
    return readings


def _sockets(here: Machine, state: State, dt: float, draws: Draws) -> Readings:
    n = len(state.ipc)
    ripple = draws.stream("churn").integers(0, 25, n) * (draws.stream("churning").random(n) < 0.3)
    tcp = np.rint(state.connections - state.churn * ripple) + (draws.stream("short").random(n) < 0.03)
    host = np.random.default_rng(seed_of("sockets of host", draws.scope[-1]))
    udp, unix = float(host.integers(9, 15)), np.rint(260 + host.integers(0, 90) + 0.4 * state.connections)
    local = np.rint(0.4 * tcp)
    again = count(state.retransmitted * dt, draws.stream("again"))
    lost = np.floor(0.3 * again * (state.churn > 0) + 0.12 * again + draws.stream("lost again").random(n) * (again > 0))
    counts: Readings = {
        "TCP": tcp,
        "UDP": udp,
        "UNIX": unix,
        "RAW": float(here.gpus > 0),
        "local_to": local,
        "to_local": tcp - local,
        "total_connections": tcp + udp + unix + float(here.gpus > 0),
    }
    return {f"NetworkProtocolCounts:{name}[count]": value for name, value in counts.items()} | {
        "NetworkTCPRetrans_diff:TcpRetransSegs[count]": again,
        "NetworkTCPRetrans_diff:TcpExtTCPSynRetrans[count]": 1.0
        * (draws.stream("syn").random(n) < np.minimum((0.002 + 0.15 * state.churn) * dt, 1)),
        "NetworkTCPRetrans_diff:TcpExtTCPLostRetransmit[count]": np.minimum(lost, again),
    }
