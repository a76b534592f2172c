"""Itemsets and rules in the layout of mlxtend, for those who go on with its functions or its notebooks.

What belongs here: one function a table. The figures are ours; those that only mlxtend names follow from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import pandas as pd


def itemsets_as_mlxtend(itemsets: pl.DataFrame) -> pd.DataFrame:
    """Itemsets as `mlxtend.frequent_patterns.fpgrowth(..., use_colnames=True)` returns them.

    Parameters
    ----------
    itemsets : polars.DataFrame
        Rows of the table `frequent_itemsets` of one scope.

    Returns
    -------
    pandas.DataFrame
        `support`, and `itemsets` as frozensets.
    """
    frame = itemsets.select("support", itemsets="items").to_pandas()
    frame["itemsets"] = [frozenset(items) for items in itemsets["items"]]
    return frame


def rules_as_mlxtend(rules: pl.DataFrame) -> pd.DataFrame:
    """Rules as `mlxtend.frequent_patterns.association_rules` returns them.

    Parameters
    ----------
    rules : polars.DataFrame
        Rows of the table `association_rules` of one scope.

    Returns
    -------
    pandas.DataFrame
        Its columns by its names; `antecedents` and `consequents` are frozensets. Our own columns follow, but for those
        that it has.
    """
    both, confidence = rules["support"].to_numpy(), rules["confidence"].to_numpy()
    left, right = both / confidence, confidence / rules["lift"].to_numpy()
    leverage = both - left * right
    with np.errstate(divide="ignore", invalid="ignore"):
        zhang = leverage / np.maximum(both * (1 - left), left * (right - both))
        certainty = (confidence - right) / (1 - right)
    own = {
        "antecedents": [frozenset(items) for items in rules["antecedent"]],
        "consequents": [frozenset(items) for items in rules["consequent"]],
        "antecedent support": left,
        "consequent support": right,
        "support": both,
        "confidence": confidence,
        "lift": rules["lift"].to_numpy(),
        "representativity": np.ones(rules.height),
        "leverage": leverage,
        "conviction": rules["conviction"].to_numpy(),
        "zhangs_metric": zhang,
        "jaccard": both / (left + right - both),
        "certainty": certainty,
        "kulczynski": (confidence + both / right) / 2,
    }
    frame = rules.drop("antecedent", "consequent", *(name for name in own if name in rules.columns)).to_pandas()
    for place, (name, values) in enumerate(own.items()):
        frame.insert(place, name, values)
    return frame
