"""What each fault does to the metrics that it is about: direction, extent, and nothing before or after.

Each is compared with its healthy twin: the same job and seed without the fault, whose noise is the same.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import numpy as np
import pytest

from infrascope_core.simulate import FAULTS, Fault, Job, columns, simulate_job
from infrascope_core.simulate.disturbance import culprits, picks

START_S, END_S = 52.0, 92.0
INSIDE = slice(540, 900)
BEFORE, AFTER = slice(300, 515), slice(950, 1040)


@lru_cache
def readings(platform, fault=None, intensity=0.5, model="DEEPSEEK", phase="train"):
    faults: tuple[Fault, ...] = ()
    if fault:
        span = (0.0, None) if FAULTS[fault].whole_run else (START_S, END_S)
        faults = (Fault(fault, intensity, *span),)
    job = Job(platform, model, phase=phase, minutes=2, seed=5, faults=faults, started_at=datetime(2026, 11, 1))
    times, (host,) = simulate_job(job)
    return {c.metric: np.broadcast_to(host.get(c.metric, 0.0), times.shape) for c in columns(platform)}


def moved(platform, fault, intensity, metric, of):
    """A statistic of the metric within the fault's time, with the fault and without it."""
    with_fault, healthy = readings(platform, fault, intensity)[metric], readings(platform)[metric]
    return of(with_fault[INSIDE]), of(healthy[INSIDE])


def rate(values):
    """Growth per sample."""
    return (values[-1] - values[0]) / len(values)


def roughness(values):
    """How much neighbouring samples differ, relative to their level."""
    return np.abs(np.diff(values)).mean() / values.mean()


def missing(values):
    return np.isnan(values).mean()


def refreshed(values):
    """Share of samples that differ from the one before."""
    return (np.diff(values) != 0).mean()


