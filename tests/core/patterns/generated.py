"""Runs of items for tests: levels that hold for some windows, as those of real groups do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from infrascope_core.patterns.held import Held, Items
from infrascope_core.patterns.rules import association_rules
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tallies import Tally
from infrascope_core.recipes import MetricGroup, load_recipe

START = datetime(2026, 11, 1, 10)
GROUPS = ("CPU_busy", "Disk_write", "GPU_util", "Mem_dirty", "Net_rx")
ITEMS = Items.of_groups(GROUPS)
RECIPE = load_recipe("default").model_copy(
    update={
        "groups": tuple(
            MetricGroup(name=name, unit="%", subsystem=subsystem, patterns=("x",))
            for name, subsystem in zip(GROUPS, ("CPU", "Storage", "GPU", "Memory", "Network"), strict=True)
        )
    }
)


def levels(windows: int, rng: np.random.Generator, lasting: float = 8.0) -> np.ndarray:
    """A level 0, 1 or 2 per window; each stretch of one level lasts some windows."""
    changes = rng.random(windows) < 1 / lasting
    changes[0] = True
    drawn = rng.integers(0, 3, windows)
    return drawn[np.maximum.accumulate(np.where(changes, np.arange(windows), 0))]


def run(number: int, of_groups: Sequence[np.ndarray], workload: str = "W") -> Held:
    """A run of these levels, group by group in the order of the names; an hour after the one before."""
    start = START + timedelta(hours=number)
    holds = np.zeros((len(of_groups[0]), len(ITEMS.names)), dtype=bool)
    for group, level in zip(GROUPS, of_groups, strict=True):
        for number_of_level, name in enumerate(("LOW", "MED", "HIGH")):
            holds[:, ITEMS.names.index(f"{group}_{name}")] = level == number_of_level
    return Held(
        f"r{number:02d}",
        "h",
        workload,
        holds,
        [start + timedelta(seconds=i) for i in range(len(holds))],
        np.arange(len(holds)),
    )


def independent(runs: int, windows: int, seed: int) -> list[Held]:
    """Runs in which no group knows of another."""
    rng = np.random.default_rng(seed)
    return [run(i, [levels(windows, rng) for _ in GROUPS]) for i in range(runs)]


def together(runs: Sequence[Held], left: str, right: str, share: float, seed: int) -> list[Held]:
    """The same runs, but that in a share of the windows with the left item the right one holds as well."""
    rng = np.random.default_rng(seed)
    a, c = ITEMS.names.index(left), ITEMS.names.index(right)
    of_group = np.array([group == ITEMS.groups[c] for group in ITEMS.groups])
    changed = []
    for one in runs:
        holds = one.holds.copy()
        hit = holds[:, a] & (rng.random(len(holds)) < share)
        holds[np.ix_(hit, of_group)] = False
        holds[hit, c] = True
        changed.append(replace(one, holds=holds))
    return changed


def mine(runs: Sequence[Held], **changed: object) -> pl.DataFrame:
    """Their rules."""
    settings = MiningSettings(**{"exchanges": 999, **changed})
    tally = Tally.of(runs, ITEMS, settings.max_antecedent)
    return association_rules(tally, runs, "gpu", settings, RECIPE)
