"""One host's latent state: cores, memory, disk, fabric and GPUs, as they follow from the job and from what is wrong.

What belongs here: the state as a whole, and how well the cores get on with their memory. How a tool reports it is the
business of `instruments`. Orders of magnitude are those of docs/format.md, Typical values; directions are those of
Reveal, sections 5.6 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrascope_core.simulate.cores import Cores, cores
from infrascope_core.simulate.disturbance import Signal
from infrascope_core.simulate.fabric import Link, churn, connections, links, retransmitted
from infrascope_core.simulate.gpus import Device, device
from infrascope_core.simulate.memory import Disk, disk, huge_pages, memory_kb
from infrascope_core.simulate.scene import Scene


@dataclass(frozen=True)
class Pipeline:
    """How the cores' instructions flow.

    Attributes
    ----------
    ipc : Signal
        Instructions per cycle.
    stall, miss, branch_miss : Signal
        Share of the cycles that wait behind L3; of the cache references that miss; of the branches that do.
    latency : Signal
        Slow loads, in multiples of the usual.
    """

    ipc: Signal
    stall: Signal
    miss: Signal
    branch_miss: Signal
    latency: Signal


@dataclass(frozen=True)
class State:
    """The latent state of a host over n samples.

    Attributes
    ----------
    memory_kb : dict of str to Signal
        Levels by their name in /proc/meminfo.
    links : dict of str to Link
        By interface.
    retransmitted : Signal
        Segments expected to be sent again, per second.
    churn : Signal
        How far connections come and go beyond the usual.
    """

    cores: Cores
    pipeline: Pipeline
    memory_kb: dict[str, Signal]
    disk: Disk
    links: dict[str, Link]
    retransmitted: Signal
    churn: Signal
    connections: Signal
    devices: list[Device]
    huge_pages: int


def host_state(scene: Scene) -> State:
    """The state of a host, in the order of cause and effect."""
    traffic = disk(scene)
    interfaces = links(scene)
    fabric = interfaces[scene.here.fabric]
    return State(
        cores=cores(scene, traffic.load, fabric),
        pipeline=_pipeline(scene, traffic),
        memory_kb=memory_kb(scene, traffic),
        disk=traffic,
        links=interfaces,
        retransmitted=retransmitted(scene, fabric),
        churn=churn(scene),
        connections=connections(scene),
        devices=[device(scene, index) for index in range(scene.here.gpus)],
        huge_pages=huge_pages(scene),
    )


def _pipeline(scene: Scene, traffic: Disk) -> Pipeline:
    """Remote memory halves the instructions per cycle at worst and lets stalls rise; neighbours evict cache lines."""
    profile, act, remote = scene.profile, scene.activity, scene.wrong.remote
    others = scene.neighbour_share
    mix = 1 + 0.05 * scene.phase("evaluation") - 0.12 * scene.phase("startup") - 0.08 * scene.phase("checkpoint")
    ipc = profile.ipc * mix * (1 + 0.06 * (act.sync - act.input)) * scene.wander("ipc", 0.012, 6.0)
    rough = scene.wander("stall", 0.05, 3.0)
    stall = profile.stall_share * rough * (1 + 0.35 * act.input - 0.2 * act.sync)
    # an interpreter that imports and reads files branches and misses more than loops over tensors
    interpreted = scene.phase("startup") + 0.5 * scene.phase("loading") + 0.3 * scene.phase("checkpoint")
    cold = 1 + 0.4 * interpreted + 0.12 * act.input - 0.06 * act.sync - 0.05 * scene.phase("evaluation")
    return Pipeline(
        ipc=ipc * (1 - 0.5 * remote) * (1 - 0.9 * others) * (1 - 0.05 * traffic.load),
        stall=np.minimum(stall * (1 + 2.6 * remote + 2.2 * others), 0.85),
        miss=np.minimum(profile.miss_share * cold * (1 + 0.7 * remote + 2.5 * others) * rough**0.4, 0.95),
        branch_miss=profile.branch_miss_share * (1 + 0.9 * interpreted + 0.1 * act.input),
        latency=rough * (1 + 4.0 * remote + 0.5 * others),
    )
