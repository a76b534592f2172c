"""A refresh that is killed, at any moment and in any of its processes: the next one ends with the same bytes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from tests.folders import content_of, warehouse_of
from tests.runs import write_run

ROOT = Path(__file__).parents[2]
_REFRESH = """
import os, signal, sys
from pathlib import Path

def main():
    data, runs, jobs, refit, name, when = sys.argv[1:]
    from infrascope_core.pipeline import refresh
    from infrascope_core.store.folder import DataFolder
    if not name:
        import sklearn.ensemble  # takes longest, and is not the work
    rename = os.replace

    def killed(source, target):
        hit = name in str(target)
        if hit and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
        if hit and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    if name:
        os.replace = killed
    folder = DataFolder(Path(data), sources=(Path(runs),))
    print("ready", flush=True)
    sys.stdin.readline()
    refresh(folder, bool(refit), lambda product, done, total: print(product, flush=True), jobs=int(jobs))
    print("published", flush=True)

if __name__ == "__main__":
    main()
"""
"""Refreshes a folder; kills itself before or after the first rename to a path that holds a name, if there is one."""


@dataclass(frozen=True)
class Killed:
    """What became of a refresh: the product that it was at, and how long it was at work."""

    at: str
    seconds: float


def refreshed(
    data: Path, runs: Path, after_s: float | None = None, *, jobs: int = 1, refit: bool = False, who: str = "all",
    rename: tuple[str, str] = ("", ""),
) -> Killed:  # fmt: skip
    """Refresh in a process of its own, and kill it, or one of its processes, after so many seconds."""
    words = [sys.executable, "-c", _REFRESH, str(data), str(runs), str(jobs), "1" if refit else "", *rename]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        began = time.monotonic()
        if after_s is not None:
            _kill(process, began + after_s, who)
        said, complaint = process.communicate(timeout=120)
        seconds = time.monotonic() - began
    assert "Traceback" not in complaint or who == "worker", complaint
    return Killed((said.split() or ["before"])[-1], seconds)


def _kill(process: subprocess.Popen[str], moment: float, who: str) -> None:
    try:
        process.wait(max(0.0, moment - time.monotonic()))
    except subprocess.TimeoutExpired:
        if who == "all":
            os.killpg(process.pid, signal.SIGKILL)
            return
        parent = psutil.Process(process.pid)
        workers = [child for child in parent.children() if _is_worker(child)]
        if who == "parent":
            parent.kill()
            _, left = psutil.wait_procs(workers, timeout=5)
            for orphan in left:
                orphan.kill()
            assert not left, "orphans go on"
        elif workers:
            workers[0].kill()


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it has just ended
        return False


class Whole(NamedTuple):
    """What a refresh leaves: its files, and the tables of its warehouse."""

    content: dict[str, str]
    warehouse: dict[str, list[tuple[object, ...]]] | None


def assert_healed(data: Path, runs: Path, whole: Whole) -> None:
    """The next call ends as if nothing had been killed, and the one after it has nothing to do."""
    result = CliRunner().invoke(build_app(), ["run", str(runs), "--data", str(data)])
    assert result.exit_code == 0, result.output
    content = content_of(data)
    assert content.keys() == whole.content.keys()
    assert [name for name, digest in content.items() if digest != whole.content[name]] == []
    shown = warehouse_of(data)
    assert whole.warehouse in (None, shown)
    states = {path: path.stat() for path in data.rglob("*") if path.is_file()}
    again = CliRunner().invoke(build_app(), ["run", str(runs), "--data", str(data)])
    assert again.exit_code == 0, again.output
    assert {path: path.stat() for path in data.rglob("*") if path.is_file()}.keys() == states.keys()
    changed = [path.name for path, state in states.items() if path.stat().st_mtime_ns != state.st_mtime_ns]
    assert changed == ["settings.json"]


def some_runs(folder: Path, seconds: range) -> None:
    for second in seconds:
        burst = (120, 180) if second == 2 else None
        model, host = ("MLP", "h1") if second % 3 else ("CNN", "h2")
        path = write_run(folder, second, samples=250, model=model, burst=burst, host=host)
        if second == 2:
            labels = "start,end,fault,subsystem,metrics\n2026-11-01 10:00:14,2026-11-01 10:00:20,hog,CPU,\n"
            path.with_name(path.stem + ".faults.csv").write_text(labels)
    (folder / "notes.txt").write_text("not a run")


@pytest.fixture
def runs(tmp_path) -> Path:
    some_runs(tmp_path / "runs", range(1, 7))
    return tmp_path / "runs"


def moments(seconds: float, number: int) -> Iterator[float]:
    """Random moments of a stretch, one in each of so many equal parts."""
    chance = random.Random(number)
    return ((i + chance.random()) / number * seconds for i in range(number))


def test_killed_at_the_rename_of_the_warehouse(tmp_path):
    """The last that is published; all that came before is taken as it is."""
    write_run(tmp_path / "runs", 1, samples=60)
    killed = refreshed(tmp_path / "data", tmp_path / "runs", rename=("warehouse.duckdb", "before"))
    assert killed.at != "published"
    made = content_of(tmp_path / "data")
    assert not (tmp_path / "data" / "warehouse.duckdb").exists()
    assert_healed(tmp_path / "data", tmp_path / "runs", Whole(made, None))


RENAMED = (
    "settings.json", "telemetry/", "run_files/", "rejected_files.", "metric_catalog.", "thresholds.", "safetensors",
    "baselines.", "anomaly_scores/", "frequent_itemsets.", "reports/", "anomaly_report/", "run_page/", "fleet_page",
    ".fingerprints.json", "warehouse.duckdb",
)  # fmt: skip


@pytest.fixture
def whole(tmp_path, runs) -> Whole:
    """What a refresh leaves that nobody kills."""
    refreshed(tmp_path / "whole", runs)
    return Whole(content_of(tmp_path / "whole"), warehouse_of(tmp_path / "whole"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_renames_of_each_kind(tmp_path, runs, whole, when):
    for number, name in enumerate(RENAMED):
        killed = refreshed(tmp_path / f"data{number}", runs, rename=(name, when))
        assert killed.at != "published", f"nothing is renamed to {name}"
        assert_healed(tmp_path / f"data{number}", runs, whole)


@dataclass(frozen=True)
class Attack:
    """How often who is killed, of a refresh in so many processes, from scratch or one that fits all anew."""

    number: int
    jobs: int
    who: str
    refit: bool = False


ATTACKS = (
    Attack(50, 1, "all"), Attack(5, 1, "all", refit=True), Attack(8, 2, "all"), Attack(6, 2, "parent"),
    Attack(6, 2, "worker"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_killed_at_random_moments(tmp_path, runs, whole, attack):
    """One in each equal part of the time that a refresh takes, fits and publishing included."""
    seconds = refreshed(tmp_path / "timed", runs, jobs=attack.jobs, refit=attack.refit).seconds
    reached: Counter[str] = Counter()
    for i, moment in enumerate(moments(seconds, attack.number)):
        data = tmp_path / f"data{i}"
        killed = refreshed(data, runs, moment, jobs=attack.jobs, who=attack.who, refit=attack.refit)
        reached[killed.at] += 1
        assert_healed(data, runs, whole)
    assert len(reached) > 2


@pytest.mark.slow
def test_an_interruption_of_several_processes_is_one_sentence(tmp_path, runs):
    """Ctrl-C reaches all processes of a terminal."""
    program = "from infrascope_core.cli.app import main; main()"
    words = [sys.executable, "-c", program, "run", str(runs), "--data", str(tmp_path / "data"), "--jobs", "2"]
    for beginning in (".locks/refresh", "lake/telemetry"):
        with subprocess.Popen(words, cwd=ROOT, text=True, stderr=subprocess.PIPE, start_new_session=True) as process:
            while not (tmp_path / "data" / beginning).exists():
                time.sleep(0.01)
            time.sleep(0.3)
            os.killpg(process.pid, signal.SIGINT)
            _, complaint = process.communicate(timeout=120)
        assert process.returncode == 130
        *progress, last = complaint.splitlines()
        assert last == "infrascope: interrupted; finished work is kept, and the next call continues from there"
        assert all(re.match(r"infrascope: \w+: \d+ of \d+ in ", line) for line in progress), complaint
