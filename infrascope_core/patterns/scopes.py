"""Scopes of patterns (each platform, each of its phases, each of their workloads), and what is mined in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np
import polars as pl

from infrascope_core.contract import HOST_KEY, WORKLOAD_KEY
from infrascope_core.patterns.held import Held, Items, Packed, held
from infrascope_core.patterns.itemsets import RunBits
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, GROUP_ALIASES
from infrascope_core.run_files.runs import run_file
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS


def scopes(runs: pl.DataFrame) -> dict[str, list[str]]:
    """Run keys by scope, from wide to narrow."""
    found: dict[str, list[str]] = {}
    for key, *path in runs.select("run_key", *WORKLOAD_KEY).sort("run_key").iter_rows():
        for depth in range(1, len(path) + 1):
            found.setdefault("/".join(path[:depth]), []).append(key)
    return {scope: found[scope] for scope in sorted(found, key=lambda s: (s.count("/"), s))}


def same_scopes(runs_of: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Scopes that hold the same runs as a wider one, with the widest such: they are not mined again.

    Parameters
    ----------
    runs_of : mapping
        Result of `scopes`.
    """
    found: dict[str, str] = {}
    for scope, keys in runs_of.items():
        parent = scope.rpartition("/")[0]
        if parent and list(runs_of[parent]) == list(keys):
            found[scope] = found.get(parent, parent)
    return found


def runs_tested(runs: pl.DataFrame, settings: MiningSettings) -> dict[str, list[str]]:
    """Run keys on which rules and orders of each scope are tested, in order: all, or a seeded choice.

    Whether a run is chosen before another one of its workload depends on nothing but both keys, so that a new run
    changes little, and what is chosen for a wide scope is, as a rule, chosen for a narrow one as well.

    Parameters
    ----------
    runs : polars.DataFrame
        Accepted runs.
    settings : MiningSettings
        `max_runs`, `max_runs_of_workloads`, `min_runs`, `random_state`.
    """
    workload = {key: "/".join(path) for key, *path in runs.select("run_key", *WORKLOAD_KEY).iter_rows()}
    found, narrow = {}, set(workload.values())
    share = max(settings.min_runs, settings.max_runs_of_workloads // max(len(narrow), 1))
    for scope, keys in scopes(runs).items():
        most = share if scope in narrow else settings.max_runs
        found[scope] = keys if len(keys) <= most else sorted(_in_turn(keys, workload, settings.random_state)[:most])
    return found


def chosen_runs(keys: Sequence[str], most: int, seed: int) -> list[str]:
    """At most so many of the run keys, a seeded choice in which a new run changes little; sorted."""
    return sorted(sorted(keys, key=lambda key: _drawn(key, seed))[:most])


def _in_turn(keys: Sequence[str], workload: Mapping[str, str], seed: int) -> list[str]:
    """Runs of one workload after the other, in a drawn order: the first of each, then the second of each, and so on."""
    drawn: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda key: _drawn(key, seed)):
        drawn.setdefault(workload[key], []).append(key)
    return [key for each in zip_longest(*drawn.values()) for key in each if key is not None]


def _drawn(key: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


def mined_groups(folder: DataFolder, platform: str) -> list[str]:
    """Metric groups of a platform that carry information of their own: neither degenerate nor an alias; sorted."""
    informative = folder.lake.read_cached(THRESHOLDS).filter(~pl.col("degenerate"), platform=platform)
    return sorted(set(unaliased_groups(folder, platform)) & set(informative["metric_group"]))


def unaliased_groups(folder: DataFolder, platform: str) -> list[str]:
    """Metric groups of a platform but for those that say what another one says; sorted."""
    groups = folder.lake.read_cached(THRESHOLDS).filter(platform=platform)["metric_group"]
    return sorted(set(groups) - set(folder.lake.read_cached(GROUP_ALIASES).filter(platform=platform)["metric_group"]))


def all_items(folder: DataFolder, platform: str) -> Items:
    """Items of all metric groups of a platform, those that are not mined included."""
    thresholds = folder.lake.read_cached(THRESHOLDS)
    return folder.once(
        ("items", folder.lake.version(THRESHOLDS), platform),
        lambda: Items.of_groups(thresholds.filter(platform=platform)["metric_group"]),
    )


def held_by_run(folder: DataFolder, key: str, items: Items) -> list[Held]:
    """What a run and each of its hosts hold of these items; windows without any of their metric groups are left out.

    It is remembered with the folder, as bits: all kinds of patterns ask for it.
    """
    run = run_file(folder, key)
    everything, workload = all_items(folder, str(run["platform"])), "/".join(str(run[name]) for name in WORKLOAD_KEY)

    def read() -> list[Packed] | None:
        rows = folder.lake.read(BASKETS, key, [*HOST_KEY, "window", "start_ts", "item"])
        if rows["item"].null_count():
            return None  # windows without an item are not told by items
        return [Packed.of(one, everything) for one in held(rows, everything, workload)]

    known = folder.once(("held", key, folder.lake.made_from(BASKETS, key), everything), read)
    if known is None:
        rows = folder.lake.read(BASKETS, key).filter(pl.col("metric_group").is_in(set(items.groups)))
        return held(rows, items, workload)
    of_items = (one.of_items(items) for one in known)
    return [one for one in of_items if len(one.holds)]


def bits_of_run(folder: DataFolder, key: str, items: Items) -> RunBits:
    """The same as bits, the hosts one after the other."""
    none = np.zeros((0, len(items.names)), dtype=bool)
    return RunBits.of(np.concatenate([none, *(one.holds for one in held_by_run(folder, key, items))]))


def rules_of(folder: DataFolder, key: str) -> pl.DataFrame:
    """Rules of the narrowest scope of a run that has any: its workload, its phase, or its platform.

    A scope that holds the same runs as a wider one has none of its own; those of the wider one are its rules.
    """
    run, rules = run_file(folder, key), folder.lake.read_cached(ASSOCIATION_RULES)
    path = [str(run[name]) for name in WORKLOAD_KEY]
    what = ("rules", folder.lake.version(ASSOCIATION_RULES), *path)
    return folder.once(what, lambda: _narrowest(rules, path))


def _narrowest(rules: pl.DataFrame, path: list[str]) -> pl.DataFrame:
    for depth in range(len(path), 0, -1):
        own = rules.filter(pl.col("scope") == "/".join(path[:depth]))
        if own.height:
            return own
    return ASSOCIATION_RULES.empty()
