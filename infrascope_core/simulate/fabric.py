"""The network: bytes on each interface, segments sent again, and how far connections come and go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrascope_core.simulate.activity import FUNNEL_DELAY, drift
from infrascope_core.simulate.disturbance import Signal
from infrascope_core.simulate.scene import Scene

_CHATTER_PER_S = 0.8
"""On a host with one link, packets that have nothing to do with the job, per second."""


@dataclass(frozen=True)
class Link:
    """A network interface: bytes per second received and sent."""

    received: Signal
    sent: Signal


def links(scene: Scene) -> dict[str, Link]:
    """Traffic by interface: the job's exchanges on the fabric, files and chatter on the management link.

    A single queue pair sends at the full rate or not at all, a share of the time each; loss makes the flow jitter.
    """
    here, profile, act, wrong = scene.here, scene.profile, scene.activity, scene.wrong
    spread = 0.06 + 0.45 * np.minimum(wrong.loss_percent, 1) ** 0.5
    wave = np.exp(spread * scene.draws.stream("fabric").standard_normal(scene.samples) - spread**2 / 2)
    open_share = 1 / (1 + FUNNEL_DELAY * wrong.funnel)
    wave = wave * (scene.slots("queue", 0.25) <= open_share) / open_share / (1 + 0.05 * wrong.loss_percent)
    flow = 1e6 * wave * (profile.sync_mb_s * act.exchange + profile.steady_mb_s * act.compute)
    if here.gpus:  # weights come from the other host
        flow = flow + 0.4e6 * profile.sync_mb_s * scene.phase("loading")
    flow = np.minimum(flow, 0.97 * here.fabric_gbit / 8 * 1e9)
    skew = scene.grain("skew", 0.015)
    chatter = 1e3 * profile.management_kb_s * scene.draws.stream("chatter").gamma(1.6, 1 / 1.6, scene.samples)
    if len(here.interfaces) == 1:  # silent between exchanges but for a packet now and then
        often = -np.expm1(-_CHATTER_PER_S * scene.dt)
        talk = chatter * (scene.draws.stream("rare").random(scene.samples) < often) / often
        return {here.fabric: Link(flow + talk, flow * skew + 0.7 * talk)}
    files = 1 + 6 * scene.phase("startup") + 20 * scene.phase("loading")
    return {
        here.interfaces[0]: Link(chatter * files, 0.35 * chatter * files**0.6),
        here.fabric: Link(flow, flow * skew),
    }


def retransmitted(scene: Scene, fabric: Link) -> Signal:
    """Expected segments sent again per second: bursts of the job's own traffic, and what loss adds to them.

    Loss adds no orders of magnitude; it makes them burstier and ties them to the fabric's jitter (Reveal, section 6).
    """
    profile, wrong = scene.profile, scene.wrong
    traffic = np.minimum(3e-6 * fabric.sent / profile.sync_mb_s, 2)
    bursts = 6.0 * (scene.slots("intrinsic", 1.5) < 1 / 6)
    own = profile.retransmissions_per_s * (0.3 + 0.7 * bursts) * traffic
    volleys = 4.0 * (scene.slots("volleys", 0.3) < 0.25)
    added = 18 * wrong.loss_percent**0.6 * volleys * (0.25 + traffic) * scene.activity.working
    choked = 1 - 0.6 * wrong.funnel  # a queue that is full sends less again (section 6: retransmissions flatten)
    return own * choked + added


def churn(scene: Scene) -> Signal:
    """How far connections are opened and closed beyond the usual; seen from 0.2 % loss on (Reveal, section 6)."""
    torn: Signal = np.clip((scene.wrong.loss_percent - 0.1) * 4, 0, 1.5)
    return torn


def connections(scene: Scene) -> Signal:
    """Open connections of the host."""
    coming_and_going = 1.3 * drift(scene.draws.stream("connections"), scene.samples, 8.0, scene.dt)
    return (
        scene.profile.connections * (1 - 0.7 * scene.phase("startup") - 0.7 * scene.phase("ending")) + coming_and_going
    )
