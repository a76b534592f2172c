"""Mined products of a data folder: itemsets and rules of every scope."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from infrascope_core.lake import fingerprint
from infrascope_core.patterns.itemsets import basket_count, frequent_itemsets
from infrascope_core.patterns.rules import association_rules
from infrascope_core.pipeline import Pipeline
from infrascope_core.tables import ASSOCIATION_RULES, BASKETS, FREQUENT_ITEMSETS, THRESHOLDS


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


def mine_itemsets(pipeline: Pipeline) -> pl.DataFrame:
    """Mine every scope: platforms, their phases, their workloads. Degenerate groups are left out."""
    runs = pipeline.accepted()
    thresholds = pipeline.lake.read(THRESHOLDS.name)
    telling = thresholds.filter(~pl.col("degenerate")).select("platform", "metric_group")
    parts = [FREQUENT_ITEMSETS.empty()]
    for scope, keys in scopes(runs).items():
        groups = telling.filter(pl.col("platform") == scope.split("/")[0])["metric_group"]
        baskets = _baskets(pipeline, keys).filter(pl.col("metric_group").is_in(groups.to_list()))
        parts.append(frequent_itemsets(baskets, scope, pipeline.settings.mining))
    itemsets = pl.concat(parts)
    pipeline.lake.write(itemsets, FREQUENT_ITEMSETS.name, made_from=_mined_from(pipeline))
    return itemsets


def mine_rules(pipeline: Pipeline) -> pl.DataFrame:
    """Draw the rules of every scope from its itemsets."""
    itemsets = pipeline.lake.read(FREQUENT_ITEMSETS.name)
    parts = [ASSOCIATION_RULES.empty()]
    for scope, keys in scopes(pipeline.accepted()).items():
        own = itemsets.filter(pl.col("scope") == scope)
        if own.height:
            total = basket_count(_baskets(pipeline, keys))
            parts.append(association_rules(own, total, pipeline.settings.mining, pipeline.recipe.subsystem_of))
    rules = pl.concat(parts)
    pipeline.lake.write(rules, ASSOCIATION_RULES.name, made_from=_mined_from(pipeline))
    return rules


def _baskets(pipeline: Pipeline, keys: Sequence[str]) -> pl.DataFrame:
    files = pipeline.files("baskets", keys)
    return pl.read_parquet(files, glob=False) if files else BASKETS.empty()
