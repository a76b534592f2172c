"""Association rules between items of frequent itemsets.

What belongs here: rules, their measures, and the choice of those worth a person's time.
Measures follow Agrawal, Imielinski and Swami (SIGMOD 1993) and `mlxtend.frequent_patterns.association_rules`;
the test is Fisher's, one-sided, with Benjamini and Hochberg's correction over the scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, hypergeom

from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES

IMPROVEMENT = 0.05
"""Confidence that a longer antecedent must add to be worth reading (Bayardo et al. 1999, minimum improvement)."""
SIGNIFICANT = 0.05
"""Largest q-value of a rule that is shown to people."""

_SEPARATOR = "\x1f"


def association_rules(
    itemsets: pl.DataFrame, baskets: int, settings: MiningSettings, subsystem_of: Mapping[str, str]
) -> pl.DataFrame:
    """Draw every rule of at least `min_confidence` from one scope's frequent itemsets.

    Parameters
    ----------
    itemsets : polars.DataFrame
        Table `frequent_itemsets` of one scope, with all subsets of its itemsets, as the miner gives it.
    baskets : int
        Baskets of the scope, the denominator of the supports.
    settings : MiningSettings
        `min_confidence`.
    subsystem_of : Mapping of str to str
        Subsystem by metric group; a group that is not named is `Other`.

    Returns
    -------
    polars.DataFrame
        Table `association_rules`, by falling confidence, then lift, then support, then the sides' names.

    Notes
    -----
    p is the chance of at least this many common baskets if the sides were independent and the baskets a
    random sample (upper tail of the hypergeometric distribution). Neighbouring windows resemble one
    another, so p and q are too small in absolute terms; they rank and sieve. q is corrected over the rules
    that are returned.
    """
    keyed = itemsets.with_columns(key=pl.col("items").list.join(_SEPARATOR))
    counts = keyed.select("key", "count")
    splits = [
        keyed.filter(pl.col("size") == size).select(
            "scope",
            "count",
            "runs",
            antecedent=pl.col("items").list.gather(list(left)),
            consequent=pl.col("items").list.gather([i for i in range(size) if i not in left]),
        )
        for size in keyed["size"].unique().sort()
        for width in range(1, size)
        for left in combinations(range(size), width)
    ]
    if not splits:
        return ASSOCIATION_RULES.empty()
    rules = pl.concat(splits).with_columns(
        left=pl.col("antecedent").list.join(_SEPARATOR), right=pl.col("consequent").list.join(_SEPARATOR)
    )
    for side in ("left", "right"):
        rules = rules.join(counts.select(pl.col("key").alias(side), pl.col("count").alias(f"n_{side}")), on=side)
    rules = rules.filter(pl.col("count") / pl.col("n_left") >= settings.min_confidence)
    if rules.is_empty():
        return ASSOCIATION_RULES.empty()
    p_values = _fisher(rules.select("count", "n_left", "n_right"), baskets)
    support, share_left, share_right = (pl.col(c) / baskets for c in ("count", "n_left", "n_right"))
    confidence = pl.col("count") / pl.col("n_left")
    subsystems = [pl.col(side).list.eval(_subsystem(subsystem_of)) for side in ("antecedent", "consequent")]
    return (
        rules.with_columns(
            support=support,
            confidence=confidence,
            lift=confidence / share_right,
            leverage=support - share_left * share_right,
            conviction=pl.when(pl.col("count") == pl.col("n_left"))
            .then(pl.lit(float("inf")))
            .otherwise((1 - share_right) / (1 - confidence)),
            p_value=pl.Series(p_values),
            q_value=pl.Series(false_discovery_control(p_values)),
            cross_subsystem=subsystems[0].list.set_intersection(subsystems[1]).list.len() == 0,
        )
        .sort("confidence", "lift", "count", "left", "right", descending=[True, True, True, False, False])
        .select(ASSOCIATION_RULES.schema.names())
        .cast(ASSOCIATION_RULES.schema)
    )


def strongest(rules: pl.DataFrame, limit: int, cross_subsystem: bool = True) -> pl.DataFrame:
    """Choose the few rules that a person should read first.

    Parameters
    ----------
    rules : polars.DataFrame
        Table `association_rules`, one scope or several.
    limit : int
        Most rules returned, per scope.
    cross_subsystem : bool
        Only rules whose sides share no subsystem: that the GPU's power follows its load is not news.

    Returns
    -------
    polars.DataFrame
        The same columns. Significant (q < 0.05) rules of positive association (lift > 1) with one item on
        the right, all at least `IMPROVEMENT` better than a part of their antecedent, by falling leverage: lift
        favours the rare, support and confidence the trivially ubiquitous; leverage counts the baskets
        beyond chance. A pair of metric groups on opposite sides is shown once, so mirror images and
        variations of one rule do not crowd out the rest.
    """
    single = rules.filter(pl.col("consequent").list.len() == 1).with_columns(
        left=pl.col("antecedent").list.join(_SEPARATOR), right=pl.col("consequent").list.first()
    )
    candidates = single.filter(
        (pl.col("q_value") < SIGNIFICANT)
        & (pl.col("lift") > 1)
        & (pl.col("cross_subsystem") if cross_subsystem else pl.lit(True))
    )
    ranked = _non_redundant(candidates, single).sort(
        "scope",
        "leverage",
        pl.col("antecedent").list.len(),
        "confidence",
        "left",
        "right",
        descending=[False, True, False, True, False, False],
    )
    shown: dict[str, set[frozenset[str]]] = {}
    taken: dict[str, int] = {}
    keep = []
    for row, (scope, antecedent, right) in enumerate(ranked.select("scope", "antecedent", "right").iter_rows()):
        seen = shown.setdefault(scope, set())
        pairs = {frozenset((_group(item), _group(right))) for item in antecedent}
        if taken.get(scope, 0) < limit and not pairs & seen:
            keep.append(row)
            seen |= pairs
            taken[scope] = taken.get(scope, 0) + 1
    return ranked[keep].select(rules.columns)


def _non_redundant(candidates: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    """Leave out rules for which a part of the antecedent alone gives as much confidence, or almost."""
    known = rules.select("scope", "left", "right", part_confidence="confidence")
    longest = candidates.select(pl.col("antecedent").list.len().max()).item() or 0
    redundant = [
        candidates.filter(pl.col("antecedent").list.len() == size)
        .with_columns(part=pl.col("antecedent").list.gather(list(part)).list.join(_SEPARATOR))
        .join(known, left_on=["scope", "part", "right"], right_on=["scope", "left", "right"])
        .filter(pl.col("part_confidence") > pl.col("confidence") - IMPROVEMENT)
        .select("scope", "left", "right")
        for size in range(2, longest + 1)
        for width in range(1, size)
        for part in combinations(range(size), width)
    ]
    if not redundant:
        return candidates
    return candidates.join(pl.concat(redundant), on=["scope", "left", "right"], how="anti")


def _fisher(counts: pl.DataFrame, baskets: int) -> NDArray[np.float64]:
    """Upper tail of the hypergeometric distribution, computed once per distinct triple of counts."""
    triples, place = np.unique(counts.to_numpy(), axis=0, return_inverse=True)
    both, left, right = triples.T
    p = np.clip(hypergeom.sf(both - 1, baskets, right, left), 0.0, 1.0)
    return np.asarray(p[place.ravel()], dtype=np.float64)


def _group(item: str) -> str:
    """The metric group of an item `GROUP_LEVEL`."""
    return item.rpartition("_")[0]


def _subsystem(subsystem_of: Mapping[str, str]) -> pl.Expr:
    """Subsystem of each element of a list of items."""
    group = pl.element().str.replace(r"_[^_]*$", "")
    if not subsystem_of:
        return pl.lit("Other")
    return group.replace_strict(list(subsystem_of), list(subsystem_of.values()), default="Other")
