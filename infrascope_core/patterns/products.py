"""What is mined over all runs: frequent itemsets and association rules of every scope."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from infrascope_core.patterns.itemsets import basket_count, frequent_itemsets
from infrascope_core.patterns.rules import association_rules
from infrascope_core.patterns.scopes import scopes
from infrascope_core.patterns.tables import ASSOCIATION_RULES, FREQUENT_ITEMSETS
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Product, Scope, Tick
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS

_STAGE = "patterns"


def _frequent_itemsets(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    mining = folder.settings.mining
    found = [frequent_itemsets(baskets, scope, mining) for scope, baskets in _informative_baskets(folder, tick)]
    return pl.concat([FREQUENT_ITEMSETS.empty(), *found])


def _association_rules(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    itemsets = folder.lake.read(FREQUENT_ITEMSETS)
    mining, subsystem_of = folder.settings.mining, recipe_of(folder).subsystem_of
    mined = set(itemsets["scope"].unique())
    found = [
        association_rules(itemsets.filter(scope=scope), basket_count(baskets), mining, subsystem_of)
        for scope, baskets in _informative_baskets(folder, tick)
        if scope in mined
    ]
    return pl.concat([ASSOCIATION_RULES.empty(), *found])


def _informative_baskets(folder: DataFolder, tick: Tick) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each scope with its baskets, without the degenerate groups of its platform."""
    informative = folder.lake.read(THRESHOLDS).filter(~pl.col("degenerate"))
    runs_of = scopes(accepted(folder))
    for done, (scope, keys) in enumerate(runs_of.items(), start=1):
        groups = informative.filter(platform=scope.split("/")[0])["metric_group"]
        yield scope, folder.lake.read_all(BASKETS, keys).filter(pl.col("metric_group").is_in(groups.to_list()))
        tick(done, len(runs_of))


PRODUCTS = (
    Product(
        _STAGE,
        (FREQUENT_ITEMSETS,),
        Scope.MINED,
        _frequent_itemsets,
        inputs=(BASKETS, THRESHOLDS),
        settings=("mining",),
        libraries=("numpy",),
        decisions=(7,),
    ),
    Product(
        _STAGE,
        (ASSOCIATION_RULES,),
        Scope.MINED,
        _association_rules,
        inputs=(FREQUENT_ITEMSETS, BASKETS, THRESHOLDS),
        settings=("mining",),
        depends_on=lambda folder, _: recipe_of(folder).model_dump_json(),
        libraries=("numpy", "scipy"),
        decisions=(7,),
    ),
)
