"""Association rules: found where they were planted, none where there is nothing, mlxtend's measures, the choice."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from infrascope_core.patterns.candidates import to_be_tested
from infrascope_core.patterns.rules import worth_reading
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.patterns.tallies import pairs_of
from tests.core.patterns.generated import GROUPS, ITEMS, independent, levels, mine, run, together

LEFT, RIGHT = "CPU_busy_HIGH", "Disk_write_LOW"


def sides(rules: pl.DataFrame) -> set[tuple[str, ...]]:
    return {(*left, right) for left, (right,) in rules.select("antecedent", "consequent").iter_rows()}


def test_what_was_planted_is_found_and_nothing_else_of_other_groups():
    runs = together(independent(10, 120, 0), LEFT, RIGHT, 0.6, 1)
    rules = mine(runs)
    assert rules.schema == ASSOCIATION_RULES.schema
    assert (LEFT, RIGHT) in sides(rules)
    planted = {"CPU_busy", "Disk_write"}
    assert {item.rpartition("_")[0] for rule in sides(rules) for item in rule} == planted
    (rule,) = [r for r in rules.iter_rows(named=True) if r["antecedent"] == [LEFT] and r["consequent"] == [RIGHT]]
    assert rule["confidence"] > rule["expected"] + 0.2
    assert (rule["informative_runs"], rule["runs"]) == (10, 10)
    assert rule["agreeing_runs"] >= 7
    assert rule["timing"] == "own"
    assert rule["q_value"] < 0.05 <= rule["tested"]
    assert rule["cross_subsystem"]
    assert rule["excess_windows"] == pytest.approx(
        rule["support"] * 1200 - rule["expected"] / rule["confidence"] * rule["support"] * 1200
    )
    keys = [example["run_key"] for example in rule["examples"]]
    assert len(keys) == len(set(keys)) == 3
    held = {one.run_key: one for one in runs}
    for example in rule["examples"]:
        own, at = held[example["run_key"]], example["window"]
        assert own.holds[at, [ITEMS.names.index(LEFT), ITEMS.names.index(RIGHT)]].all()
        assert np.datetime64(example["start_ts"]) == own.start[at]
    assert rule["shown"] == 1
    assert rule["sentence"].startswith("While CPU_busy is high, Disk_write is ")
    assert f"; {rule['agreeing_runs']} of 10 runs. For example r" in rule["sentence"]


def test_nothing_is_found_where_there_is_nothing():
    found = [mine(independent(10, 120, seed)).height for seed in range(20)]
    assert np.count_nonzero(found) <= 2


def test_most_of_what_is_planted_is_found():
    for share, least in ((0.5, 0.7), (0.9, 0.88)):
        hits = []
        for seed in range(25):
            rng = np.random.default_rng(seed)
            left, right = rng.choice(GROUPS, 2, replace=False)
            planted = together(independent(8, 100, 100 + seed), f"{left}_HIGH", f"{right}_LOW", share, seed)
            hits.append((f"{left}_HIGH", f"{right}_LOW") in sides(mine(planted)))
        assert np.mean(hits) >= least


def test_measures_are_mlxtends():
    """Support, confidence, lift, leverage and conviction of each rule that holds up."""
    from mlxtend.frequent_patterns import association_rules as oracle_rules
    from mlxtend.frequent_patterns import fpgrowth

    runs = together(independent(8, 100, 3), LEFT, RIGHT, 0.9, 4)
    rules = mine(runs)
    assert rules.height > 1
    frame = pd.DataFrame(np.concatenate([one.holds for one in runs]), columns=list(ITEMS.names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        itemsets = fpgrowth(frame, min_support=0.001, use_colnames=True, max_len=3)
        oracle = oracle_rules(itemsets, metric="confidence", min_threshold=0.0)
    known = {(row.antecedents, row.consequents): row for row in oracle.itertuples()}
    for rule in rules.iter_rows(named=True):
        expected = known[frozenset(rule["antecedent"]), frozenset(rule["consequent"])]
        for measure in ("support", "confidence", "lift", "leverage", "conviction"):
            assert rule[measure] == pytest.approx(getattr(expected, measure)), measure


def test_a_second_item_must_add_to_the_first_and_the_first_to_the_second():
    """What follows from two together is a rule of both; what follows from one is no rule of that and another."""
    rng = np.random.default_rng(5)
    runs = []
    for number in range(10):
        a, b, c, d, e = (levels(160, rng, 5) for _ in GROUPS)
        c = np.where((a == 2) & (b == 2) & (rng.random(160) < 0.9), 2, np.minimum(c, 1))
        e = np.where((a == 0) & (rng.random(160) < 0.9), 0, np.maximum(e, 1))
        runs.append(run(number, [a, b, c, d, e]))
    found = sides(mine(runs))
    assert ("CPU_busy_HIGH", "Disk_write_HIGH", "GPU_util_HIGH") in found
    assert ("CPU_busy_LOW", "Net_rx_LOW") in found
    assert not [rule for rule in found if len(rule) == 3 and {"CPU_busy_LOW", "Net_rx_LOW"} <= set(rule)]
    assert not [rule for rule in sides(mine(runs, max_antecedent=1)) if len(rule) == 3]


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_too_few_runs_show_nothing(runs):
    assert mine(together(independent(runs, 200, 6), LEFT, RIGHT, 1.0, 7)).is_empty()


def test_one_run_cannot_carry_a_rule():
    runs = independent(6, 100, 8)
    strong = together(independent(1, 4_000, 9), LEFT, RIGHT, 1.0, 10)
    assert (LEFT, RIGHT) not in sides(mine([*runs, *(replace(one, run_key="strong") for one in strong)]))


def test_constant_items_and_runs_of_one_window_do_no_harm():
    runs = independent(8, 100, 11)
    always = [replace(one, holds=one.holds | np.array([name == "Net_rx_MED" for name in ITEMS.names])) for one in runs]
    assert not [rule for rule in sides(mine(always)) if rule[-1] == "Net_rx_MED"]
    short = [replace(one, holds=one.holds[:1], start=one.start[:1]) for one in runs]
    assert mine(short).is_empty()
    empty = [replace(one, holds=np.zeros_like(one.holds)) for one in runs]
    assert mine(empty).is_empty()
    twice = together(runs[:4], LEFT, RIGHT, 0.9, 12)
    assert mine([*twice, *(replace(one, run_key=one.run_key + "b") for one in twice)]).height


def test_the_number_that_is_tested_is_told_beforehand():
    runs = together(independent(8, 100, 13), LEFT, RIGHT, 0.6, 14)
    tested = to_be_tested(np.concatenate([one.holds for one in runs]), ITEMS, MiningSettings())
    rules = mine(runs)
    assert rules["tested"].unique().to_list() == [tested]
    assert tested == 15 * 12 + len(pairs_of(ITEMS)) * 9  # all items are common, and pairs of them


def test_of_few_that_are_stored_the_first_that_are_shown_stay():
    runs = together(independent(8, 100, 13), LEFT, RIGHT, 0.9, 14)
    whole = mine(runs)
    assert whole.height > 1
    (first,) = mine(runs, max_rules=1).iter_rows(named=True)
    assert first["shown"] == 1
    assert first["holding"] == whole.height


def test_the_order_of_runs_does_not_matter():
    runs = together(independent(8, 100, 15), LEFT, RIGHT, 0.7, 16)
    first, second = mine(runs), mine(runs[::-1])
    assert sides(first) == sides(second)
    assert first["p_value"].to_list() == pytest.approx(second["p_value"].to_list())


def rule(antecedent: list[str], consequent: str, z: float, **changed: object) -> dict[str, object]:
    usual = {"scope": "gpu", "confidence": 0.9, "expected": 0.5, "cross_subsystem": True, "timing": "own"}
    return {**usual, "antecedent": antecedent, "consequent": [consequent], "z": z, **changed}


def chosen(*rules: dict[str, object], limit: int = 5, timing: list[str] | None = None) -> list[tuple[str, ...]]:
    frame = pl.DataFrame(
        [{**dict.fromkeys(ASSOCIATION_RULES.schema), **r} for r in rules], schema=ASSOCIATION_RULES.schema
    )
    return [(*a, *c) for a, c in worth_reading(frame, limit, timing).select("antecedent", "consequent").iter_rows()]


def test_few_rules_are_shown_and_each_says_something_else():
    one = rule(["A_HIGH"], "B_LOW", 5.0)
    assert chosen(one, rule(["B_LOW"], "A_HIGH", 4.0)) == [("A_HIGH", "B_LOW")]  # its mirror image
    assert chosen(one, rule(["A_LOW"], "B_HIGH", 6.0)) == [("A_LOW", "B_HIGH")]
    assert chosen(rule(["A_HIGH", "C_LOW"], "D_LOW", 9.0), one)[0] == ("A_HIGH", "B_LOW")  # the simple one first
    assert chosen(one, rule(["C_HIGH"], "D_MED", 9.0), rule(["C_MED"], "D_LOW", 9.0)) == [("A_HIGH", "B_LOW")]
    assert chosen(one, rule(["C_HIGH"], "D_LOW", 9.0, cross_subsystem=False)) == [("A_HIGH", "B_LOW")]
    same = [rule([f"{name}_HIGH"], "B_LOW", 5.0) for name in "ACDE"]
    assert len(chosen(*same)) == 2
    assert len(chosen(*(rule([f"{name}_HIGH"], f"{name}X_LOW", 5.0) for name in "ACDE"), limit=3)) == 3
    assert chosen(one, rule(["C_HIGH"], "D_LOW", 9.0, timing="course"), timing=["own"]) == [("A_HIGH", "B_LOW")]
    assert chosen(rule(["A_HIGH"], "B_LOW", 5.0, confidence=0.6), rule(["C_HIGH"], "D_LOW", 4.0))[0] == (
        "C_HIGH",
        "D_LOW",
    )


def test_a_pair_of_groups_is_told_once_whatever_its_timing():
    """Both rest by a schedule, and both are busy at times of their own: the latter is told."""
    rng = np.random.default_rng(21)
    rests = levels(200, rng, 10) == 0
    runs = []
    for number in range(10):
        busy, disk, *free = (levels(200, rng) for _ in GROUPS)
        disk = np.where(rng.random(200) < 0.6, busy, disk)
        low = (np.where(rests & (rng.random(200) < 0.8), 0, np.maximum(side, 1)) for side in (busy, disk))
        runs.append(run(number, [*low, *free]))
    rules = mine(runs)
    assert [worth_reading(rules, 5, [timing]).height for timing in ("own", "course")] == [1, 1]
    (told,) = rules.filter(pl.col("shown").is_not_null()).iter_rows(named=True)
    assert told["timing"] == "own"
