"""Products of many runs, by one process or several: the same bytes, and what fails stops nothing else."""

from __future__ import annotations

import json
import os
import pickle
import signal
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.errors import InfraScopeError, RunFileError, StorageError
from infrascope_core.making import Failure, attempt
from infrascope_core.pipeline import refresh
from infrascope_core.processes import THREADS, Processes
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.folder import DataFolder
from tests.folders import content_of
from tests.runs import write_run


@pytest.mark.parametrize(
    ("raised", "reason", "full"),
    [
        (RunFileError(Path("x.txt"), "line 3: no"), "x.txt: line 3: no", False),
        (StorageError("no room left", full=True), "no room left", True),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero", False),
    ],
)
def test_what_is_raised_becomes_a_reason(raised, reason, full):
    class Graph:
        def make(self, *of: object) -> None:
            raise raised

    failure = attempt(Graph(), DataFolder(Path("nowhere")), "telemetry", "r")  # type: ignore[arg-type]
    assert failure == Failure(reason, full)
    assert isinstance(failure, Failure)
    assert failure.cause is raised


def threads_of_polars(given: str, unit: str) -> tuple[str, int]:
    """What a process was given and finds set; or it fails, or is killed, as for want of memory."""
    if unit == "too large":
        os.kill(os.getpid(), signal.SIGKILL)
    if unit == "bad":
        raise StorageError("no room left", full=True)
    if unit == "unspeakable":
        raise type("Local", (Exception,), {})("not of a module")
    return given + unit, pl.thread_pool_size()


def test_several_processes_share_the_processors_and_one_that_is_killed_is_told(monkeypatch):
    """Two that each start a thread a processor would be in each other's way."""
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    with Processes(2) as processes:
        assert list(processes.map(threads_of_polars, "given ", ["a", "b"])) == [("given a", 3), ("given b", 3)]
        with pytest.raises(StorageError, match=r"^no room left$") as full:
            list(processes.map(threads_of_polars, "", ["a", "bad"]))
        assert full.value.full
        with pytest.raises(InfraScopeError, match=r"^Local: not of a module$"):
            list(processes.map(threads_of_polars, "", ["a", "unspeakable"]))
        with pytest.raises(InfraScopeError, match=r"^one of the 2 processes ended before its work, most likely"):
            list(processes.map(threads_of_polars, "", ["a", "too large"]))


def test_a_process_has_no_further_ones():
    assert pickle.loads(pickle.dumps(Processes(4))).number == 1
    assert pickle.loads(pickle.dumps(DataFolder(Path("x"), processes=Processes(4)))).processes.number == 1


@pytest.fixture
def runs(tmp_path) -> Path:
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    broken = write_run(tmp_path / "runs", 5)
    broken.write_text("no table")
    return tmp_path / "runs"


def test_several_processes_leave_the_same_bytes(tmp_path, runs):
    made: list[list[tuple[str, str | None, int]]] = []
    kept: list[dict[str, str]] = []
    before = {name: os.environ.get(name) for name in THREADS}
    for jobs in (1, 2):
        folder = DataFolder(tmp_path / f"data{jobs}", sources=(runs,))
        seen: list[tuple[str, str | None, int]] = []

        def note(product, key, frames, seen=seen) -> None:
            seen.append((product.name, key, frames[0].height))

        refresh(folder, jobs=jobs, on_made=note)
        made.append(seen)
        kept.append(content_of(folder.root))
    assert made[0] == made[1]
    assert kept[0] == kept[1]
    assert {name: os.environ.get(name) for name in THREADS} == before
    statuses = folder.lake.read_all(RUN_FILES)["status"].value_counts(sort=True).rows()
    assert statuses == [("accepted", 4), ("rejected", 1)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_looked_up_is_left_for_the_next_process(tmp_path, jobs):
    """Else it opens every file of the lake to see that there is nothing to do."""
    for second in (1, 2):
        write_run(tmp_path / "runs", second)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder, jobs=jobs, only=lambda product: product.stage in {"run_files", "quality"})
    index = json.loads((folder.lake.root / ".fingerprints.json").read_text())
    assert {f"{path.relative_to(folder.lake.root)}" for path in folder.lake.root.rglob("*.parquet")} - index.keys() <= {
        # whose first table tells
        *(f"{table}/{key}.parquet" for key in folder.lake.keys(RUN_FILES) for table in ("telemetry", "faults")),
        *(f"metric_types/{key}.parquet" for key in folder.lake.keys(RUN_FILES)),
    }


def test_of_several_processes_one_failure_stops_nothing_else(tmp_path, runs):
    folder = DataFolder(tmp_path / "data", sources=(runs,))
    bad = sorted(runs.glob("*.txt"))[1].stem
    in_the_way = report_files(folder, bad)[0]
    in_the_way.mkdir(parents=True)
    (in_the_way / "x").touch()
    with pytest.raises(InfraScopeError, match=f"^{bad} could not be made .anomaly_report: .*{in_the_way.name}"):
        refresh(folder, jobs=2)
    assert len(folder.lake.keys(ANOMALY_REPORT)) == 3