UP, DOWN = 1, -1
EFFECTS = [
    ("gpu", "numa_misplacement", "Perf:IPC[%]", np.mean, DOWN, 0.9),
    ("gpu", "numa_misplacement", "Perf:StallRatio[%]", np.mean, UP, 1.5),
    ("gpu", "numa_misplacement", "Perf:Cycle_activity_stalls_l3_miss[count]", np.mean, UP, 1.4),
    ("gpu", "numa_misplacement", "Perf:Cycle_activity_cycles_l3_miss[count]", np.mean, UP, 1.4),
    ("gpu", "numa_misplacement", "Perf:Mem_trans_retired_load_latency_gt_256[count]", np.mean, UP, 1.4),
    ("cpu", "numa_misplacement", "Perf:IPC[-]", np.mean, DOWN, 0.9),
    ("cpu", "numa_misplacement", "Perf:CacheUtilization[-]", np.mean, UP, 1.2),
    ("gpu", "single_queue_pair", "Turbostat:Busy%.-[%]", np.mean, UP, 1.07),
    ("gpu", "single_queue_pair", "NetworkInterStat_diff:rx_bytes.ib0[Bytes]", roughness, UP, 1.2),
    ("gpu", "single_queue_pair", "NetworkInterStat_diff:NetworkUtilization.ib0[%]", roughness, UP, 1.2),
    ("gpu", "single_queue_pair", "GPU: power.draw.0[W]", np.mean, DOWN, 0.97),
    ("gpu", "irq_imbalance", "Turbostat:IRQ.{core0}[count]", np.mean, UP, 2),
    ("gpu", "irq_imbalance", "Turbostat:Busy%.{core0}[%]", np.mean, UP, 1.1),
    ("gpu", "irq_imbalance", "CPU:CPU{core0}Utilization[%]", np.mean, UP, 1.1),
    ("cpu", "irq_imbalance", "Turbostat:IRQ.{core1}[count]", np.mean, UP, 2),
    ("cpu", "irq_imbalance", "Turbostat:Busy%.{core1}[%]", np.mean, UP, 1.05),
    ("gpu", "huge_pages_1g", "Memory:MemoryUtilization[%]", np.mean, UP, 1.5),
    ("gpu", "huge_pages_1g", "Memory:MemAvailable[kB]", np.mean, DOWN, 0.8),
    ("gpu", "huge_pages_1g", "Memory:HugePages_Total[count]", np.mean, UP, 100),
    ("cpu", "huge_pages_1g", "Memory:MemoryUtilization[%]", np.mean, UP, 1.15),
    ("gpu", "packet_loss", "NetworkTCPRetrans_diff:TcpRetransSegs[count]", np.mean, UP, 1.8),
    ("gpu", "packet_loss", "NetworkTCPRetrans_diff:TcpExtTCPLostRetransmit[count]", np.mean, UP, 2),
    ("gpu", "packet_loss", "NetworkInterStat_diff:NetworkUtilization.ib0[%]", roughness, UP, 1.1),
    ("cpu", "packet_loss", "NetworkTCPRetrans_diff:TcpRetransSegs[count]", np.mean, UP, 1.8),
    ("gpu", "thermal_throttling", "GPU: temperature.gpu.{gpu}[C]", np.max, UP, 1.1),
    ("gpu", "thermal_throttling", "GPU: clocks.sm.{gpu}[MHz]", np.min, DOWN, 0.97),
    ("gpu", "thermal_throttling", "GPU: power.draw.{gpu}[W]", np.mean, DOWN, 0.99),
    ("cpu", "thermal_throttling", "Turbostat:Bzy_MHz.-[MHz]", np.mean, DOWN, 0.8),
    ("cpu", "thermal_throttling", "Turbostat:PkgWatt.0[W]", np.mean, DOWN, 0.8),
    ("gpu", "pcie_downtraining", "GPU: pcie.link.width.current.{gpu}[count]", np.mean, DOWN, 0.3),
    ("gpu", "pcie_downtraining", "GPU: utilization.gpu.{gpu}[%]", np.mean, DOWN, 0.99),
    ("gpu", "memory_leak", "Memory:AnonPages[kB]", rate, UP, 5),
    ("gpu", "memory_leak", "Memory:MemoryUtilization[%]", np.max, UP, 1.05),
    ("gpu", "memory_leak", "Memory:MemAvailable[kB]", np.min, DOWN, 0.999),
    ("cpu", "memory_leak", "Meminfo_diff:AnonPages[kB]", np.mean, UP, 5),
    ("cpu", "memory_leak", "Meminfo_diff:MemAvailable[kB]", np.mean, DOWN, 0),
    ("gpu", "storage_burst", "Storage:sectors_read[count]", rate, UP, 3),
    ("gpu", "storage_burst", "Storage:time_spent_reading_(ms)[ms]", rate, UP, 3),
    ("gpu", "storage_burst", "Turbostat:Bzy_MHz.-[MHz]", np.mean, DOWN, 0.995),
    ("gpu", "storage_burst", "Memory:Committed_AS[kB]", np.mean, UP, 1.003),
    ("gpu", "storage_burst", "Turbostat:Busy%.{core0}[%]", np.mean, UP, 1.02),
    ("cpu", "storage_burst", "Storage_diff:sectors_read[count]", np.mean, UP, 3),
    ("cpu", "storage_burst", "Storage_diff:sectors_written[count]", np.mean, UP, 3),
    ("gpu", "gpu_straggler", "GPU: clocks.sm.{gpu}[MHz]", np.mean, DOWN, 0.8),
    ("gpu", "gpu_straggler", "GPU: power.draw.{gpu}[W]", np.mean, DOWN, 0.9),
    ("gpu", "gpu_straggler", "GPU: power.draw.{peer}[W]", np.mean, DOWN, 0.97),
    ("gpu", "gpu_held_idle", "GPU: utilization.gpu.0[%]", np.mean, DOWN, 0.9),
    ("gpu", "gpu_held_idle", "GPU: power.draw.1[W]", np.mean, DOWN, 0.9),
    ("gpu", "noisy_neighbour", "Turbostat:Busy%.{core0}[%]", np.mean, UP, 1.05),
    ("gpu", "noisy_neighbour", "CPU:CPU{core1}Utilization[%]", np.mean, UP, 1.05),
    ("gpu", "noisy_neighbour", "Memory:Committed_AS[kB]", np.mean, UP, 1.002),
    ("gpu", "noisy_neighbour", "Memory:Mapped[kB]", np.mean, UP, 1.002),
    ("cpu", "noisy_neighbour", "Turbostat:Busy%.{core2}[%]", np.mean, UP, 1.05),
    ("gpu", "sensor_stuck", "GPU: power.draw.{gpu}[W]", refreshed, DOWN, 0.1),
    ("cpu", "sensor_stuck", "Turbostat:Bzy_MHz.-[MHz]", refreshed, DOWN, 0.1),
    ("gpu", "sensor_missing", "GPU: utilization.gpu.{gpu}[%]", missing, UP, 0),
    ("cpu", "sensor_missing", "Turbostat:PkgWatt.0[W]", missing, UP, 0),
]  # fmt: skip
"""Platform, fault, metric, statistic, direction, and the least ratio to the healthy twin at middle intensity."""


