"""Our tables as frames of mlxtend, held against what its own functions make of the same baskets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from mlxtend.frequent_patterns import association_rules, fpgrowth

from infrascope_core.patterns.layouts import itemsets_as_mlxtend, rules_as_mlxtend
from infrascope_core.patterns.tables import ASSOCIATION_RULES, FREQUENT_ITEMSETS
from tests.core.patterns.generated import ITEMS, independent, mine, together


@pytest.fixture(scope="module")
def runs():
    return together(independent(12, 150, seed=3), "CPU_busy_HIGH", "Disk_write_LOW", 0.9, seed=4)


@pytest.fixture(scope="module")
def one_hot(runs) -> pd.DataFrame:
    return pd.DataFrame(np.concatenate([one.holds for one in runs]), columns=ITEMS.names)


def test_rules_have_the_columns_and_figures_of_mlxtend(runs, one_hot):
    ours = rules_as_mlxtend(mine(runs, min_gain=0.05))
    assert len(ours) > 1
    itemsets = fpgrowth(one_hot, min_support=0.001, use_colnames=True, max_len=3)
    theirs = association_rules(itemsets, num_itemsets=len(one_hot), metric="confidence", min_threshold=0)
    assert list(ours.columns[: len(theirs.columns)]) == list(theirs.columns)
    both = ours.merge(theirs, on=["antecedents", "consequents"], suffixes=("", "_theirs"), validate="1:1")
    assert len(both) == len(ours)
    for name in theirs.columns[2:]:
        np.testing.assert_allclose(both[name], both[f"{name}_theirs"], rtol=1e-9, err_msg=name)


def test_itemsets_go_on_into_its_functions(folder_itemsets, one_hot):
    ours = itemsets_as_mlxtend(folder_itemsets)
    theirs = fpgrowth(one_hot, min_support=0.05, use_colnames=True, max_len=3)
    assert list(ours.columns) == list(theirs.columns)
    assert dict(zip(ours["itemsets"], ours["support"], strict=True)) == pytest.approx(
        dict(zip(theirs["itemsets"], theirs["support"], strict=True))
    )
    made = association_rules(ours, num_itemsets=len(one_hot), metric="lift", min_threshold=1.2)
    expected = association_rules(theirs, num_itemsets=len(one_hot), metric="lift", min_threshold=1.2)
    assert len(made) == len(expected) > 0


@pytest.fixture(scope="module")
def folder_itemsets(runs):
    import polars as pl

    from infrascope_core.patterns.itemsets import frequent_itemsets
    from infrascope_core.patterns.settings import MiningSettings
    from infrascope_core.symbols.tables import BASKETS

    rows = [
        (
            one.run_key,
            one.host,
            window,
            item.rpartition("_")[0],
            one.start[window].item(),
            0.0,
            item.rpartition("_")[2],
            item,
        )
        for one in runs
        for window, held in enumerate(one.holds)
        for item, holds in zip(ITEMS.names, held, strict=True)
        if holds
    ]
    baskets = pl.DataFrame(rows, schema=BASKETS.schema, orient="row")
    return frequent_itemsets(baskets, "gpu", MiningSettings(min_support=0.05, max_size=3))


def test_empty_tables_give_empty_frames():
    assert list(itemsets_as_mlxtend(FREQUENT_ITEMSETS.empty()).columns) == ["support", "itemsets"]
    empty = rules_as_mlxtend(ASSOCIATION_RULES.empty())
    assert len(empty) == 0
    assert list(empty.columns[:2]) == ["antecedents", "consequents"]
