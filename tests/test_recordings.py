"""The recorded sets: what their plans say, what their labels say, and that they stay small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recording.__main__ import FAULTS, UNDISTURBED, plan_of
from benchmarks.recording.workloads.disturb import DISTURBANCES
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.name import labels_path

DATA = Path(__file__).parents[1] / "data"
PLANS = ("sample", "faults")


@pytest.mark.parametrize("name", PLANS)
def test_every_run_of_a_plan_can_be_made(name):
    plan = plan_of(name)
    scripts = DATA.parent / "benchmarks/recording/workloads"
    assert {run.fault for run in plan.runs} - {UNDISTURBED} <= FAULTS.keys() & DISTURBANCES.keys()
    assert all((scripts / f"{run.workload}.py").is_file() for run in plan.runs)
    # a fault begins and ends within its run
    assert all(run.after_share + plan.fault_share < 1 for run in plan.runs if run.fault != UNDISTURBED)


def test_real_faults_are_recorded_beside_as_many_healthy_runs():
    plan = plan_of("faults")
    faulty = [run for run in plan.runs if run.fault != UNDISTURBED]
    assert len(faulty) >= 40 and len(plan.runs) == 2 * len(faulty)
    assert len({run.workload for run in faulty}) >= 3 and len({run.fault for run in faulty}) == 14


@pytest.mark.parametrize("name", PLANS)
def test_what_is_committed_is_what_was_recorded(name):
    folder = DATA / name
    recorded = json.loads((folder / "recorded.json").read_text(encoding="utf-8"))["runs"]
    files = sorted(folder.glob("*.txt.gz"))
    assert [file.name for file in files] == sorted(run["file"] for run in recorded)
    assert sum(file.stat().st_size for file in files) <= 1_000_000
    for run in recorded:
        labels = read_labels(labels_path(folder / run["file"]), "run")
        assert labels["fault"].to_list() == [run["disturbance"]] * (run["disturbance"] != UNDISTURBED)
        assert run["missed_ticks"] == 0
