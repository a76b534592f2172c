"""Mined products of a data folder: itemsets and rules of every scope."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from infrascope_core.lake import fingerprint
from infrascope_core.patterns.itemsets import basket_count, frequent_itemsets
from infrascope_core.patterns.rules import association_rules
from infrascope_core.pipeline import Pipeline
from infrascope_core.tables import ASSOCIATION_RULES, BASKETS, FREQUENT_ITEMSETS, THRESHOLDS, Table


def scopes(runs: pl.DataFrame) -> dict[str, list[str]]:
    """Run keys by scope: each platform, each of its phases, each of their workloads; from wide to narrow."""
    found: dict[str, list[str]] = {}
    for key, *path in runs.select("run_key", "platform", "phase", "workload").sort("run_key").iter_rows():
        for depth in range(1, len(path) + 1):
            found.setdefault("/".join(path[:depth]), []).append(key)
    return {scope: found[scope] for scope in sorted(found, key=lambda s: (s.count("/"), s))}


def is_mined(pipeline: Pipeline) -> bool:
    """Whether itemsets and rules were mined from just the baskets that are there now."""
    mined_from = _mined_from(pipeline)
    return all(pipeline.lake.made_from(t.name) == mined_from for t in (FREQUENT_ITEMSETS, ASSOCIATION_RULES))


def _mined_from(pipeline: Pipeline) -> str:
    """Fingerprint of all baskets of accepted runs."""
    keys = pipeline.accepted()["run_key"].to_list()
    return fingerprint(pipeline.settings.mining.digest(), *(pipeline.lake.made_from("baskets", k) or "" for k in keys))


def rules_of(pipeline: Pipeline, key: str) -> pl.DataFrame:
    """Rules of the narrowest scope of a run that has any: its workload, its phase, or its platform."""
    run, rules = pipeline.run_file(key), pipeline.lake.read_cached(ASSOCIATION_RULES.name)
    path = [str(run[name]) for name in ("platform", "phase", "workload")]
    for depth in range(len(path), 0, -1):
        own = rules.filter(pl.col("scope") == "/".join(path[:depth]))
        if own.height:
            return own
    return ASSOCIATION_RULES.empty()


def mine_itemsets(pipeline: Pipeline) -> pl.DataFrame:
    """Mine every scope: platforms, their phases, their workloads. Degenerate groups are left out."""
    mining = pipeline.settings.mining
    parts = [frequent_itemsets(baskets, scope, mining) for scope, baskets in _telling_baskets(pipeline)]
    return _keep(pipeline, FREQUENT_ITEMSETS, parts)


def mine_rules(pipeline: Pipeline) -> pl.DataFrame:
    """Draw the rules of every scope from its itemsets."""
    itemsets = pipeline.lake.read(FREQUENT_ITEMSETS.name)
    mining, subsystem_of = pipeline.settings.mining, pipeline.recipe.subsystem_of
    parts = [
        association_rules(itemsets.filter(scope=scope), basket_count(baskets), mining, subsystem_of)
        for scope, baskets in _telling_baskets(pipeline)
        if scope in itemsets["scope"]
    ]
    return _keep(pipeline, ASSOCIATION_RULES, parts)


def _telling_baskets(pipeline: Pipeline) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each scope with its baskets, without the groups whose levels say nothing on its platform."""
    telling = pipeline.lake.read(THRESHOLDS.name).filter(~pl.col("degenerate"))
    for scope, keys in scopes(pipeline.accepted()).items():
        files = pipeline.lake.files("baskets", keys)
        baskets = pl.read_parquet(files, glob=False) if files else BASKETS.empty()
        groups = telling.filter(platform=scope.split("/")[0])["metric_group"]
        yield scope, baskets.filter(pl.col("metric_group").is_in(groups.to_list()))


def _keep(pipeline: Pipeline, table: Table, parts: list[pl.DataFrame]) -> pl.DataFrame:
    mined = pl.concat([table.empty(), *parts])
    pipeline.lake.write(mined, table.name, made_from=_mined_from(pipeline))
    return mined
