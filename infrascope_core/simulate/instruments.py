"""What the tools report of a host's state: perf, /proc, turbostat, nvidia-smi, ss and nstat, one function each.

What belongs here: units, rounding, sampling and the quirks of each tool (docs/format.md, Contents). A reading is an
array of one value per sample, or one number for a column that never moves; nan is a value that the tool does not give.
Counters whose source is called `…_diff` are given per sample, all other counters since boot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from infrascope_core.simulate.activity import lag
from infrascope_core.simulate.cores import Matrix, package_of_cores, single
from infrascope_core.simulate.disturbance import Signal
from infrascope_core.simulate.host import State
from infrascope_core.simulate.machines import Machine, gpu
from infrascope_core.simulate.scene import Scene

Readings = dict[str, npt.NDArray[np.floating] | float]
"""Host-free metric to its column."""

_SECTOR = 512
_JIFFIES_PER_S = 100


def read(scene: Scene, state: State) -> Readings:
    """All readings of a host, by host-free metric; a column that is missing among them is always zero."""
    return {
        **_perf(scene, state),
        **_meminfo(scene, state),
        **(_turbostat_gpu_host if scene.here.gpus else _turbostat_cpu_host)(scene, state),
        **_stat(scene, state),
        **_nvidia_smi(scene, state),
        **_diskstats(scene, state),
        **_net_dev(scene, state),
        **_sockets(scene, state),
        **_nstat(scene, state),
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


def _perf(scene: Scene, state: State) -> Readings:
    """Counts of all visible cores, and the ratios that are derived from them (Reveal, appendix B)."""
    cores, flow = state.cores, state.pipeline

    def grain(name: str, spread: float) -> Signal:
        return scene.grain(f"perf {name}", spread)

    megacycles = np.einsum("cn,cn->n", cores.busy, cores.mhz) * scene.dt
    cycles = np.rint(1e6 * megacycles * grain("cycles", 0.006))
    instructions = np.rint(cycles * flow.ipc * grain("ipc", 0.012))
    branches = np.rint(instructions * 0.17 * grain("branches", 0.004))
    misses = np.rint(branches * flow.branch_miss * grain("branch misses", 0.03))
    references = np.rint(instructions * 0.021 * grain("references", 0.02) * (1 + 0.5 * (flow.stall - 0.08)))
    cache_misses = np.rint(references * np.minimum(flow.miss * grain("misses", 0.02), 1))
    readings: Readings = {
        "Perf:Branches[count]": branches,
        "Perf:Branch_Misses[count]": misses,
        "Perf:Cache_Misses[count]": cache_misses,
        "Perf:Cache_References[count]": references,
        "Perf:Cycles[count]": cycles,
        "Perf:Instructions[count]": instructions,
    }
    if scene.here.gpus:
        stalls = np.rint(cycles * np.minimum(flow.stall * grain("stalls", 0.03), 0.95))
        waits = np.rint(np.minimum(stalls * 1.28 * grain("waits", 0.02), cycles))
        readings |= {
            "Perf:Cycle_activity_cycles_l3_miss[count]": waits,
            "Perf:Cycle_activity_stalls_l3_miss[count]": stalls,
            "Perf:Mem_trans_retired_load_latency_gt_128[count]": np.rint(
                instructions * 6e-6 * flow.latency * grain("latency 128", 0.08)
            ),
            "Perf:Mem_trans_retired_load_latency_gt_256[count]": np.rint(
                instructions * 1.6e-6 * flow.latency**1.3 * grain("latency 256", 0.12)
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


def _meminfo(scene: Scene, state: State) -> Readings:
    """Levels on GPU hosts; on CPU hosts differences, but for what never moves. Whole pages of 4 kB."""
    here = scene.here
    levels = {name: np.rint(kb / 4) * 4 for name, kb in state.memory_kb.items()}
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
        return fixed | {f"Memory:{name}[kB]": level for name, level in levels.items()}
    return fixed | {f"Meminfo_diff:{name}[kB]": np.diff(level, prepend=level[0]) for name, level in levels.items()}


def _by_core(here: Machine, metric: str, values: Matrix, mean: npt.NDArray[np.floating] | None = None) -> Readings:
    """A turbostat block, `metric` with its unit: the visible cores, and `-`, by default the mean over all cores."""
    name, unit = metric.split("[")
    readings: Readings = {
        f"Turbostat:{name}.{core}[{unit}": row for core, row in zip(here.visible, values, strict=True)
    }
    readings[f"Turbostat:{name}.-[{unit}"] = values.sum(axis=0) / here.cores if mean is None else mean
    return readings


def _turbostat_common(scene: Scene, state: State) -> Readings:
    here, cores = scene.here, state.cores
    expected = cores.interrupts * scene.dt
    noise = scene.draws.stream("irq").standard_normal(expected.shape, dtype=np.float32)
    interrupts = np.maximum(np.rint(expected + np.sqrt(expected) * noise), 0)
    average = cores.busy * cores.mhz
    return {
        **_by_core(here, "Avg_MHz[MHz]", average),
        **_by_core(here, "Busy%[%]", 100 * cores.busy),
        **_by_core(here, "Bzy_MHz[MHz]", cores.mhz, average.sum(axis=0) / cores.busy.sum(axis=0)),
        **{f"Turbostat:TSC_MHz.{core}[MHz]": float(here.tsc_mhz) for core in (*here.visible, "-")},
        **_by_core(here, "IRQ[count]", interrupts, interrupts.sum(axis=0)),
    }


def _shallow(scene: Scene, idle: Matrix, least: float) -> Matrix:
    """Share of the idle time that is spent in C1: the more a core idles, the deeper it sleeps."""
    noise = scene.draws.stream("c1").standard_normal(idle.shape, dtype=np.float32)
    return np.clip(least + 0.32 * (1 - idle) + 0.045 * noise, 0.02, 0.98)


def _turbostat_gpu_host(scene: Scene, state: State) -> Readings:
    here, cores = scene.here, state.cores
    idle = single(1 - cores.busy)
    in_c1 = 100 * idle * _shallow(scene, idle, 0.16)
    place = scene.of_host("heat").normal(0, 1.5, (len(here.visible), 1))
    warm = 33 + place + lag(24 * cores.busy * (cores.mhz / here.busy_mhz) ** 2, 7.0, scene.dt)
    warm += 0.45 * scene.draws.stream("core sensors").standard_normal(warm.shape, dtype=np.float32)
    package = package_of_cores(here)
    hottest = np.stack([warm[package == p].max(axis=0) + 2 for p in (0, 1)])
    watts = cores.package_watts
    memory = np.broadcast_to(9 + 14 * state.pipeline.miss * cores.busy.mean(axis=0), watts.shape)
    readings = _turbostat_common(scene, state) | {
        **_by_core(here, "CPU%c1[%]", in_c1),
        **_by_core(here, "CPU%c6[%]", 100 * idle - in_c1),
        **_by_core(here, "CoreTmp[C]", np.rint(warm), np.rint(warm.max(axis=0))),
        "Turbostat:PkgWatt.-[W]": watts.sum(axis=0),
        "Turbostat:RAMWatt.-[W]": memory.sum(axis=0),
        "Turbostat:PkgTmp.-[C]": np.rint(hottest.max(axis=0)),
    }
    for p in (0, 1):
        readings |= {
            f"Turbostat:PkgWatt.{p}[W]": watts[p],
            f"Turbostat:RAMWatt.{p}[W]": memory[p],
            f"Turbostat:PkgTmp.{p}[C]": np.rint(hottest[p]),
        }
    return readings


def _turbostat_cpu_host(scene: Scene, state: State) -> Readings:
    here, cores = scene.here, state.cores
    shape = cores.busy.shape
    idle = 1 - cores.busy
    shallow = _shallow(scene, idle, 0.3)
    in_c1 = 100 * idle * shallow
    wakeups = cores.interrupts * scene.dt * (0.35 + 0.5 * idle)
    into_c1 = (
        wakeups
        * (0.4 + 0.5 * shallow)
        * (1 + 0.12 * scene.draws.stream("wakeups").standard_normal(shape, dtype=np.float32))
    )
    c1 = np.rint(np.maximum(into_c1, 0))
    c2 = np.rint(np.maximum(0.95 * wakeups - into_c1, 0) * 0.5)
    polls = np.floor(0.035 * idle * wakeups + scene.draws.stream("polls").random(shape, dtype=np.float32))
    ipc = single(state.pipeline.ipc) * (
        1 + 0.05 * scene.draws.stream("core ipc").standard_normal(shape, dtype=np.float32)
    )
    half = shape[0] // 2  # turbostat gives a core's watts once, not for each of its two threads
    per_core = 0.15 + here.core_watt * (cores.busy[:half] + cores.busy[half:]) * (cores.mhz[:half] / here.busy_mhz) ** 2
    return {
        **_turbostat_common(scene, state),
        **_by_core(here, "IPC[-]", ipc),
        **_by_core(here, "POLL[count]", polls, polls.sum(axis=0)),
        **_by_core(here, "C1[count]", c1, c1.sum(axis=0)),
        **_by_core(here, "C2[count]", c2, c2.sum(axis=0)),
        **_by_core(here, "C1%[%]", in_c1),
        **_by_core(here, "C2%[%]", 100 * idle - in_c1),
        **{f"Turbostat:CorWatt.{core}[W]": row for core, row in enumerate(per_core)},
        **{f"Turbostat:CorWatt.{core}[W]": np.nan for core in (*range(half, shape[0]), "-")},
        "Turbostat:PkgWatt.0[W]": cores.package_watts[0],
    }


def _stat(scene: Scene, state: State) -> Readings:
    """/proc/stat counts in jiffies of 10 ms: at 100 ms a core's utilization has few values."""
    here, rng = scene.here, scene.draws.stream("stat")
    elapsed = _JIFFIES_PER_S * scene.dt + 0.45 * rng.standard_normal(scene.samples)
    jiffies = single(np.maximum(np.rint(elapsed), 1))
    busy = np.floor(state.cores.busy * jiffies + rng.random(state.cores.busy.shape, dtype=np.float32))
    share = 100 * np.minimum(busy / jiffies, 1)
    readings: Readings = {f"CPU:CPU{core}Utilization[%]": row for core, row in zip(here.visible, share, strict=True)}
    readings["AverageCPUUtilization[%]"] = share.sum(axis=0) / here.cores
    return readings


