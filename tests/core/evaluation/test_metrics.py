"""The figures of the evaluation on hand-made arrays, and against slow literal definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.evaluation.metrics import (
    average_precision,
    bootstrap_ratio,
    chance_of_hit,
    first_delay,
    hit_at,
    hit_rate,
    meets,
    overlap,
    range_auc_pr,
    roc_auc,
    union_length,
    vus_pr,
)


def segments_of(values: list[float], series: list[int]) -> list[tuple[int, int]]:
    """First and last index of each stretch of values above 0."""
    found: list[tuple[int, int]] = []
    for i, value in enumerate(values):
        if value <= 0:
            continue
        if found and found[-1][1] == i - 1 and series[i] == series[i - 1]:
            found[-1] = (found[-1][0], i)
        else:
            found.append((i, i))
    return found


def literal_range_auc_pr(score: list[float], label: list[bool], buffer: int, series: list[int]) -> float:
    """The definition of Paparrizos et al. (VLDB 2022), with steps for trapezoids as in the authors' own code, word for
    word: one threshold, one fault and one window at a time."""
    weight = [float(y) for y in label]
    for start, end in segments_of(weight, series):
        for i in range(len(label)):
            distance = start - i if i < start else i - end
            if distance > 0 and distance <= buffer // 2 and series[i] == series[start]:
                weight[i] += math.sqrt(1 - distance / buffer)
    weight = [min(w, 1.0) for w in weight]
    ranges = segments_of(weight, series)
    positives = (sum(label) + sum(weight)) / 2
    area, recall_before = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        predicted = [s >= threshold for s in score]
        true = sum(w for w, p in zip(weight, predicted, strict=True) if p)
        existing = sum(any(predicted[a : b + 1]) for a, b in ranges) / len(ranges)
        recall = min(true / positives, 1.0) * existing
        area += (recall - recall_before) * true / sum(predicted)
        recall_before = recall
    return area


@st.composite
def labelled(draw):
    n = draw(st.integers(2, 40))
    label = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda y: any(y) and not all(y)))
    score = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))  # few values: many ties
    breaks = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return [float(s) for s in score], label, np.cumsum(breaks).tolist() if draw(st.booleans()) else [0] * n


@given(labelled(), st.integers(0, 12))
@settings(max_examples=300)
def test_the_range_auc_equals_its_literal_definition(windows, buffer):
    score, label, series = windows
    expected = literal_range_auc_pr(score, label, buffer, series)
    assert range_auc_pr(score, label, buffer, series) == pytest.approx(expected, abs=1e-12)


def test_a_buffer_by_hand():
    # a fault at window 2; with a buffer of 2 its neighbours count sqrt(1 - 1/2) = 0.7071 as faulty
    label = [False, False, True, False, False]
    # the flag comes one window late: alone it has precision 0.7071 and recall 0.7071 / 1.7071
    late = [0, 0, 0, 1, 0]
    assert range_auc_pr(late, label, buffer=0) == pytest.approx(0.2)
    p = (1 + 1 + 2 * math.sqrt(0.5)) / 2
    by_hand = (math.sqrt(0.5) / p) * math.sqrt(0.5) + (1 - math.sqrt(0.5) / p) * (1 + 2 * math.sqrt(0.5)) / 5
    assert range_auc_pr(late, label, buffer=2) == pytest.approx(by_hand)
    assert vus_pr(late, label, max_buffer=2) == pytest.approx((0.2 + 0.2 + by_hand) / 3)


def test_a_buffer_does_not_reach_into_another_run():
    label, score = [False, True, False, False], [0, 0, 1, 0]
    assert range_auc_pr(score, label, 2, series=[0, 0, 1, 1]) < range_auc_pr(score, label, 2, series=[0, 0, 0, 0])


def test_a_perfect_score_gives_one_without_a_buffer():
    label = [False, True, True, False, True]
    assert vus_pr([0, 1, 1, 0, 1], label, 0) == pytest.approx(1.0)
    assert roc_auc([0, 1, 1, 0, 1], label) == 1.0
    assert average_precision([0, 1, 1, 0, 1], label) == 1.0


def test_areas_by_hand():
    label = [True, False, True, False]
    score = [4, 3, 2, 1]
    assert roc_auc(score, label) == pytest.approx(3 / 4)  # 3 of 4 pairs in order
    assert average_precision(score, label) == pytest.approx((1 + 2 / 3) / 2)
    assert roc_auc([1, 1, 1, 1], label) == 0.5


@pytest.mark.parametrize("figure", [roc_auc, average_precision, lambda s, y: vus_pr(s, y, 4)])
def test_one_class_or_no_score_is_not_a_number(figure):
    assert math.isnan(figure([1, 2], [True, True]))
    assert math.isnan(figure([1, 2], [False, False]))
    assert math.isnan(figure([math.nan, math.nan], [False, True]))


def test_a_window_without_a_score_raises_no_alarm():
    assert roc_auc([math.nan, 0.0], [True, False]) == 0.0
    assert roc_auc([0.0, math.nan], [True, False]) == 1.0


def test_intervals_that_touch_meet():
    met = meets([0, 10], [5, 20], [5, 6, 30], [5, 9, 40])
    assert met.tolist() == [[True, False, False], [False, False, False]]
    assert meets([], [], [1], [2]).shape == (0, 1)
    assert overlap([0, 10], [5, 20], [4], [12]).tolist() == [[1.0], [2.0]]


def test_overlapping_intervals_count_once():
    assert union_length([0, 3, 10], [5, 4, 12]) == 7.0
    assert union_length([], []) == 0.0


def test_the_delay_ends_with_the_first_flagged_window_that_meets_the_fault():
    # windows of 3 s: the first lies before both faults, the second meets the first fault
    assert first_delay([10, 50], [20, 60], [2, 9, 12], [5, 12, 15]).tolist()[0] == 2.0
    assert np.isnan(first_delay([10, 50], [20, 60], [2, 9, 12], [5, 12, 15])[1])
    assert np.isnan(first_delay([10], [20], [], [])).all()


def test_hits_and_their_chance():
    ranked = ["a", "b", "c", "d"]
    assert [hit_at(ranked, {"c", "x"}, k) for k in (1, 3, 5)] == [False, True, True]
    assert chance_of_hit(10, 1, 3) == pytest.approx(0.3)
    assert chance_of_hit(10, 2, 3) == pytest.approx(1 - (8 / 10) * (7 / 9) * (6 / 8))
    assert chance_of_hit(4, 1, 5) == 1.0
    assert chance_of_hit(10, 0, 3) == 0.0
    assert math.isnan(chance_of_hit(0, 0, 1))


def test_the_hit_rate_looks_at_as_many_metrics_as_there_are_culprits():
    assert hit_rate(["a", "b", "c"], {"a", "c"}) == 0.5
    assert hit_rate(["a", "b", "c"], {"a", "c"}, percent=150) == 1.0
    assert hit_rate([], {"a"}) == 0.0
    assert math.isnan(hit_rate(["a"], set()))


def test_the_bootstrap_resamples_runs():
    value, low, high = bootstrap_ratio([1, 0, 1, 1], [1, 1, 1, 1], resamples=2000, random_state=0)
    assert value == 0.75
    assert low <= 0.5
    assert high == 1.0
    assert bootstrap_ratio([2, 3], [4, 6], 100, 0) == (0.5, 0.5, 0.5)
    assert bootstrap_ratio([1, 0, 1, 1], [1] * 4, 200, 7) == bootstrap_ratio([1, 0, 1, 1], [1] * 4, 200, 7)


def test_the_bootstrap_interval_has_its_nominal_coverage():
    rng = np.random.default_rng(0)
    samples = rng.normal(5.0, 1.0, (200, 40))
    inside = [low <= 5.0 <= high for _, low, high in (bootstrap_ratio(s, np.ones(40), 500, 1) for s in samples)]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_few_runs_have_no_interval():
    value, low, high = bootstrap_ratio([3], [4], 100, 0)
    assert value == 0.75
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(bootstrap_ratio([1, 2], [0, 0], 100, 0)[0])
    assert bootstrap_ratio([1, np.nan], [1, 1], 100, 0)[0] == 1.0
