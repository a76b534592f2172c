"""Levels per platform or per workload: what LOW and HIGH mean, and what patterns are found by either.

What belongs here: the comparison that the choice rests on (docs/adr/0032). Everything else is equal.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from benchmarks.evaluation import controls
from benchmarks.evaluation.controls import Mined
from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.patterns.rules import worth_reading
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.discretization import baskets, fit_thresholds
from infrascope_core.symbols.tables import CURATED_METRICS, GROUP_WINDOWS, THRESHOLDS

PLATFORM, WORKLOAD = "platform", "workload"


def compared(folder: DataFolder, platform: str, sets: int) -> dict[str, dict[str, float]]:
    """Figures of patterns, by what levels are fitted for."""
    found = {}
    for unit in (PLATFORM, WORKLOAD):
        mined = Mined.of(folder, platform, None if unit == PLATFORM else _per_workload(folder, platform))
        rules = mined.rules()
        shifted = controls.sets_with_rules(mined, sets, seed=1)
        halves = controls.confirmed(mined, 10, seed=4)
        found[unit] = {
            "entropy": _entropy_of_workload(mined),
            "rules": rules.height,
            "own": rules.filter(timing="own").height,
            "shown": worth_reading(rules, controls.SHOWN, ["own"]).height,
            "stored_shifted": shifted["stored"],
            "sets": sets,
            "confirmed": halves["confirmed"] / max(halves["rules"], 1),
            "planted_5": controls.found_planted(mined, sets, 0.5, seed=6)["found"] / sets,
            "planted_9": controls.found_planted(mined, sets, 0.9, seed=6)["found"] / sets,
        }
    return found


def _per_workload(folder: DataFolder, platform: str) -> dict[str, pl.DataFrame]:
    """Baskets by run key, with levels of each workload."""
    lake, runs = folder.lake, accepted(folder).filter(platform=platform).sort("run_key")
    groups = set(lake.read(THRESHOLDS).filter(platform=platform)["metric_group"])
    # a workload takes the place of a platform
    named = runs.select("run_key", platform=pl.concat_str(*WORKLOAD_KEY, separator="/"))
    keys = runs["run_key"].to_list()
    levels = fit_thresholds(
        lake.files(CURATED_METRICS, keys), lake.files(GROUP_WINDOWS, keys), named, recipe_of(folder), groups
    )
    return {key: baskets(lake.read(GROUP_WINDOWS, key), levels, workload) for key, workload in named.iter_rows()}


def _entropy_of_workload(mined: Mined) -> float:
    """Share of the entropy of a window's level that its workload explains, the mean over groups."""
    workloads = sorted({one.workload for one in mined.runs})
    shares = []
    for own in mined.columns():
        table = np.stack(
            [sum(one.holds[:, own].sum(axis=0) for one in mined.runs if one.workload == name) for name in workloads]
        ).astype(np.float64)
        joint = table / table.sum()
        level, workload = joint.sum(axis=0), joint.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(level * np.log(level))
            mutual = np.nansum(joint * np.log(joint / (workload[:, None] * level[None, :])))
        if entropy > 0:
            shares.append(mutual / entropy)
    return float(np.mean(shares))