def metric_of(platform, template, model="DEEPSEEK"):
    job = Job(platform, model, minutes=2, seed=5)
    gpu, cores = picks(job, 0)
    stands = {f"core{i}": job.machine.visible[core] for i, core in enumerate(cores)}
    return template.format(gpu=gpu, peer=1 - gpu, **stands)


@pytest.mark.parametrize("intensity", [0.5, 1.0])
@pytest.mark.parametrize("effect", EFFECTS, ids=lambda e: f"{e[0]}-{e[1]}-{e[2].split(':')[1]}")
def test_a_fault_moves_its_metrics_the_documented_way(effect, intensity):
    platform, fault, template, of, direction, ratio = effect
    found, healthy = moved(platform, fault, intensity, metric_of(platform, template), of)
    assert direction * (found - ratio * healthy) > 0


@pytest.mark.parametrize(("model", "phase"), [("Resnet18", "train"), ("Unheard", "infer")])
@pytest.mark.parametrize("effect", EFFECTS, ids=lambda e: f"{e[0]}-{e[1]}-{e[2].split(':')[1]}")
def test_the_direction_is_the_same_for_other_workloads(effect, model, phase):
    platform, fault, template, of, direction, _ = effect
    metric = metric_of(platform, template, model)
    found, healthy = (of(readings(platform, f, 0.5, model, phase)[metric][INSIDE]) for f in (fault, None))
    assert direction * (found - healthy) > 0


def test_every_fault_is_held_to_its_effects():
    assert {(p, f) for p, f, *_ in EFFECTS} == {(p, k.name) for k in FAULTS.values() for p in k.platforms}


@pytest.mark.parametrize(("platform", "fault"), sorted({(p, f) for p, f, *_ in EFFECTS}))
def test_more_intensity_is_more_effect(platform, fault):
    _, _, template, of, direction, _ = next(e for e in EFFECTS if e[:2] == (platform, fault))
    effect = [direction * moved(platform, fault, x, metric_of(platform, template), of)[0] for x in (0.1, 0.3, 0.6, 1.0)]
    assert effect == sorted(effect)
    assert effect[-1] > effect[0]


@pytest.mark.parametrize(
    ("platform", "fault"),
    [(platform, kind.name) for kind in FAULTS.values() if not kind.whole_run for platform in kind.platforms],
)
def test_before_a_fault_nothing_is_wrong_and_after_it_little(platform, fault):
    with_fault, healthy = readings(platform, fault), readings(platform)
    for metric, values in healthy.items():
        np.testing.assert_array_equal(with_fault[metric][BEFORE], values[BEFORE], err_msg=metric)
    for metric in culprits(Job(platform, "DEEPSEEK", seed=5), fault, 0):
        if fault == "thermal_throttling" or metric.startswith("Storage:"):
            continue  # heat goes slowly, and a counter since boot keeps what it has counted
        off, usual = with_fault[metric][AFTER], healthy[metric][AFTER]
        spread = np.concatenate([healthy[metric][BEFORE], usual]).std()
        assert abs(np.mean(off) - np.mean(usual)) <= 0.5 * spread, metric


