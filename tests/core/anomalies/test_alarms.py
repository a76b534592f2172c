"""Which windows are anomalous: stretches written out, and against a walk from window to window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.anomalies.alarms import anomalous, held, stretches

NAN = float("nan")


def raised(surprisal: list[float], alarm: float = 4, allowance: float = 1, overlap: int = 1) -> list[int]:
    """Numbers of the anomalous windows."""
    return np.flatnonzero(anomalous(np.array(surprisal, dtype=float), alarm, allowance, overlap)).tolist()


@pytest.mark.parametrize(
    ("surprisal", "windows"),
    [
        ([0.3, 5.1, 0.3], [1]),  # one window is enough if it is improbable enough
        ([0.3, 5.0, 0.3], []),  # four beyond the allowance must be exceeded
        ([3, 3, 3, 0], [0, 1, 2]),
        ([3, 3, 0.3, 0.3], []),
        ([3, 0, 3, 0, 0, 3], [0, 2, 5]),  # gaps of two are bridged, but not anomalous themselves
        ([3, 0, 0, 0, 3, 3], []),  # gaps of three part two stretches
        ([6, 0, 0, 0, 3, 3], [0]),
        ([1, 1, 1, 1, 1, 1, 1], []),  # what the allowance covers adds nothing
        ([3, NAN, 3, NAN, NAN, 3], [0, 2, 5]),
        ([NAN, NAN], []),
        ([NAN, 9], [1]),
        ([], []),
    ],
)
def test_stretches_by_hand(surprisal, windows):
    assert raised(surprisal) == windows


def test_windows_that_cover_the_same_moment_count_that_many_times_less():
    assert raised([3, 3, 3], overlap=1) == [0, 1, 2]
    assert raised([3, 3, 3], overlap=3) == []
    assert raised([3] * 7, overlap=3) == [*range(7)]  # 14 is more than 12


def test_a_larger_allowance_covers_more():
    assert raised([3, 3, 3], allowance=2) == []
    assert raised([3, 0.5, 3], allowance=0) == [0, 1, 2]


SURPRISALS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0, NAN]), max_size=40)


@given(SURPRISALS, st.sampled_from([0.5, 2.0, 4.0]), st.sampled_from([0.0, 1.0]), st.integers(1, 3))
def test_a_walk_from_window_to_window_finds_the_same(surprisal, alarm, allowance, overlap):
    stretches: list[list[int]] = []
    for window, value in enumerate(surprisal):
        if value > allowance:
            if stretches and window - stretches[-1][-1] <= 3:
                stretches[-1].append(window)
            else:
                stretches.append([window])
    expected = [
        window
        for stretch in stretches
        if sum(surprisal[w] - allowance for w in stretch) > alarm * overlap
        for window in stretch
    ]
    assert raised(surprisal, alarm, allowance, overlap) == expected


@given(SURPRISALS, st.integers(0, 39))
def test_a_window_more_surprising_takes_no_alarm_back(surprisal, place):
    if place < len(surprisal):
        more = [*surprisal[:place], 9.0, *surprisal[place + 1 :]]
        assert set(raised(surprisal)) <= set(raised(more))


def at(values):
    """Known ratios, as `held` asks for them."""
    return lambda windows, metrics: values[windows] if metrics is None else values[windows, metrics]


class TestHeld:
    """A metric that is 10 times its range in windows 20 to 29, seen by an average over the last 10."""

    NOW = np.full((60, 3), 0.5)
    NOW[20:30, 0] = 10.0
    LATELY = np.full((60, 3), 0.5)
    LATELY[24:36, 0] = 5.0

    def test_an_alarm_has_the_times_of_what_it_is_about(self):
        raised = np.zeros(60, dtype=bool)
        raised[24:38] = True
        assert np.flatnonzero(held(raised, at(self.NOW), at(self.LATELY), 10)).tolist() == list(range(20, 30))

    def test_it_reaches_back_no_farther_than_the_average(self):
        raised = np.zeros(60, dtype=bool)
        raised[24:38] = True
        assert np.flatnonzero(held(raised, at(self.NOW), at(self.LATELY), 2)).tolist() == list(range(22, 30))

    def test_an_echo_is_left_out(self):
        now = self.NOW.copy()
        now[34, 0] = 3.0
        raised = np.zeros(60, dtype=bool)
        raised[24:38] = True
        assert np.flatnonzero(held(raised, at(now), at(self.LATELY), 10)).tolist() == list(range(20, 30))

    def test_what_never_moves_stays_as_it_was_raised(self):
        flat = np.full((10, 2), 0.5)
        raised = np.ones(10, dtype=bool)
        assert held(raised, at(flat), at(flat), 3).all()

    def test_nothing_raised_is_nothing_held(self):
        assert not held(np.zeros(60, dtype=bool), at(self.NOW), at(self.LATELY), 10).any()


def test_stretches_have_gaps_of_two_at_most():
    raised = np.zeros(20, dtype=bool)
    raised[[2, 3, 6, 10, 11]] = True
    assert [part.tolist() for part in stretches(raised)] == [[2, 3, 6], [10, 11]]
    assert stretches(np.zeros(5, dtype=bool)) == []
