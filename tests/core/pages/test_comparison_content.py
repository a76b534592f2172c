"""What the page of a comparison draws: places on axes, by hand."""

from __future__ import annotations

import pytest

from infrascope_core.comparing.figures import Figure
from infrascope_core.comparing.sides import Sides
from infrascope_core.comparing.verdict import compare
from infrascope_core.pages.comparison_content import Axis, comparison_view
from tests.core.comparing.test_verdict import SECONDS, runs


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([0.0, 1.0], (0.0, 1.0, 0.5)),
        ([0.0, 0.031, 0.042], (0.0, 0.06, 0.02)),
        ([-0.29, 0.0], (-0.3, 0.0, 0.1)),
        ([-27.0, 13.0], (-30.0, 20.0, 10.0)),
        ([180.0], (160.0, 200.0, 10.0)),
        ([0.0, 0.0], (-1.0, 1.0, 0.5)),
    ],
)
def test_an_axis_ends_at_round_values(values, axis):
    found = Axis.over(values)
    assert (found.low, found.high, found.step) == pytest.approx(axis)
    assert found.ticks[0] == pytest.approx(found.low)
    assert found.ticks[-1] == pytest.approx(found.high)


def test_what_lies_beyond_an_axis_is_at_its_end():
    axis = Axis(-1.0, 1.0, 0.5)
    assert [axis.place(value) for value in (-7.0, -1.0, 0.0, 0.25, 9.0)] == [0.0, 0.0, 50.0, 62.5, 100.0]


def view(before, after) -> dict:
    sides = Sides(before, after, compare(before, after))
    return comparison_view("x", sides, lambda key: f"runs/{key}.html", "index.html")


def test_effects_are_shares_of_the_median_before():
    """100 s to 80 s with an interval of 3 s either way, on an axis from -25 % to 0 %."""
    whole = view(runs("b", range(98, 103)), runs("a", range(78, 83)))["whole"]
    (row,) = whole["rows"]
    assert (row["relative"], row["effect"], row["interval"]) == ("-20 %", "-20 s", "95 % interval -23 s to -17 s")
    assert [text for _, text in whole["ticks"]] == ["-30 %", "-20 %", "-10 %", "0 %"]
    assert row["places"] == pytest.approx([33.33, 23.33, 43.33], abs=0.01)
    assert whole["zero"] == 100.0
    assert row["moved"]
    assert row["inside"] == [True, True, True]


def with_level(one_side, value: float):
    for place, run in enumerate(one_side):
        run.values[Figure("page faults", "count", "level")] = value + place / 1000
    return one_side


def test_a_level_that_grew_beyond_the_axis_is_said_to():
    sides = [with_level(runs(name, range(98, 103)), value) for name, value in (("b", 10.0), ("a", 500.0))]
    (row,) = view(*sides)["levels"]["rows"]
    assert row["relative"] == "50 times as much"
    assert row["inside"] == [False, False, False]
    assert row["places"] == [100.0, 100.0, 100.0]


def test_a_level_of_nothing_before_has_no_share_and_is_not_drawn():
    sides = [with_level(runs(name, range(98, 103)), value) for name, value in (("b", -0.002), ("a", 500.0))]
    (row,) = view(*sides)["levels"]["rows"]
    assert (row["relative"], row["places"]) == ("", [])


def test_too_few_runs_have_points_without_whiskers():
    (row,) = view(runs("b", [100]), runs("a", [80]))["whole"]["rows"]
    assert (row["interval"], row["chance"]) == ("no interval", "no test: too few runs")
    assert len(set(row["places"])) == 1


def test_every_run_has_a_place_and_a_link():
    found = view(runs("b", [100, 110]), runs("a", [80, 120]))
    (strip,) = (strip for strip in found["strips"] if strip["name"] == SECONDS.name)
    assert strip["ends"] == ["80 s", "120 s"]
    assert strip["sides"] == [("before", [50.0, 75.0]), ("after", [0.0, 100.0])]
    (_, before), _ = found["sides"]
    assert before[0] == {"key": "b0", "link": "runs/b0.html", "host": "h", "values": ["100 s", "0.00%"]}
