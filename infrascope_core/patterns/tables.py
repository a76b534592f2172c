"""The tables of the stage: itemsets and rules."""

from __future__ import annotations

from infrascope_core.contract import FLAG, INT, REAL, SCOPE, TEXTS, Column, Table

FREQUENT_ITEMSETS = Table(
    "frequent_itemsets",
    "Sets of items that occur together in at least the minimum share of a scope's baskets.",
    ("scope", "items"),
    (
        SCOPE,
        Column("items", TEXTS, "items, sorted", of=("baskets.item",)),
        Column("size", INT, "number of items"),
        Column("count", INT, "baskets that hold all of them", of=("baskets.item",)),
        Column("support", REAL, "count / baskets of the scope", of=("baskets.item",)),
        Column("runs", INT, "runs in which it occurs", of=("baskets.run_key",)),
        Column("closed", FLAG, "no superset has the same count"),
        Column("maximal", FLAG, "no superset is frequent"),
    ),
)
ASSOCIATION_RULES = Table(
    "association_rules",
    "Rules between items, with the standard measures and a false-discovery rate per scope.",
    ("scope", "antecedent", "consequent"),
    (
        SCOPE,
        Column("antecedent", TEXTS, "items on the left, sorted", of=("frequent_itemsets.items",)),
        Column("consequent", TEXTS, "items on the right, sorted", of=("frequent_itemsets.items",)),
        Column("support", REAL, "share of baskets with both sides", of=("frequent_itemsets.support",)),
        Column("confidence", REAL, "support / support of the antecedent", of=("frequent_itemsets.count",)),
        Column("lift", REAL, "confidence / support of the consequent", of=("frequent_itemsets.count",)),
        Column("leverage", REAL, "support minus what independence gives", of=("frequent_itemsets.count",)),
        Column(
            "conviction",
            REAL,
            "(1 - support of consequent) / (1 - confidence); infinite if confidence is 1",
            of=("frequent_itemsets.count",),
        ),
        Column("runs", INT, "runs in which both sides occur together"),
        Column("p_value", REAL, "one-sided Fisher exact test on the baskets", of=("frequent_itemsets.count",)),
        Column("q_value", REAL, "Benjamini-Hochberg within the scope"),
        Column("cross_subsystem", FLAG, "the two sides share no subsystem"),
    ),
)
