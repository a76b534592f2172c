"""Patterns of the recorded sample, and of the sample with what makes them taken away: nothing may be left.

Each test counts over many sets with fixed seeds; what a set of a few synthetic runs shows is in tests/core/patterns.
"""

from __future__ import annotations

import pytest

from benchmarks.evaluation import controls
from benchmarks.evaluation.controls import Mined
from infrascope_core.patterns.rules import worth_reading
from infrascope_core.patterns.tables import ASSOCIATION_RULES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mined(sample) -> Mined:
    return Mined.of(sample, "cpu")


def test_what_is_found_in_the_sample_itself(mined, sample):
    rules = sample.lake.read(ASSOCIATION_RULES).filter(scope="cpu")
    assert mined.rules().drop("scope").equals(rules.drop("scope"))
    assert rules.height > 100
    assert worth_reading(rules, 5, ["own"]).height >= 3


def test_shifted_within_runs_nothing_is_left(mined):
    found = controls.sets_with_rules(mined, 50, seed=1)
    assert found["stored"] <= 5
    assert found["shown"] <= 1
    assert found["pooled"] > 0.5  # what tests over windows find in the same sets


def test_exchanged_between_runs_of_a_workload_nothing_is_its_own(mined):
    found = controls.sets_with_own(mined, 20, seed=2)
    assert found["shown"] <= 1
    assert found["rules"] > 20  # schedules are still there, and called so


def test_a_group_of_another_workload_has_no_times_in_common(mined):
    found = controls.sets_with_foreign(mined, 50, seed=3)
    assert found["shown"] <= 2
    assert found["own"] <= 2


def test_rules_of_half_of_the_runs_hold_in_the_other_half(mined):
    found = controls.confirmed(mined, 10, seed=4)
    assert found["rules"] > 500
    assert found["confirmed"] / found["rules"] >= 0.85


def test_with_labels_of_runs_dealt_anew_workloads_do_not_differ(mined):
    assert controls.sets_with_contrasts(mined, 50, seed=5)["raised"] <= 5


@pytest.mark.parametrize(("share", "least"), [(0.5, 0.7), (0.9, 0.88)])
def test_what_is_planted_is_found(mined, share, least):
    found = controls.found_planted(mined, 40, share, seed=6)
    assert found["found"] / found["sets"] >= least


def test_a_planted_lag_is_found_and_not_reversed(mined):
    found = controls.found_lags(mined, 40, 2.0, seed=7)
    assert found["sets"] >= 20
    assert found["found"] / found["sets"] >= 0.8
    assert found["right"] == found["found"]
    assert found["reversed"] == 0