def _nvidia_smi(scene: Scene, state: State) -> Readings:
    readings: Readings = {}
    part = gpu()
    for index, device in enumerate(state.devices):
        rough = scene.draws.stream(f"smi {index}").standard_normal((2, scene.samples))
        partly = np.clip(device.running + 0.02 * rough[0] * (device.running > 0.02), 0, 1)
        running = np.where(device.running > 0.97, 1, partly)
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


def _diskstats(scene: Scene, state: State) -> Readings:
    """Per sample on CPU hosts, since boot on GPU hosts (docs/format.md: only the former's are named differences)."""
    dt, disk, draws = scene.dt, state.disk, scene.draws
    wait = 1 + 4 * np.minimum(disk.load, 1) ** 2
    reads = count(disk.reading * dt / 190e3, draws.stream("reads"))
    writes = count(disk.writing * dt / 420e3 + 0.02, draws.stream("writes"))
    sectors_read = np.rint(np.where(reads > 0, np.maximum(disk.reading * dt / _SECTOR / 8, reads), 0)) * 8
    sectors_written = np.rint(np.where(writes > 0, np.maximum(disk.writing * dt / _SECTOR / 8, writes), 0)) * 8
    reading_ms = np.rint(reads * 0.55 * wait)
    writing_ms = np.rint(writes * 1.4 * wait)
    busy_ms = np.rint(np.minimum(1e3 * dt * np.minimum(disk.load, 1) ** 0.7 + 0.2 * (reads + writes), 1e3 * dt))
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
    if not scene.here.gpus:
        moved: Readings = {f"Storage_diff:{name}": values for name, values in counters.items()}
        return moved | {"Storage_diff:I/Os_currently_in_progress[count]": np.diff(in_flight, prepend=in_flight[0])}
    uptime = scene.uptime()
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


