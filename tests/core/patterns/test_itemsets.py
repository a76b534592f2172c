"""Frequent itemsets: hand-made baskets, mlxtend as the oracle, and the laws of support."""

import time
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from infrascope_core.patterns import itemsets
from infrascope_core.patterns.itemsets import BasketBits, RunBits, frequent_itemsets
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import FREQUENT_ITEMSETS
from infrascope_core.symbols.tables import BASKETS


def mining(**changed) -> MiningSettings:
    return MiningSettings(**{"min_baskets": 1, "min_support": 0.5, **changed})


def rows(*baskets: tuple[str, str]) -> pl.DataFrame:
    """Baskets given as (run, items), an item a letter; a window number for each."""
    return pl.DataFrame(
        [
            {"run_key": run, "host": "h", "window": window, "metric_group": item, "item": item}
            for window, (run, items) in enumerate(baskets)
            for item in items or [None]
        ],
        schema={c: t for c, t in BASKETS.schema.items() if c in {"run_key", "host", "window", "metric_group", "item"}},
    )


def as_dict(itemsets: pl.DataFrame, *columns: str) -> dict[str, tuple]:
    return {"".join(row[0]): row[1:] for row in itemsets.select("items", *columns).iter_rows()}


def test_every_itemset_with_its_count_runs_and_flags():
    baskets = rows(("r1", "ab"), ("r1", "abc"), ("r2", "ab"), ("r2", "bc"))
    found = frequent_itemsets(baskets, "gpu", mining())
    assert found.schema == FREQUENT_ITEMSETS.schema
    assert found.rows() == [
        ("gpu", ["b"], 1, 4, 1.0, 2, True, False),
        ("gpu", ["a"], 1, 3, 0.75, 2, False, False),
        ("gpu", ["c"], 1, 2, 0.5, 2, False, False),
        ("gpu", ["a", "b"], 2, 3, 0.75, 2, True, True),
        ("gpu", ["b", "c"], 2, 2, 0.5, 2, True, True),
    ]


def test_runs_count_where_the_whole_set_occurs():
    baskets = rows(*[("r1", "ab")] * 70, *[("r2", "a")] * 3, *[("r3", "b")] * 2, ("r3", "ab"))
    assert as_dict(frequent_itemsets(baskets, "s", mining(min_support=0.01)), "count", "runs") == {
        "a": (74, 3),
        "b": (73, 2),
        "ab": (71, 2),
    }


def test_closed_and_maximal_know_supersets_longer_than_max_size():
    baskets = rows(("r", "abc"), ("r", "abc"), ("r", "ad"))
    assert as_dict(frequent_itemsets(baskets, "s", mining(max_size=2)), "closed", "maximal") == {
        "a": (True, False),
        "b": (False, False),
        "c": (False, False),
        "ab": (False, False),
        "ac": (False, False),
        "bc": (False, False),
    }


def test_the_same_window_number_in_two_runs_or_hosts_is_two_baskets():
    baskets = pl.DataFrame(
        {"run_key": ["r", "s", "s"], "host": ["h", "h", "g"], "window": [0, 0, 0], "item": ["a", "a", "a"]}
    )
    assert BasketBits.of_table(baskets, 0.01).total == 3
    assert frequent_itemsets(baskets, "s", mining())["count"].to_list() == [3]


def test_a_basket_without_items_still_counts():
    found = frequent_itemsets(rows(("r", "a"), ("r", "")), "s", mining())
    assert found.select("count", "support").rows() == [(1, 0.5)]


def test_support_exactly_at_the_minimum_is_frequent():
    baskets = rows(*[("r", "a")] * 7, *[("r", "b")] * 93)
    assert as_dict(frequent_itemsets(baskets, "s", mining(min_support=0.07)), "count") == {
        "b": (93,),
        "a": (7,),
    }


@pytest.mark.parametrize(
    "baskets", [BASKETS.empty(), rows(), rows(("r", ""), ("r", ""))], ids=["schema", "rows", "no items"]
)
def test_nothing_in_gives_the_empty_table(baskets):
    found = frequent_itemsets(baskets, "s", mining())
    assert found.is_empty()
    assert found.schema == FREQUENT_ITEMSETS.schema


def test_a_scope_with_too_few_baskets_is_not_mined():
    assert frequent_itemsets(rows(*[("r", "a")] * 99), "s", MiningSettings()).is_empty()
    assert frequent_itemsets(rows(*[("r", "a")] * 100), "s", MiningSettings()).height == 1


