"""Association rules: a table worked out by hand, mlxtend and scipy as oracles, and the choice for people."""

import warnings

import polars as pl
import pytest
from scipy.stats import false_discovery_control, fisher_exact

from infrascope_core.patterns.itemsets import basket_count, frequent_itemsets
from infrascope_core.patterns.rules import association_rules, strongest
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, FREQUENT_ITEMSETS

SUBSYSTEMS = {"GPU_util": "GPU", "GPU_power": "GPU", "Net_rx": "Network"}


def mining(**changed) -> MiningSettings:
    return MiningSettings(**{"min_baskets": 1, "min_support": 0.05, **changed})


def mine(baskets: list[set[str]], **changed) -> pl.DataFrame:
    rows = pl.DataFrame(
        [
            {"run_key": f"r{w % 2}", "host": "h", "window": w, "item": i}
            for w, items in enumerate(baskets)
            for i in sorted(items)
        ]
    )
    itemsets = frequent_itemsets(rows, "gpu", mining(**changed))
    return association_rules(itemsets, basket_count(rows), mining(**changed), SUBSYSTEMS)


def test_measures_by_hand():
    """10 baskets: A in 6, B in 5, both in 5."""
    a, b, other = "GPU_util_LOW", "Net_rx_HIGH", "GPU_power_MED"
    rules = mine([{a, b}] * 5 + [{a}] + [{other}] * 4)
    assert rules.schema == ASSOCIATION_RULES.schema
    assert rules.select("antecedent", "consequent").rows() == [([b], [a]), ([a], [b])]
    first, second = rules.to_dicts()
    p = 6 / 252  # the 5 B's are 5 of the 6 A's: C(6,5) ways of C(10,5)
    expected = {"support": 0.5, "lift": 5 / 3, "leverage": 0.2, "runs": 2, "p_value": p, "q_value": p}
    for rule in (first, second):
        assert {k: rule[k] for k in expected} == pytest.approx(expected)
        assert rule["cross_subsystem"] is True
    assert (first["confidence"], second["confidence"]) == pytest.approx((1.0, 5 / 6))
    assert (first["conviction"], second["conviction"]) == pytest.approx((float("inf"), 3.0))


def test_sides_that_share_a_subsystem_do_not_cross():
    baskets = [{"GPU_util_LOW", "GPU_power_LOW", "Net_rx_LOW", "Fan_LOW"}] * 3
    crossing = {
        ("+".join(a), "+".join(c)): cross
        for a, c, cross in mine(baskets).select("antecedent", "consequent", "cross_subsystem").iter_rows()
    }
    assert crossing["GPU_util_LOW", "GPU_power_LOW"] is False
    assert crossing["GPU_util_LOW", "Net_rx_LOW"] is True
    assert crossing["GPU_util_LOW+Net_rx_LOW", "GPU_power_LOW"] is False
    assert crossing["GPU_power_LOW+GPU_util_LOW", "Net_rx_LOW"] is True
    assert crossing["Fan_LOW", "Net_rx_LOW"] is True  # a group nobody named is `Other`


def test_without_any_known_subsystem_all_sides_share_other():
    itemsets = frequent_itemsets(
        pl.DataFrame({"run_key": "r", "host": "h", "window": [0, 0], "item": ["A_LOW", "B_LOW"]}),
        "s",
        mining(),
    )
    assert association_rules(itemsets, 1, mining(), {})["cross_subsystem"].to_list() == [False, False]


BASKETS = [
    {f"G{g}_{'LOW' if (w * (g + 3)) % (g + 4) < 3 else 'HIGH'}" for g in range(4)}
    | ({"Net_rx_LOW"} if w % 3 else set())
    for w in range(60)
]


