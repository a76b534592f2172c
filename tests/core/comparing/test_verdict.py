"""What changed between two sets of runs: effects and intervals by hand, and how often something is said for nothing."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from infrascope_core.comparing.figures import ANOMALOUS, TIME, Figure, RunFigures
from infrascope_core.comparing.verdict import (
    Change,
    Comparison,
    Outcome,
    _rank_of_bound,
    compare,
    difference,
    interval_of,
    shown,
    worth_showing,
)

SECONDS, SHARE = Figure(TIME, "s", "run"), Figure(ANOMALOUS, "share", "run")
THROUGHPUT, ENERGY = Figure("throughput, tokens", "tokens/s", "run"), Figure("energy (GPU power)", "J", "run")
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
    assert found.obstacles == ("No metric of these runs tells their throughput or energy.",)


@pytest.mark.parametrize(
    ("seconds", "shares", "outcome"),
    [
        ((100, 80), (0.1, 0.1), Outcome.BETTER),
        ((100, 80), (0.1, 0.01), Outcome.BETTER),
        ((100, 120), (0.1, 0.1), Outcome.WORSE),
        ((100, 80), (0.01, 0.1), Outcome.MIXED),
        ((100, 100), (0.1, 0.1), Outcome.UNCHANGED),
    ],
)
def test_less_time_and_less_of_it_anomalous_is_better(seconds, shares, outcome):
    sides = [
        runs(name, [s + i / 10 for i in range(5)], [share + i / 1e4 for i in range(5)])
        for name, s, share in zip("ba", seconds, shares, strict=True)
    ]
    assert compare(*sides).outcome is outcome


def test_what_is_mostly_nothing_has_a_direction_even_where_the_typical_difference_is_0():
    """Of 20 runs before, nine have anomalous time; of 20 after, none: a median difference of 0, and p = 0.0012."""
    before, after = (
        runs(name, np.linspace(100, 101, 20), shares)
        for name, shares in (("b", [0.0] * 11 + [0.1] * 9), ("a", [0.0] * 20))
    )
    found = compare(before, after)
    assert of(found, SHARE).effect == 0
    assert found.outcome is Outcome.BETTER
    assert found.sentence == "Anomalous time fell, although its median is 0.00% before and after."


def test_what_normal_was_learnt_from_is_said():
    """A baseline of the runs before finds what the change does differently, and calls it anomalous."""
    before, after = runs("b", [10, 11], reference=True), runs("a", [10, 12])
    learnt = [text for text in compare(before, after).obstacles if "learnt" in text]
    assert learnt == [
        "What is normal was learnt from 2 of 2 runs before and 0 of 2 after: "
        "what only the others do counts as anomalous."
    ]
    both = compare(before, runs("a", [10, 12, 13], reference=True)).obstacles
    assert not any("learnt" in text for text in both)


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


@pytest.mark.parametrize(("own", "other"), [(1, 1), (3, 3), (2, 6), (4, 4)])
def test_too_few_runs_have_no_interval_and_no_verdict(own, other):
    found = compare(runs("b", range(100, 100 + own)), runs("a", range(10, 10 + other)))
    assert not found.judged
    assert found.sentence.startswith("There are too few runs for a verdict: run time ")
    change = of(found, SECONDS)
    assert (change.p_value, change.significant) == (None, False)
    assert (change.low is None) == (own < 4)  # four and four have an interval, and no test after Holm's correction
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


@pytest.mark.parametrize(("own", "other"), [(4, 5), (3, 6), (5, 5)])
def test_as_many_as_are_said_to_be_enough_are(own, other):
    found = compare(runs("b", range(100, 100 + own)), runs("a", range(10, 10 + other)))
    assert found.outcome is Outcome.BETTER


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


def test_runs_that_were_not_judged_are_counted():
    before, after = runs("b", [10, 11, 12, 13]), runs("a", [10, 11, 12, 14])
    del before[0].values[SHARE]
    obstacles = compare(before, after).obstacles
    assert "1 run could not be judged at all." in obstacles
    assert not any("baseline" in text for text in obstacles)


def test_numbers_have_their_nouns_and_what_is_not_known_is_said_to_be():
    obstacles = compare(runs("b", [10], interval_s=None), runs("a", [10])).obstacles
    assert obstacles[0].startswith("1 run before and 1 after: no ranks of so few")
    assert "The sampling intervals differ: not known before, 0.1 s after." in obstacles


def test_intervals_of_a_jittery_clock_are_alike():
    obstacles = compare(runs("b", [10], interval_s=0.1001), runs("a", [10], interval_s=0.0999)).obstacles
    assert not any("sampling" in text for text in obstacles)


def test_runs_of_several_workloads_on_both_sides_are_said_to_be():
    sides = [runs(name, [10]) + runs(f"{name}v", [20], workload="gpu/train/V") for name in "ba"]
    assert (
        "The runs are of several workloads, whose differences count as chance: gpu/train/V, gpu/train/W."
        in compare(*sides).obstacles
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ((100, 104), (40, 41), "The runs before are 2.5 times as long as those after: they may have done other work."),
        ((40, 41), (100, 104), "The runs after are 2.5 times as long as those before: they may have done other work."),
        ((180, 180), (180, 180.1), "All runs are as long as each other (180.1 s): if that was set beforehand, run time "
                                   "tells nothing."),
        ((100, 104), (90, 91), None),
        ((100,), (100,), None),
    ],
)  # fmt: skip
def test_lengths_that_speak_against_a_comparison(old, new, sentence):
    found = [text for text in compare(runs("b", old), runs("a", new)).obstacles if " long as " in text]
    assert found == ([sentence] if sentence else [])


def test_other_settings_of_the_machines_show_in_metrics_that_never_move():
    before, after = runs("b", [10, 11]), runs("a", [10, 11])
    for one in before:
        one.steady.update({"Memory:HugePages_Total[count]": 0.0, "Memory:MemTotal[kB]": 8e6, "mixed": 1.0})
    for one in after:
        one.steady.update({"Memory:HugePages_Total[count]": 512.0, "Memory:MemTotal[kB]": 8e6, "mixed": 2.0})
    after[0].steady["mixed"] = 3.0
    (found,) = (text for text in compare(before, after).obstacles if "settings" in text)
    assert found.endswith("between the sides: Memory:HugePages_Total[count] is 0 before, 512 after.")


def test_a_side_without_runs_is_said_to_have_none():
    found = compare([], runs("a", [10]))
    assert (found.sentence, found.outcome) == ("There are no runs before the change yet.", Outcome.NOT_JUDGED)
    assert compare([], []).sentence == "There are no runs before and after the change yet."


def test_runs_that_share_no_figure_are_not_compared():
    """A run of one sample, which has no length, and one that was not judged."""
    before, after = runs("b", [10]), runs("a", [10])
    before[0].values.clear()
    before[0].values[LEVELS[0]] = 1.0
    found = compare(before, after)
    assert found.changes == ()
    assert found.sentence == "Neither run time nor anomalous time is known on both sides."
    assert not found.judged
    assert "Known on one side only, and so not compared: anomalous time, level 0, run time." in found.obstacles


def test_other_figures_are_shown_where_those_of_the_verdict_are_not_known():
    sides = [runs(name, [10]) for name in "ba"]
    for (one,) in sides:
        one.values.clear()
        one.values[LEVELS[0]] = 1.0
    found = compare(*sides)
    assert found.sentence.endswith("known on both sides; other figures are shown without a verdict.")
    assert [change.figure for change in found.changes] == [LEVELS[0]]


def test_throughput_and_energy_are_compared_where_they_are_measured():
    before, after = runs("b", [10, 11, 12, 13, 14]), runs("a", [10, 11, 12, 13, 15])
    for place, one in enumerate((*before, *after)):
        one.values.update({THROUGHPUT: 100.0 + place, ENERGY: 5e5})
    found = compare(before, after)
    assert found.obstacles == ()
    assert [change.figure for change in found.changes[2:]] == [THROUGHPUT, ENERGY]
    assert of(found, THROUGHPUT).significant
    assert found.outcome is Outcome.UNCHANGED  # a verdict rests on run time and anomalous time


def test_a_metric_that_is_never_a_reason_has_no_share_of_the_time():
    metric = Figure("anomalous time, Disk:busy[%]", "share", "metric")
    before, after = runs("b", [10, 11, 12, 13]), runs("a", [10, 11, 12, 14])
    for one in before:
        one.values[metric] = 0.2
    del after[0].values[SHARE]  # not judged: nothing is known of its metrics
    change = of(compare(before, after), metric)
    assert (change.before, change.after, change.runs_before, change.runs_after) == (0.2, 0.0, 4, 3)


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (LEVELS[0], 6.0249, "+6.02 points"),
        (SHARE, -0.0265, "-2.65 points"),
        (SHARE, 0.0, "0 points"),
        (SECONDS, 109.0, "+109 s"),
        (SECONDS, -2.0, "-2 s"),
    ],
)
def test_differences_have_a_sign_and_those_of_shares_are_points(figure, value, text):
    assert difference(figure, value) == text


def test_an_interval_in_words():
    few = of(compare(runs("b", [10]), runs("a", [12])), SECONDS)
    assert interval_of(few) == "too few runs"
    many = compare(runs("b", [10, 11, 12, 13], [0.1] * 4), runs("a", [20, 21, 22, 23], [0.3] * 4))
    assert interval_of(of(many, SECONDS)) == "+7 s to +13 s"
    assert interval_of(of(many, SHARE)) == "+20.00 to +20.00 points"


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
