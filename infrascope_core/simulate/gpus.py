"""The GPUs: what runs on them, and the power, heat and clocks that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrascope_core.simulate.activity import GPU_SYNC_LOAD, clock_cut, lag, phase_load
from infrascope_core.simulate.disturbance import LANES, Signal
from infrascope_core.simulate.machines import gpu
from infrascope_core.simulate.scene import Scene


@dataclass(frozen=True)
class Device:
    """A GPU over n samples.

    Attributes
    ----------
    running, memory_traffic : Signal
        Shares of the time in which a kernel runs and in which memory is read or written, 0..1.
    watts, celsius, clock_mhz, memory_mib : Signal
    lanes : Signal or float
        PCIe lanes; a number where they never change.
    """

    running: Signal
    memory_traffic: Signal
    watts: Signal
    celsius: Signal
    clock_mhz: Signal
    memory_mib: Signal
    lanes: Signal | float


def device(scene: Scene, index: int) -> Device:
    """One GPU.

    A kernel runs also while GPUs exchange or wait for each other: so utilization stays at 100 % and power does not.
    The GPU that a fault picks is slow, hot or badly connected; its peers wait for it.
    """
    part, profile, act, wrong, dt = gpu(), scene.profile, scene.activity, scene.wrong, scene.dt
    host = scene.of_host(f"gpu {index}")
    warmer, hungrier = float(host.normal(0, 0.8)), float(np.exp(host.normal(0, 0.012)))
    struck = index == wrong.gpu
    clock = clock_cut(wrong, phase_load(profile, act.phases), dt) * (1 - wrong.slow_gpu) if struck else np.float64(1)
    waiting = act.sync if struck else act.sync + act.lagging
    computing = act.compute if struck else act.compute - act.lagging
    starved = np.maximum(act.input - profile.input_share * act.working, 0) * (wrong.lanes < LANES)
    exposed = np.minimum(profile.exposed_input * act.input + starved * (1 if struck else 0.8), act.input)
    hidden = act.input - exposed
    on = 1 - wrong.gpu_hang
    drive = clock**1.7
    wander = scene.wander(f"gpu {index}", 0.012, 3.0)
    working = drive * (computing + 0.6 * hidden)
    forward = drive * act.forward
    load = profile.gpu_load * hungrier * wander * (working + GPU_SYNC_LOAD * waiting + 0.78 * forward)
    load = np.clip(load, 0, 1) * on
    loaded = lag(1 - scene.phase("startup") - scene.phase("ending"), 0.6, dt, 0.0)
    span = part.full_watt - part.idle_watt - part.context_watt
    watts = lag(part.idle_watt + part.context_watt * loaded + span * load, part.sensor_lag_s, dt)
    resistance = part.kelvin_per_watt * (1 + wrong.heat * struck)
    celsius = lag(part.ambient_c + warmer + resistance * watts, part.thermal_lag_s, dt)
    over = np.maximum(celsius - part.slowdown_c - 3, 0)
    full = lag(1 - scene.phase("startup") - 0.5 * scene.phase("loading") - scene.phase("ending"), 0.8, dt, 0.0)
    return Device(
        running=np.clip(computing + waiting + hidden + act.forward, 0, 1) * on,
        memory_traffic=profile.gpu_memory_load / 100 * wander * (working + 0.25 * waiting + 0.8 * forward) * on,
        watts=watts + 0.7 * scene.draws.stream(f"watts {index}").standard_normal(scene.samples),
        celsius=celsius - 0.85 * over,
        clock_mhz=np.where(loaded > 0.05, (part.boost_mhz - 45 * load) * clock, part.idle_mhz),
        memory_mib=np.minimum(
            4 + 330 * (loaded > 0.05) + 1000 * profile.gpu_memory_gb * np.maximum(full, 0), part.memory_mib - 300
        ),
        lanes=wrong.lanes if struck and (wrong.lanes < LANES).any() else float(LANES),
    )
