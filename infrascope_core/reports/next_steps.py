"""What to look at first, by kind of anomaly. The advice itself is data: `next_steps.yaml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


def next_step(metrics: Sequence[str], subsystems: Sequence[str], retransmissions: str | None) -> str:
    """What to look at first, by the first pattern of `next_steps.yaml` that fits, else by subsystem.

    Parameters
    ----------
    metrics, subsystems : sequence of str
        Those of an episode, by falling evidence.
    retransmissions : str, optional
        How they were judged.
    """
    advice = _advice()
    for pattern in advice["patterns"]:
        wanted = pattern.get("retransmissions")
        if (
            (wanted is None or wanted == retransmissions)
            and set(subsystems[:1]) <= set(pattern["first"])
            and all(any(re.search(p, m, re.IGNORECASE) for m in metrics) for p in pattern.get("metrics", ()))
        ):
            return str(pattern["step"])
    return str(advice["subsystems"][subsystems[0] if subsystems else "Other"])


def step_without_episode(case: str) -> str:
    """What to do about a run without an episode: `normal`, `limited`, `differs`, `deviation` or `not_judged`."""
    return str(_advice()[case])


@cache
def _advice() -> dict[str, Any]:
    advice: dict[str, Any] = yaml.safe_load((files(__package__) / "next_steps.yaml").read_text(encoding="utf-8"))
    return advice