def symbolic(baskets: int, groups: int, seed: int = 0) -> pl.DataFrame:
    """Correlated LOW/MED/HIGH items of many runs, as a fleet gives them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(baskets, 3)) @ rng.normal(size=(3, groups)) + rng.normal(size=(baskets, groups))
    level = np.array(["LOW", "MED", "HIGH"])[np.digitize(x, [-1, 1])]
    window, group = (index.ravel() for index in np.indices(x.shape))
    return pl.DataFrame(
        {
            "run_key": [f"run{w // 700}" for w in window],
            "host": "h",
            "window": window,
            "item": [f"G_{g}_{name}" for g, name in zip(group, level.ravel(), strict=True)],
        }
    )


def test_mlxtend_finds_the_same_sets_and_supports():
    baskets = symbolic(600, 5)
    found = frequent_itemsets(baskets, "s", mining(min_support=0.0199, max_size=4))
    wide = baskets.with_columns(present=True).pivot("item", index=["run_key", "window"], values="present")
    matrix = pd.DataFrame({c: wide[c].fill_null(False).to_numpy() for c in wide.columns[2:]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlxtend.frequent_patterns import fpgrowth

        oracle = fpgrowth(matrix, min_support=0.0199, use_colnames=True, max_len=4)
    expected = {frozenset(s): v for s, v in zip(oracle["itemsets"], oracle["support"], strict=True)}
    ours = {frozenset(s): v for s, v in found.select("items", "support").iter_rows()}
    assert len(ours) == found.height > 200
    assert ours == pytest.approx(expected)


letters = st.lists(st.tuples(st.sampled_from("rst"), st.sets(st.sampled_from("abcde"))), min_size=1, max_size=12)


@given(letters, st.integers(1, 4), st.sampled_from([0.1, 0.3, 0.5]))
@hypothesis_settings(max_examples=60)
def test_brute_force_agrees_on_everything(baskets, max_size, min_support):
    table = rows(*[(run, "".join(sorted(items))) for run, items in baskets])
    counts = {
        s: sum(set(s) <= items for _, items in baskets)
        for size in range(1, 6)
        for s in map("".join, combinations("abcde", size))
    }
    frequent = {s: c for s, c in counts.items() if c and c / len(baskets) >= min_support}
    expected = {
        s: (
            c,
            len({run for run, items in baskets if set(s) <= items}),
            not any(set(s) < set(t) and frequent[t] == c for t in frequent),
            not any(set(s) < set(t) for t in frequent),
        )
        for s, c in frequent.items()
        if len(s) <= max_size
    }
    found = frequent_itemsets(table, "s", mining(min_support=min_support, max_size=max_size))
    assert as_dict(found, "count", "runs", "closed", "maximal") == expected


def test_row_order_does_not_matter():
    baskets = symbolic(200, 4)
    first = frequent_itemsets(baskets, "s", mining(min_support=0.05))
    assert first.equals(
        frequent_itemsets(baskets.sample(fraction=1, shuffle=True, seed=3), "s", mining(min_support=0.05))
    )


def test_twenty_thousand_baskets_of_thirteen_groups_take_seconds():
    baskets = symbolic(20_000, 13)
    started = time.perf_counter()
    found = frequent_itemsets(baskets, "s", mining(min_support=0.01))
    assert found.height > 10_000
    assert time.perf_counter() - started < 8


@given(st.integers(0, 2**32 - 1))
def test_runs_put_together_by_bits_give_what_their_rows_give(seed):
    """Runs of any length, one word or several, without windows too."""
    rng = np.random.default_rng(seed)
    names, runs = ["c", "a", "b"], [rng.random((length, 3)) < rng.random(3) for length in rng.integers(0, 150, 4)]
    table = pl.concat(
        [rows(*[(f"r{number}", "".join(np.array(names)[held])) for held in holds]) for number, holds in enumerate(runs)]
    )
    sets = BasketBits.of_runs([RunBits.of(holds) for holds in runs], names)
    assert sets.total == sum(map(len, runs))
    settings = mining(min_support=0.05)
    assert frequent_itemsets(sets, "s", settings).equals(frequent_itemsets(table, "s", settings))


def test_one_after_the_other_or_all_at_once_the_largest_are_the_same(monkeypatch):
    """Of many words or extensions, they are counted one by one."""
    rng = np.random.default_rng(3)
    baskets = rows(*((f"r{i % 7}", "".join(c for c in "abcdefgh" if rng.random() < 0.6)) for i in range(400)))
    at_once = frequent_itemsets(baskets, "gpu", mining(min_support=0.05))
    monkeypatch.setattr(itemsets, "_AT_ONCE", 0)
    assert at_once.equals(frequent_itemsets(baskets, "gpu", mining(min_support=0.05)))
    assert at_once["size"].max() == 4