def test_effects_spread_across_subsystems():
    """Reveal, section 6: at 1 % loss interrupts and clocks follow; a slow exchange starves the GPUs."""
    swing = moved("gpu", "packet_loss", 1.0, "Turbostat:IRQ.-[count]", np.std)
    assert swing[0] > 1.3 * swing[1]
    clock = moved("gpu", "packet_loss", 1.0, "Turbostat:Bzy_MHz.-[MHz]", np.std)
    assert clock[0] > 1.3 * clock[1]
    quiet = moved("gpu", "packet_loss", 0.2, "Turbostat:Bzy_MHz.-[MHz]", np.std)
    assert quiet[0] == pytest.approx(quiet[1], rel=0.05)
    again = moved("gpu", "single_queue_pair", 1.0, "NetworkTCPRetrans_diff:TcpRetransSegs[count]", np.mean)
    assert again[0] < again[1]  # flattened, although the exchange is slow
    other = metric_of("gpu", "Turbostat:IRQ.{core2}[count]")
    relieved = moved("gpu", "irq_imbalance", 1.0, other, np.mean)
    assert relieved[0] < relieved[1]


def test_loss_adds_no_order_of_magnitude():
    """Reveal, section 6: injected loss did not inflate retransmissions by orders of magnitude."""
    found, healthy = moved("gpu", "packet_loss", 1.0, "NetworkTCPRetrans_diff:TcpRetransSegs[count]", np.mean)
    assert 2 * healthy < found < 10 * healthy


def test_heat_follows_with_lag_and_stays_a_while():
    metric = metric_of("gpu", "GPU: temperature.gpu.{gpu}[C]")
    excess = readings("gpu", "thermal_throttling")[metric] - readings("gpu")[metric]
    first, middle, last = excess[540], excess[640], excess[900]
    assert first < middle < last
    assert 0 < excess[1000] < last


def test_a_leak_ends_with_its_process():
    excess = readings("gpu", "memory_leak")["Memory:AnonPages[kB]"] - readings("gpu")["Memory:AnonPages[kB]"]
    assert excess[915] > 1e6
    assert excess[935] == 0


def test_two_faults_at_a_time_add_up():
    faults = (Fault("memory_leak", 0.5, 52, 92), Fault("packet_loss", 0.5, 60, 80))
    _, (host,) = simulate_job(Job("gpu", "DEEPSEEK", minutes=2, seed=5, faults=faults))
    leak = readings("gpu", "memory_leak")["Memory:AnonPages[kB]"]
    np.testing.assert_array_equal(host["Memory:AnonPages[kB]"][:600], leak[:600])
    again = "NetworkTCPRetrans_diff:TcpRetransSegs[count]"
    assert host[again][610:790].mean() > 1.5 * readings("gpu")[again][610:790].mean()


def test_a_fault_strikes_the_host_it_is_given():
    job = Job("cpu", "BERTBASE", minutes=1, hosts=2, faults=(Fault("huge_pages_1g", 0.5, host=1),))
    _, (first, second) = simulate_job(job)
    assert first["Memory:HugePages_Total[count]"] == 0
    pages = second["Memory:HugePages_Total[count]"]
    assert pages > 50
    assert second["Memory:Hugetlb[kB]"] == pages * 2**20
    assert second["Memory:Hugepagesize[kB]"] == 2**20


@pytest.mark.parametrize("platform", ["gpu", "cpu"])
def test_no_memory_is_given_twice(platform):
    """Pages set aside, a leak and the job together still leave the kernel some memory."""
    faults = (Fault("huge_pages_1g", 1.0), Fault("memory_leak", 1.0, 20, 119))
    _, (host,) = simulate_job(Job(platform, "LLAMA", minutes=2, faults=faults))
    used = host["Memory:MemoryUtilization[%]"]
    assert 80 < used.max() < 100
    if platform == "gpu":
        assert host["Memory:MemFree[kB]"].min() > 0
