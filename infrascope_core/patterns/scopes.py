"""Scopes of patterns (each platform, each of its phases, each of their workloads), and what is mined in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.patterns.held import Held, Items, held
from infrascope_core.patterns.itemsets import RunBits
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


def mined_groups(folder: DataFolder, platform: str) -> list[str]:
    """Metric groups of a platform that carry information of their own: neither degenerate nor an alias; sorted."""
    informative = folder.lake.read_cached(THRESHOLDS).filter(~pl.col("degenerate"), platform=platform)
    return sorted(set(unaliased_groups(folder, platform)) & set(informative["metric_group"]))


def unaliased_groups(folder: DataFolder, platform: str) -> list[str]:
    """Metric groups of a platform but for those that say what another one says; sorted."""
    groups = folder.lake.read_cached(THRESHOLDS).filter(platform=platform)["metric_group"]
    return sorted(set(groups) - set(folder.lake.read_cached(GROUP_ALIASES).filter(platform=platform)["metric_group"]))


def held_by_run(folder: DataFolder, key: str, groups: Collection[str], items: Items, workload: str) -> list[Held]:
    """What a run and each of its hosts hold of these metric groups."""
    return held(folder.lake.read(BASKETS, key).filter(pl.col("metric_group").is_in(groups)), items, workload)


def bits_of_run(folder: DataFolder, key: str, groups: Collection[str], items: Items) -> RunBits:
    """The same as bits, the hosts one after the other."""
    none = np.zeros((0, len(items.names)), dtype=bool)
    return RunBits.of(np.concatenate([none, *(one.holds for one in held_by_run(folder, key, groups, items, ""))]))


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
