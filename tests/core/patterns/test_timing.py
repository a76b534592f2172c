"""Rules at times of a run's own, and those that are the course of the job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from statsmodels.stats.multitest import multipletests

from infrascope_core.patterns.timing import _holm
from tests.core.patterns.generated import GROUPS, independent, levels, mine, run, together

LEFT, RIGHT = "CPU_busy_HIGH", "Disk_write_LOW"


def scheduled(runs: int, workload: str = "W", seed: int = 0) -> list:
    """Runs of one program: two groups that know nothing of each other follow the same schedule in each."""
    rng = np.random.default_rng(seed)
    plan = levels(120, rng, 10)
    made = []
    for number in range(runs):
        free = [levels(120, rng) for _ in GROUPS]
        busy, disk = (np.where(rng.random(120) < 0.7, plan, level) for level in free[:2])
        made.append(run(number, [busy, 2 - disk, *free[2:]], workload))
    return made


def timing(runs: list) -> dict[tuple[str, ...], str]:
    rules = mine(runs)
    return {(*a, *c): t for a, c, t in rules.select("antecedent", "consequent", "timing").iter_rows()}


def test_what_happens_at_other_times_in_each_run_is_its_own():
    assert timing(together(independent(8, 120, 0), LEFT, RIGHT, 0.8, 1))[LEFT, RIGHT] == "own"


def test_a_schedule_is_the_course_of_the_job():
    labels = timing(scheduled(8))
    assert labels[LEFT, RIGHT] == "course"
    assert "own" not in labels.values()


def test_what_any_workload_does_in_its_course_is_no_course_of_the_job():
    """Two programs that follow one plan: that they begin and end alike."""
    runs = scheduled(12)
    dealt = [replace(one, workload="VW"[i % 2]) for i, one in enumerate(runs)]
    labels = timing(dealt)
    assert labels[LEFT, RIGHT] == "common"
    rules = mine(dealt)
    assert rules.filter(timing="common")["shown"].is_null().all()


def test_what_each_workload_does_by_a_plan_of_its_own_is_the_course_of_the_job():
    second = [replace(one, run_key=f"v{one.run_key}") for one in scheduled(8, "V", seed=1)]
    assert timing([*scheduled(8), *second])[LEFT, RIGHT] == "course"


def test_an_item_that_is_as_good_from_any_run_makes_no_rule_of_a_run_s_own():
    """Two things go together at times of their own, more surely while all runs begin: the begin is a course."""
    rng = np.random.default_rng(9)
    runs = []
    for number in range(16):
        busy, disk, gpu, *free = (levels(200, rng) for _ in GROUPS)
        begins = np.arange(200) < 60
        share = np.where(begins, 1.0, 0.3)
        disk = np.where((busy == 2) & (rng.random(200) < share), 0, np.maximum(disk, 1))
        gpu = np.where(begins, 2, np.minimum(gpu, 1))
        runs.append(run(number, [busy, disk, gpu, *free], "VW"[number % 2]))
    labels = timing(runs)
    assert labels[LEFT, RIGHT] == "own"
    assert labels[LEFT, "GPU_util_HIGH", RIGHT] == "common"


def test_without_a_second_run_of_a_workload_nothing_is_known():
    runs = [replace(one, workload=f"W{i}") for i, one in enumerate(scheduled(6))]
    assert set(timing(runs).values()) == {"unknown"}


def test_what_a_few_runs_do_twice_is_still_the_course_of_the_job():
    """Three of twelve runs have a second stretch, each at another time."""
    made = []
    for number in range(12):
        busy, disk = (np.where((np.arange(120) >= 10) & (np.arange(120) < 25), high, 1) for high in (2, 0))
        if number < 3:
            again = slice(50 + 20 * number, 65 + 20 * number)
            busy[again], disk[again] = 2, 0
        rng = np.random.default_rng(number)
        made.append(run(number, [busy, disk, *(levels(120, rng) for _ in GROUPS[2:])]))
    assert timing(made)[LEFT, RIGHT] == "course"


def test_hosts_of_one_job_are_not_exchanged():
    """They share times of their own, which are no schedule."""
    runs = together(independent(8, 120, 2), LEFT, RIGHT, 0.8, 3)
    copies = [replace(one, host="h2", run_key=one.run_key + "_2", job=one.run_key) for one in runs]
    assert timing([*runs, *copies])[LEFT, RIGHT] == "own"


def test_few_runs_leave_it_undecided():
    """Two runs can be exchanged in two ways."""
    runs = together(independent(2, 400, 4), LEFT, RIGHT, 0.8, 5)
    more = [
        replace(one, workload=f"other{i}")
        for i, one in enumerate(together(independent(3, 400, 6), LEFT, RIGHT, 0.8, 7))
    ]
    assert timing([*runs, *more])[LEFT, RIGHT] == "undecided"


def test_holm_s_correction_is_statsmodels():
    p = np.random.default_rng(0).random(50) ** 4
    assert np.allclose(_holm(p), multipletests(p, method="holm")[1])