@pytest.mark.filterwarnings("ignore")
def test_mlxtend_draws_the_same_rules():
    import pandas as pd
    from mlxtend.frequent_patterns import association_rules as oracle_rules
    from mlxtend.frequent_patterns import fpgrowth

    ours = mine(BASKETS, max_size=4)
    items = sorted(set().union(*BASKETS))
    matrix = pd.DataFrame([[i in b for i in items] for b in BASKETS], columns=items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = oracle_rules(
            fpgrowth(matrix, min_support=0.05, use_colnames=True, max_len=4),
            metric="confidence",
            min_threshold=0.6,
        )
    measures = ["support", "confidence", "lift", "leverage", "conviction"]
    expected = {
        (frozenset(r.antecedents), frozenset(r.consequents)): [getattr(r, m) for m in measures]
        for r in oracle.itertuples()
    }
    got = {
        (frozenset(a), frozenset(c)): list(m)
        for a, c, *m in ours.select("antecedent", "consequent", *measures).iter_rows()
    }
    assert len(got) > 100
    assert got.keys() == expected.keys()
    for rule, values in got.items():
        assert values == pytest.approx(expected[rule], abs=1e-12), rule


def test_p_is_fishers_and_q_is_benjamini_hochbergs():
    rules = mine(BASKETS)
    p = []
    for left, right in rules.select("antecedent", "consequent").iter_rows():
        a = [set(left) <= b for b in BASKETS]
        c = [set(right) <= b for b in BASKETS]
        table = [
            [sum(x == i and y == j for x, y in zip(a, c, strict=True)) for j in (True, False)] for i in (True, False)
        ]
        p.append(fisher_exact(table, alternative="greater").pvalue)
    assert rules["p_value"].to_list() == pytest.approx(p, abs=1e-12)
    assert rules["q_value"].to_list() == pytest.approx(false_discovery_control(p).tolist(), abs=1e-12)


@pytest.mark.parametrize("itemsets", [FREQUENT_ITEMSETS.empty(), None], ids=["none", "single items only"])
def test_nothing_to_split_gives_the_empty_table(itemsets):
    if itemsets is None:
        itemsets = frequent_itemsets(
            pl.DataFrame({"run_key": "r", "host": "h", "window": [0, 1], "item": ["A_LOW", "B_LOW"]}),
            "s",
            mining(),
        )
        assert itemsets.height == 2
    rules = association_rules(itemsets, 2, mining(), SUBSYSTEMS)
    assert rules.is_empty()
    assert rules.schema == ASSOCIATION_RULES.schema
    assert strongest(rules, 5).is_empty()


def rule(left: str, right: str, **changed) -> dict:
    values = {
        "scope": "gpu",
        "antecedent": left.split(),
        "consequent": right.split(),
        "support": 0.3,
        "confidence": 0.8,
        "lift": 2.0,
        "leverage": 0.1,
        "conviction": 2.0,
        "runs": 3,
        "p_value": 0.001,
        "q_value": 0.01,
        "cross_subsystem": True,
    }
    return values | changed


def chosen(*rules: dict, limit: int = 10, **kwargs) -> list[str]:
    table = pl.DataFrame(list(rules), schema=ASSOCIATION_RULES.schema)
    kept = strongest(table, limit, **kwargs)
    assert kept.schema == ASSOCIATION_RULES.schema
    assert kept.equals(strongest(table.reverse(), limit, **kwargs))
    return [f"{' '.join(a)} > {' '.join(c)}" for a, c in kept.select("antecedent", "consequent").iter_rows()]


@pytest.mark.parametrize(
    "fault",
    [{"q_value": 0.05}, {"lift": 1.0}, {"consequent": ["B_LOW", "C_LOW"]}, {"cross_subsystem": False}],
)
def test_uninformative_rules_are_left_out(fault):
    assert chosen(rule("A_LOW", "B_LOW", **fault)) == []
    assert chosen(rule("A_LOW", "B_LOW")) == ["A_LOW > B_LOW"]


def test_rules_within_a_subsystem_on_request():
    assert chosen(rule("A_LOW", "B_LOW", cross_subsystem=False), cross_subsystem=False) == ["A_LOW > B_LOW"]


def test_an_antecedent_is_redundant_if_a_part_of_it_predicts_as_much():
    assert chosen(
        rule("A_LOW C_LOW", "B_LOW", confidence=0.8, leverage=0.2), rule("A_LOW", "B_LOW", confidence=0.8)
    ) == ["A_LOW > B_LOW"]
    assert chosen(
        rule("A_LOW C_LOW", "B_LOW", confidence=0.9, leverage=0.2), rule("A_LOW", "B_LOW", confidence=0.8)
    ) == ["A_LOW C_LOW > B_LOW"]


def test_leverage_ranks_and_a_pair_of_groups_is_shown_once():
    assert chosen(
        rule("A_LOW", "B_LOW", leverage=0.10),
        rule("B_LOW", "A_LOW", leverage=0.10, confidence=0.9),
        rule("A_HIGH", "B_HIGH", leverage=0.09),
        rule("C_LOW", "D_LOW", leverage=0.20),
        rule("A_LOW", "D_LOW", leverage=0.01, lift=50.0),
    ) == ["C_LOW > D_LOW", "B_LOW > A_LOW", "A_LOW > D_LOW"]


def test_the_limit_holds_in_each_scope():
    rules = [rule("A_LOW", c, scope=s) for s in ("cpu", "gpu") for c in ("B_LOW", "C_LOW", "D_LOW")]
    assert chosen(*rules, limit=2) == ["A_LOW > B_LOW", "A_LOW > C_LOW"] * 2
