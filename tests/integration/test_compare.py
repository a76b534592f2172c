"""Did the change help? On simulated runs with a fault before it and none after it, and on runs that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.comparing.figures import figures_of
from infrascope_core.comparing.verdict import compare
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.settings import Settings
from infrascope_core.simulate import Fault, Job, write_job
from infrascope_core.store.folder import DataFolder

pytestmark = pytest.mark.slow
_SIDE = 5


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Five runs with a storage burst, and twelve without any fault, four of which are the reference."""
    place = tmp_path_factory.mktemp("changed")
    for seed in range(_SIDE):
        fault = Fault("storage_burst", 1.0, 60, 110)
        write_job(Job("cpu", minutes=3, seed=700_000 + seed, faults=(fault,)), place / "before")
    for seed in range(12):
        write_job(Job("cpu", minutes=3, seed=700_100 + seed), place / "healthy")
    folder = DataFolder(place / "data", Settings(), (place / "before", place / "healthy"))
    refresh(folder)
    faulty = {path.name.partition(".")[0] for path in (place / "before").iterdir()}
    keys = accepted(folder)["run_key"].sort().to_list()
    return folder, [key for key in keys if key in faulty], [key for key in keys if key not in faulty]


def test_a_fault_that_is_gone_is_said_to_be(filled):
    folder, before, healthy = filled
    found = compare(figures_of(folder, before), figures_of(folder, healthy[:_SIDE]))
    assert found.judged
    assert "nomalous time fell from" in found.sentence
    assert "shorter" not in found.sentence


def test_of_healthy_runs_nothing_is_said_to_have_changed(filled):
    folder, _, healthy = filled
    figures, rng = figures_of(folder, healthy), np.random.default_rng(0)
    said = 0
    for _ in range(200):
        order = rng.permutation(len(figures))
        sides = [[figures[i] for i in order[:6]], [figures[i] for i in order[6:]]]
        said += not compare(*sides).sentence.startswith("No change is shown")
    assert said <= 10
