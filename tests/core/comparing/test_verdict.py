"""What changed between two sets of runs: effects and intervals by hand, and how often something is said for nothing."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from infrascope_core.comparing.figures import ANOMALOUS, TIME, Figure, RunFigures
from infrascope_core.comparing.verdict import Change, Comparison, _rank_of_bound, compare, shown, worth_showing

SECONDS, SHARE = Figure(TIME, "s", "run"), Figure(ANOMALOUS, "share", "run")
LEVELS = [Figure(f"level {i}", "%", "level") for i in range(20)]


def runs(prefix: str, seconds, shares=None, **changed) -> list[RunFigures]:
    common: dict[str, Any] = {"workload": "gpu/train/W", "host": "h", "interval_s": 0.1, "baseline": "v1"} | changed
    shares = [0.0] * len(seconds) if shares is None else shares
    return [
        RunFigures(run_key=f"{prefix}{i}", values={SECONDS: float(s), SHARE: float(share)}, **common)
        for i, (s, share) in enumerate(zip(seconds, shares, strict=True))
    ]


def of(comparison: Comparison, figure: Figure) -> Change:
    (found,) = (change for change in comparison.changes if change.figure == figure)
    return found


def test_a_run_that_became_shorter_is_said_to_be():
    """The paper's own example (section 6): 1823 s to 1714 s, and the anomalous time 3.82 % to 1.17 %."""
    before = runs("b", [1815, 1820, 1823, 1830, 1835], [0.036, 0.038, 0.0382, 0.039, 0.040])
    after = runs("a", [1706, 1711, 1714, 1719, 1724], [0.010, 0.011, 0.0117, 0.012, 0.013])
    found = compare(before, after)
    assert found.judged
    assert found.sentence == ("The run is 5.98% shorter [5.3%, 6.8%]; anomalous time fell from 3.82% to 1.17%.")
    change = of(found, SECONDS)
    assert (change.before, change.after, change.effect) == (1823, 1714, -109)
    assert change.p_value == pytest.approx(2 / 252)
    assert change.q_value == pytest.approx(4 / 252)
    assert found.obstacles == ()


def test_the_effect_is_the_median_of_all_differences():
    old, new = [10.0, 12.0, 19.0, 11.0, 14.0], [9.0, 8.5, 13.0, 7.0]
    found = of(compare(runs("b", old), runs("a", new)), SECONDS)
    assert found.effect == np.median([n - o for n, o in product(new, old)])


@pytest.mark.parametrize(("own", "other"), [(4, 4), (5, 5), (5, 7), (8, 8), (3, 9)])
def test_bounds_leave_out_what_the_rank_test_does(own, other):
    """The k-th smallest difference, by the distribution of the statistic over all ways to order the runs."""
    values = np.arange(own + other)
    statistics = [
        sum(values[i] > values[j] for i in chosen for j in set(range(own + other)) - set(chosen))
        for chosen in combinations(range(own + other), own)
    ]
    outside = _rank_of_bound(own, other)
    below = [np.mean([s <= k for s in statistics]) for k in range(own * other)]
    expected = sum(share <= 0.025 for share in below)
    assert (outside + 1 if outside is not None else 0) == expected


@pytest.mark.parametrize(("own", "other"), [(1, 1), (3, 3), (2, 6)])
def test_too_few_runs_have_no_interval_and_no_verdict(own, other):
    found = compare(runs("b", range(100, 100 + own)), runs("a", range(10, 10 + other)))
    assert not found.judged
    assert found.sentence.startswith("There are too few runs for a verdict: run time ")
    change = of(found, SECONDS)
    assert (change.low, change.high, change.p_value, change.significant) == (None, None, None, False)
    assert any("no ranks of so few could be significant" in text for text in found.obstacles)


@pytest.mark.parametrize("number", [4, 5, 8, 40])
def test_nothing_is_said_of_runs_that_are_alike(number):
    """Something is said to have changed in one of twenty draws, but for what 300 draws differ by."""
    rng = np.random.default_rng(number)
    said = 0
    for _ in range(300):
        sides = [
            runs(name, rng.normal(1000, 30, number), np.maximum(rng.normal(0.0, 0.01, number), 0)) for name in "ba"
        ]
        said += compare(*sides).sentence.startswith(("The run is", "Anomalous time"))
    assert said <= 300 * 0.05 + 2 * np.sqrt(300 * 0.05 * 0.95)


def test_a_change_of_two_deviations_is_mostly_found():
    rng = np.random.default_rng(1)
    found = [compare(runs("b", rng.normal(1000, 20, 6)), runs("a", rng.normal(950, 20, 6))).sentence for _ in range(50)]
    assert sum("shorter" in sentence for sentence in found) >= 40
    assert not any("longer" in sentence for sentence in found)


def test_intervals_hold_the_truth():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(400):
        change = of(compare(runs("b", rng.normal(0, 1, 7)), runs("a", rng.normal(2, 1, 7))), SECONDS)
        inside += change.low <= 2 <= change.high
    assert inside / 400 >= 0.93


def test_the_probability_is_scipys():
    rng = np.random.default_rng(3)
    old, new = rng.normal(0, 1, 6), rng.normal(1, 1, 7)
    change = of(compare(runs("b", old), runs("a", new)), SECONDS)
    assert change.p_value == pytest.approx(mannwhitneyu(new, old, method="exact").pvalue)


def test_levels_that_moved_are_shown_and_others_are_not():
    rng = np.random.default_rng(4)
    sides = []
    for name, shift in (("b", 0.0), ("a", 30.0)):
        made = runs(name, [100.0] * 8)
        for one in made:
            one.values.update({figure: float(rng.normal(50, 1)) for figure in LEVELS})
            one.values[LEVELS[3]] += shift
        sides.append(made)
    found = compare(*sides)
    assert [change.figure for change in worth_showing(found)] == [SECONDS, SHARE, LEVELS[3]]


def test_what_is_not_comparable_is_said():
    before = runs("b", range(5), host="h1", interval_s=0.1)
    after = runs("a", range(5), host="h2", interval_s=1.0, baseline="v2", workload="gpu/train/V")
    obstacles = compare(before, after).obstacles
    assert "The workloads differ: gpu/train/W before, gpu/train/V after." in obstacles
    assert "The hosts differ: h1 before, h2 after." in obstacles
    assert "The sampling intervals differ: 0.1 s before, 1 s after." in obstacles
    assert any("not all judged by the same baseline" in text for text in obstacles)
    unjudged = compare(runs("b", range(5), baseline=""), runs("a", range(5), baseline="")).obstacles
    assert "10 runs could not be judged at all." in unjudged


def test_a_figure_that_one_side_lacks_is_not_compared():
    before, after = runs("b", range(5)), runs("a", range(5))
    before[0].values[LEVELS[0]] = 1.0
    assert LEVELS[0] not in [change.figure for change in compare(before, after).changes]


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [(SHARE, 0.0382, "3.82%"), (SECONDS, 1823.0, "1823 s"), (Figure("energy", "J", "run"), 5e5, "500,000 J")],
)
def test_values_are_written_as_people_read_them(figure, value, text):
    assert shown(figure, value) == text
