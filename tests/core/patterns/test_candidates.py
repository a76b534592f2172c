"""Candidates of rules: three items on the left, against every set of three looked at by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from infrascope_core.patterns.candidates import candidates, left_side, to_be_tested
from infrascope_core.patterns.co_occurrence import Overlap
from infrascope_core.patterns.held import Held
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tallies import Tally
from tests.core.patterns.generated import GROUPS, ITEMS, independent, levels, mine, run
from tests.core.patterns.test_rules import sides

DEEP = MiningSettings(max_antecedent=3, exchanges=99)


def after_three() -> list[Held]:
    """Runs in which one item follows from three others together, and another from two."""
    rng = np.random.default_rng(17)
    runs = []
    for number in range(12):
        a, b, c, d, e = (levels(400, rng, 5) for _ in GROUPS)
        d = np.where((a == 2) & (b == 2) & (c == 2), 2, np.minimum(d, 1))
        e = np.where((a == 0) & (b == 0) & (rng.random(400) < 0.9), 0, np.maximum(e, 1))
        runs.append(run(number, [a, b, c, d, e]))
    return runs


def test_what_follows_from_three_together_is_a_rule_of_three():
    runs = after_three()
    a, b, c, d, e = GROUPS
    deep, flat = sides(mine(runs, max_antecedent=3)), sides(mine(runs))
    assert (f"{a}_HIGH", f"{b}_HIGH", f"{c}_HIGH", f"{d}_HIGH") in deep
    assert (f"{a}_LOW", f"{b}_LOW", f"{e}_LOW") in deep
    assert not [rule for rule in deep if len(rule) == 4 and {f"{a}_LOW", f"{b}_LOW", f"{e}_LOW"} <= set(rule)]
    assert flat <= deep | {rule for rule in flat if len(rule) == 4}
    assert not [rule for rule in flat if len(rule) > 3]


def test_nothing_of_three_is_found_where_there_is_nothing():
    found = [mine(independent(10, 120, seed), max_antecedent=3).height for seed in range(10)]
    assert np.count_nonzero(found) <= 1


def test_every_rule_of_three_is_counted_and_those_that_go_beyond_their_parts_are_as_if_looked_at_alone():
    runs = after_three()
    holds = np.concatenate([one.holds for one in runs])
    tally = Tally.of(runs, ITEMS, 3)
    *_, found = candidates(tally, runs, DEEP)
    share = holds.mean(axis=0)

    def confidence(left: tuple[int, ...], right: int) -> float:
        rows = holds[:, list(left)].all(axis=1)
        return float(holds[rows, right].mean()) if rows.any() else 0.0

    tested, beyond = 0, set()
    for left in combinations(range(len(ITEMS.names)), 3):
        groups = {ITEMS.groups[i] for i in left}
        rows = holds[:, list(left)].all(axis=1)
        if len(groups) < 3 or rows.mean() < DEEP.min_support:
            continue
        for right in range(len(ITEMS.names)):
            if ITEMS.groups[right] in groups or share[right] < DEEP.min_support:
                continue
            tested += 1
            parts = [part for size in (1, 2) for part in combinations(left, size)]
            least = max(confidence(part, right) for part in parts)
            if (rows & holds[:, right]).mean() >= 0.01 and confidence(left, right) >= least + DEEP.min_gain:
                beyond.add((*left, right))
    assert found.tested == tested
    assert {(*left, right) for left, right in zip(found.left.tolist(), found.right.tolist(), strict=True)} == set(
        beyond
    )
    total = sum(part.tested for part in candidates(tally, runs, DEEP))
    assert total == to_be_tested(holds, ITEMS, DEEP)

    for at in range(len(found.right)):
        whole, rule, right = Overlap.nothing(1, 1), found.left[at : at + 1], found.right[at]
        least_added = [Overlap.nothing(1, 1) for _ in range(3)]
        for one in runs:
            whole.add(Overlap.of_run(left_side(one.holds, rule), one.holds[:, [right]]))
            for place, total_added in enumerate(least_added):
                others = np.delete(rule[0], place)
                own = one.holds[one.holds[:, others].all(axis=1)]
                total_added.add(Overlap.of_run(own[:, [rule[0, place]]], own[:, [right]]))
        assert found.z[at] == pytest.approx(whole.z[0, 0])
        assert found.both[at] == whole.both[0, 0]
        assert found.expected[at] == pytest.approx(whole.expected[0, 0])
        adds = min(added.z[0, 0] for added in least_added)
        if found.holds_up[at]:
            assert found.least_chance[at] == pytest.approx(np.clip(norm.sf(adds), 1e-12, 1))


def test_too_few_windows_or_groups_give_no_rule_of_three():
    assert to_be_tested(np.zeros((0, len(ITEMS.names)), dtype=bool), ITEMS, DEEP) == 0
    assert not list(candidates(Tally.of([], ITEMS, 3), [], DEEP))
    only = np.array([group in GROUPS[:2] for group in ITEMS.groups])
    few = [replace(one, holds=one.holds & only) for one in independent(4, 50, 1)]
    *_, found = candidates(Tally.of(few, ITEMS, 3), few, DEEP)
    assert (found.tested, len(found.right)) == (0, 0)
