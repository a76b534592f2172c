"""Memory and disk, which hang together by the page cache: what is read stays, what is written waits as dirty pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrascope_core.simulate.activity import drift, lag
from infrascope_core.simulate.disturbance import Signal
from infrascope_core.simulate.scene import Scene

_FLUSH_S = 5.0
"""Dirty pages wait about this long before they are written (vm.dirty_writeback_centisecs)."""
_PULSE_SHARE = 0.1
_STEADY_MB_S = 50
"""About this flow keeps the flusher busy between its wake-ups."""
_HUGE_PAGE_KB = 2**20
_GUEST_COMMITTED_KB, _GUEST_ANON_KB, _GUEST_MAPPED_KB, _GUEST_TABLES_KB, _GUEST_STACK_KB = 130e3, 4e3, 2e3, 150, 16
"""What a small process of somebody else takes: a quarter of what stress-ng took where data/faults was recorded."""


@dataclass(frozen=True)
class Disk:
    """Bytes per second that are read from and written to the disk, that the job saves, and the disk's load, 0..1."""

    reading: Signal
    writing: Signal
    saving: Signal
    load: Signal


def disk(scene: Scene) -> Disk:
    """The disk's traffic: files at the start, batches while stepping, checkpoints via the page cache, and others'."""
    profile, act = scene.profile, scene.activity
    capacity = 1e6 * scene.here.disk_mb_s
    rough = np.exp(0.25 * scene.draws.stream("reading").standard_normal(scene.samples))
    reading = 1e6 * rough * (
        90 * scene.phase("startup")
        + profile.loading_mb_s * scene.phase("loading")
        + profile.read_mb_s * (0.3 * act.working + 0.7 * scene.fetching + scene.phase("evaluation"))
    )  # fmt: skip
    checkpoint = profile.checkpoint_mb / max(profile.checkpoint_s, 0.1) * scene.phase("checkpoint")
    logs = 0.25 * (scene.slots("log", 1.0) < 0.3) + 45 * (scene.slots("journal", 0.5) < 0.03)
    saving = 1e6 * (checkpoint + logs + 0.05)
    reading = reading + 0.55 * capacity * scene.wrong.foreign_io
    writing = _flushed(scene, lag(saving, _FLUSH_S, scene.dt, 0.0)) + 0.3 * capacity * scene.wrong.foreign_io
    fits = np.minimum(1, capacity / np.maximum(reading + writing, 1))
    return Disk(reading * fits, writing * fits, saving, (reading + writing) * fits / capacity)


def _flushed(scene: Scene, flow: Signal) -> Signal:
    """What the flusher writes of a flow of dirty pages: little in pulses, one per wake-up; much all the time."""
    moments = np.arange(scene.samples) * scene.dt / _FLUSH_S + scene.draws.stream("flusher").random()
    if scene.dt > _PULSE_SHARE * _FLUSH_S:
        return flow
    pulses = (moments % 1 < _PULSE_SHARE) / _PULSE_SHARE
    steady = flow / (flow + 1e6 * _STEADY_MB_S)
    written: Signal = flow * (steady + (1 - steady) * pulses)
    return written


def huge_pages(scene: Scene) -> int:
    """Pages of 1 GiB that are set aside; the job still fits beside them."""
    if not scene.wrong.huge_pages:
        return 0
    spare_kb = 0.9 * scene.here.memory_kb - 1.1e6 * scene.profile.host_memory_gb
    return max(1, round(scene.wrong.huge_pages * spare_kb / _HUGE_PAGE_KB))


def memory_kb(scene: Scene, traffic: Disk) -> dict[str, Signal]:
    """Levels by their name in /proc/meminfo, in kB."""
    profile, act, wrong, dt = scene.profile, scene.activity, scene.wrong, scene.dt
    total = float(scene.here.memory_kb)
    base = total * (0.018 + 0.004 * scene.of_host("memory").random())
    ramp = lag(1 - 0.8 * scene.phase("startup") - 0.75 * scene.phase("ending"), 3.5, dt, 0.05)
    breathing = 0.0006 * drift(scene.draws.stream("heap"), scene.samples, 2.0, dt)
    held = profile.host_memory_gb * 1e6 * ramp * (1 + breathing * act.working + 0.02 * scene.phase("evaluation"))
    huge = float(huge_pages(scene) * _HUGE_PAGE_KB)
    anon = np.minimum(base + held + wrong.leak_kb + _GUEST_ANON_KB * wrong.guests, 0.95 * total - huge)
    read = np.minimum(np.cumsum(traffic.reading) * dt / 1e3, 1e3 * profile.dataset_mb)
    cache = 0.03 * total + read + 0.2 * np.cumsum(traffic.saving) * dt / 1e3
    cache = np.minimum(cache, 0.9 * np.maximum(0.985 * total - anon - huge, 1e5))
    foreign = 9e4 * wrong.foreign_io * lag(wrong.foreign_io, 2.0, dt)
    slab = 0.006 * total + 0.02 * cache
    kernel = 18_000 + 40 * profile.connections + 4e3 * act.working + _GUEST_STACK_KB * wrong.guests
    pages = 40 * np.abs(scene.draws.stream("pages").standard_normal(scene.samples))
    anon = anon + pages
    free = total - anon - cache - slab - kernel - huge
    active_file = 0.35 * cache
    pinned = 11_000 + 2e5 * ramp * scene.wander("pinned", 0.008, 6.0)
    return {
        "MemFree": free,
        "MemAvailable": free + 0.92 * cache + 0.6 * slab,
        "Buffers": 3200 + 0.0008 * cache,
        "Cached": cache,
        "Active": 0.92 * anon + active_file,
        "Active(anon)": 0.92 * anon,
        "Active(file)": active_file,
        "Inactive": 0.08 * anon + cache - active_file,
        "Inactive(anon)": 0.08 * anon,
        "Inactive(file)": cache - active_file,
        "AnonPages": anon,
        "AnonHugePages": np.floor(0.4 * anon / 2048) * 2048,
        "Committed_AS": 1.7 * anon + 2.4e6 + _GUEST_COMMITTED_KB * wrong.guests,
        "Dirty": _FLUSH_S * lag(traffic.saving, _FLUSH_S, dt, 0.0) / 1e3 + foreign,
        "Writeback": 0.03 * traffic.writing / 1e3,
        "Mapped": 480_000 + 9e5 * ramp + _GUEST_MAPPED_KB * wrong.guests,
        "Shmem": 52_000 + 1.1e6 * ramp * (1 + 0.02 * act.input),
        "Slab": slab,
        "SReclaimable": 0.65 * slab,
        "KReclaimable": 0.65 * slab,
        "SUnreclaim": 0.35 * slab,
        "KernelStack": kernel,
        "PageTables": 9_000 + 0.0022 * anon + _GUEST_TABLES_KB * wrong.guests,
        "VmallocUsed": 310_000 + 200 * np.floor(10 * ramp),
        "Unevictable": pinned + 16_000 * ramp * wrong.remote,  # pages pinned on the wrong node (section 5.6)
        "Mlocked": pinned - 4_000,
    }
