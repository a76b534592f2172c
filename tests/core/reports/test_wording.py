"""Numbers, lists and lengths of time in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from infrascope_core.reports.wording import count, duration, named


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (3.24, "3.2 s"),
        (45, "45 s"),
        (59.4, "59 s"),
        (59.6, "1.0 min"),
        (232, "3.9 min"),
        (3595, "59.9 min"),
        (3599, "1.0 h"),
        (7560, "2.1 h"),
        (47 * 3600, "47.0 h"),
        (48 * 3600, "2.0 d"),
        (5000 * 86400, "5,000.0 d"),
    ],
)
def test_a_length_of_time_has_the_unit_that_suits_it(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text


def test_counts_and_lists():
    assert [count(n, "file") for n in (0, 1, 2, 1200)] == ["0 files", "1 file", "2 files", "1,200 files"]
    assert named(["a", "b", "c"], 2) == "a, b and 1 more"
    assert named(["a", "b"], 2) == "a, b"