_PACKET_BYTES = {"ib0": 2048.0, "ens1f0": 1100.0, "enp1s0f0np0": 1480.0}
"""Mean size of a packet by interface."""


def _net_dev(scene: Scene, state: State) -> Readings:
    here, dt, draws = scene.here, scene.dt, scene.draws
    readings: Readings = {}
    for name, link in state.links.items():
        received, sent = np.rint(link.received * dt), np.rint(link.sent * dt)
        size = _PACKET_BYTES[name]
        grain = scene.grain(f"packets {name}", 0.03)
        gbit = here.fabric_gbit if name == here.fabric else here.management_gbit
        dropped = draws.stream(f"drops {name}").random(scene.samples) < (0.0006 + 0.02 * state.churn) * (received > 0)
        multicast = draws.stream(f"multicast {name}").random(scene.samples) < min(0.4 * dt, 1)
        readings |= {
            f"NetworkInterStat_diff:rx_bytes.{name}[Bytes]": received,
            f"NetworkInterStat_diff:rx_packets.{name}[count]": np.ceil(np.maximum(received / size * grain, 0)),
            f"NetworkInterStat_diff:rx_drop.{name}[count]": 1.0 * dropped,
            f"NetworkInterStat_diff:rx_multicast.{name}[count]": 1.0 * multicast,
            f"NetworkInterStat_diff:tx_bytes.{name}[Bytes]": sent,
            f"NetworkInterStat_diff:tx_packets.{name}[count]": np.ceil(np.maximum(sent / size * grain, 0)),
            f"NetworkInterStat_diff:NetworkUtilization.{name}[%]": np.minimum(
                100 * 8 * np.maximum(link.received, link.sent) / (gbit * 1e9), 100
            ),
        }
    return readings


