"""Agreement of anomaly intervals: worked by hand, and against counting single microseconds."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.studies.intervals import Agreement, agreement, covered_lengths, flagged_intervals, merged_intervals


def intervals(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@pytest.mark.parametrize(
    ("given_", "merged"),
    [
        ([], []),
        ([(3, 5)], [(3, 5)]),
        ([(3, 5), (0, 1)], [(0, 1), (3, 5)]),
        ([(0, 3), (1, 4)], [(0, 4)]),
        ([(0, 3), (3, 4)], [(0, 4)]),  # they touch
        ([(0, 9), (1, 2), (3, 4), (10, 11)], [(0, 9), (10, 11)]),  # one lies within another
        ([(5, 5), (1, 2)], [(1, 2)]),  # nothing is covered
    ],
)
def test_merging(given_, merged):
    np.testing.assert_array_equal(merged_intervals(intervals(*given_)), intervals(*merged))


def test_lengths_that_another_set_covers():
    a, b = intervals((0, 4), (6, 8), (20, 21)), intervals((1, 2), (3, 7), (30, 40))
    assert covered_lengths(a, b).tolist() == [2, 1, 0]
    assert covered_lengths(b, a).tolist() == [1, 2, 0]


def test_the_measures_worked_by_hand():
    """A covers 0..3 and 10..13, B covers 2..4: they share 1 of the 7 that either covers."""
    assert agreement(intervals((0, 3), (10, 13)), intervals((2, 4))) == Agreement(
        intervals_a=2, intervals_b=1, iou=1 / 7, hit_by_count=1 / 2, hit_by_length=1 / 6
    )


def test_hits_are_of_a_by_b():
    a, b = intervals((0, 10)), intervals((0, 1), (4, 5), (20, 22))
    assert agreement(a, b).hit_by_count == 1.0
    assert agreement(b, a).hit_by_count == pytest.approx(2 / 3)
    assert (agreement(a, b).hit_by_length, agreement(b, a).hit_by_length) == (0.2, 0.5)
    assert agreement(a, b).iou == agreement(b, a).iou == 2 / 12


def test_intervals_that_touch_do_not_meet():
    assert agreement(intervals((0, 3)), intervals((3, 4))) == Agreement(1, 1, 0.0, 0.0, 0.0)


def test_what_has_no_answer_is_none():
    nothing, some = intervals(), intervals((0, 3))
    assert agreement(nothing, nothing) == Agreement(0, 0, None, None, None)
    assert agreement(nothing, some) == Agreement(0, 1, 0.0, None, None)
    assert agreement(some, nothing) == Agreement(1, 0, 0.0, 0.0, 0.0)


pairs = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)  # fmt: skip


@given(pairs, pairs)
def test_against_counting_moments(first, second):
    a, b = intervals(*first), intervals(*second)
    covered_a, covered_b = ({t for start, end in some for t in range(start, end)} for some in (first, second))
    found = agreement(a, b)
    shared, union = len(covered_a & covered_b), len(covered_a | covered_b)
    assert found.iou == (shared / union if union else None)
    assert found.hit_by_length == (shared / len(covered_a) if covered_a else None)
    runs = [range(start, end) for start, end in merged_intervals(a).tolist()]
    assert sorted(covered_a) == [t for run in runs for t in run]
    assert found.intervals_a == len(runs)
    assert found.hit_by_count == (sum(bool(covered_b & {*run}) for run in runs) / len(runs) if runs else None)


@given(pairs)
def test_a_set_agrees_with_itself(some):
    found = agreement(intervals(*some), intervals(*some))
    assert {found.iou, found.hit_by_count, found.hit_by_length} <= {1.0, None}


def test_microseconds_since_1970_stay_exact():
    start = 1_770_000_000_000_000
    assert agreement(intervals((start, start + 3)), intervals((start + 1, start + 3))).iou == 2 / 3


def test_flagged_windows_become_intervals():
    """Windows of 3 s at 0, 1 and 5 s: two merge, a window without a flag counts for nothing."""
    at = [datetime(2026, 1, 1, 0, 0, second) for second in (0, 1, 2, 5)]
    scores = pl.DataFrame({"start_ts": at, "agreement": [1, 2, 0, 1]})
    origin = int(at[0].timestamp() - datetime(1970, 1, 1).timestamp()) * 1_000_000
    found = flagged_intervals(scores, 3_000_000)
    assert ((found - origin) / 1e6).tolist() == [[0, 4], [5, 8]]
    assert flagged_intervals(scores.head(0), 3_000_000).shape == (0, 2)
