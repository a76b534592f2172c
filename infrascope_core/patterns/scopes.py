"""Scopes of patterns: each platform, each of its phases, each of their workloads."""

from __future__ import annotations

import polars as pl

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.run_files.runs import run_file
from infrascope_core.store.folder import DataFolder


def scopes(runs: pl.DataFrame) -> dict[str, list[str]]:
    """Run keys by scope, from wide to narrow."""
    found: dict[str, list[str]] = {}
    for key, *path in runs.select("run_key", *WORKLOAD_KEY).sort("run_key").iter_rows():
        for depth in range(1, len(path) + 1):
            found.setdefault("/".join(path[:depth]), []).append(key)
    return {scope: found[scope] for scope in sorted(found, key=lambda s: (s.count("/"), s))}


def rules_of(folder: DataFolder, key: str) -> pl.DataFrame:
    """Rules of the narrowest scope of a run that has any: its workload, its phase, or its platform."""
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