def _sockets(scene: Scene, state: State) -> Readings:
    """Sockets by protocol (ss), and connections by the side whose address is the host's."""
    draws, host = scene.draws, scene.of_host("sockets")
    torn = draws.stream("churn").integers(0, 25, scene.samples) * (draws.stream("churning").random(scene.samples) < 0.3)
    short = draws.stream("short").random(scene.samples) < 0.03
    tcp = np.maximum(np.rint(state.connections - state.churn * torn), 2) + short
    udp, raw = float(host.integers(9, 15)), float(scene.here.gpus > 0)
    unix = np.rint(260 + host.integers(0, 90) + 0.4 * state.connections)
    local = np.rint(0.4 * tcp)
    counts: Readings = {
        "TCP": tcp,
        "UDP": udp,
        "UNIX": unix,
        "RAW": raw,
        "local_to": local,
        "to_local": tcp - local,
        "total_connections": tcp + udp + unix + raw,
    }
    return {f"NetworkProtocolCounts:{name}[count]": value for name, value in counts.items()}


def _nstat(scene: Scene, state: State) -> Readings:
    """Retransmissions; of those, some are lost again, the more the worse the loss is."""
    draws, n = scene.draws, scene.samples
    again = count(state.retransmitted * scene.dt, draws.stream("again"))
    share = 0.12 + 0.3 * np.minimum(state.churn, 1)
    lost = np.floor(share * again + draws.stream("lost again").random(n) * (again > 0))
    opened = draws.stream("syn").random(n) < np.minimum((0.002 + 0.15 * state.churn) * scene.dt, 1)
    return {
        "NetworkTCPRetrans_diff:TcpRetransSegs[count]": again,
        "NetworkTCPRetrans_diff:TcpExtTCPSynRetrans[count]": 1.0 * opened,
        "NetworkTCPRetrans_diff:TcpExtTCPLostRetransmit[count]": np.minimum(lost, again),
    }
