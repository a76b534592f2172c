"""Two processes that fill one data folder at the same time: as if one had gone after the other."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import duckdb
import polars as pl
import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope
from infrascope_core.store.sql import identifier
from tests.folders import WHEN, content_of, warehouse_of
from tests.locations import Location
from tests.runs import write_run

ROOT = Path(__file__).parents[2]
_REFRESH = """
import sys
from pathlib import Path
from infrascope_core.pipeline import refresh
from infrascope_core.store.folder import DataFolder
folder = DataFolder(Path(sys.argv[1]), sources=(Path(sys.argv[2]),))
print("ready", flush=True)
sys.stdin.readline()
refresh(folder)
"""


def at_the_same_time(data: Path, *sources: Path) -> None:
    """Refresh a data folder from each source in a process of its own, all starting together."""
    words = [sys.executable, "-c", _REFRESH, str(data)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([*words, str(source)], cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        for source in sources
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint


def tables(data: Path) -> dict[str, pl.DataFrame]:
    """All tables of the lake, without the times of the work."""
    lake = DataFolder(data).lake
    found = {}
    for product in GRAPH.order:
        for table in product.tables:
            for key in lake.keys(table) if product.scope.per_run else [None]:
                if lake.has(table, key):
                    frame = lake.read(table, key)
                    found[f"{table.name} {key}"] = frame.drop(WHEN.get(table.name, []))
    return found


def assert_same(left: dict[str, pl.DataFrame], right: dict[str, pl.DataFrame]) -> None:
    assert sorted(left) == sorted(right)
    for name, frame in left.items():
        assert frame.equals(right[name]), name


def assert_current(data: Path, *sources: Path) -> None:
    """Nothing is left to do, and nothing is left behind."""
    folder = DataFolder(data, sources=sources)
    for product in GRAPH.order:
        if not product.scope.per_run and product.scope is not Scope.STUDIED:
            assert GRAPH.is_current(folder, product.name), product.name
    assert not [*data.rglob(".*.tmp")]
    with duckdb.connect(str(folder.warehouse), read_only=True) as con:
        for product in GRAPH.order:
            for table in product.tables:
                if product.copied and not table.wide:
                    rows = con.execute(f"SELECT count(*) FROM {identifier(table.name)}").fetchone()
                    assert rows == (folder.lake.read_all(table).height,)


@pytest.fixture
def runs(tmp_path) -> Path:
    for second in range(1, 4):
        burst = (120, 180) if second == 2 else None
        write_run(tmp_path / "runs" / "a", second, samples=250, model="MLP", burst=burst)
        write_run(tmp_path / "runs" / "b", second, samples=250, model="CNN", host="h2")
    (tmp_path / "runs" / "a" / "notes.txt").write_text("not a run")
    return tmp_path / "runs"


@pytest.mark.slow
def test_two_that_refresh_the_same_runs(tmp_path, runs):
    at_the_same_time(tmp_path / "both", runs, runs)
    refresh(DataFolder(tmp_path / "one", sources=(runs,)))
    assert_same(tables(tmp_path / "both"), tables(tmp_path / "one"))
    assert_current(tmp_path / "both", runs)


@pytest.mark.slow
def test_two_that_bring_different_workloads(tmp_path, runs):
    at_the_same_time(tmp_path / "both", runs / "a", runs / "b")
    orders = []
    for order in ("ab", "ba"):
        for part in order:
            refresh(DataFolder(tmp_path / order, sources=(runs / part,)))
        orders.append(tables(tmp_path / order))
    found = tables(tmp_path / "both")
    assert sorted(found) == sorted(orders[0]) == sorted(orders[1])
    assert any(all(frame.equals(order[name]) for name, frame in found.items()) for order in orders)
    # the inventory is of the sources of both
    for part in "ab":
        assert_current(tmp_path / "both", runs / part)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_one_that_begins_while_the_other_is_at_work(tmp_path, runs, share):
    program = "from infrascope_core.cli.app import main; main()"
    words = [sys.executable, "-c", program, "run", str(runs), "--data"]
    began = time.monotonic()
    subprocess.run([*words, str(tmp_path / "one")], check=True, cwd=ROOT, capture_output=True)
    both = [*words, str(tmp_path / "both")]
    seconds = time.monotonic() - began
    with subprocess.Popen(both, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        time.sleep(share * seconds)
        second = subprocess.run(both, check=False, cwd=ROOT, capture_output=True, text=True)
        _, complaint = first.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 0), (complaint, second.stderr)
    assert "Traceback" not in second.stderr + complaint.decode()
    assert content_of(tmp_path / "both") == content_of(tmp_path / "one")
    assert warehouse_of(tmp_path / "both") == warehouse_of(tmp_path / "one")
    assert_current(tmp_path / "both", runs)


_HALTING = """
import sys, time
from pathlib import Path
from infrascope_core.pipeline import refresh
from infrascope_core.store.folder import DataFolder

def halt(product, done, total):
    if product == "run_files" and done == 3:
        print("three of six", flush=True)
        time.sleep(8)

refresh(DataFolder(Path(sys.argv[1]), sources=(Path(sys.argv[2]),)), on_progress=halt)
"""


@pytest.mark.slow
def test_dagster_fits_nothing_on_half_of_what_a_refresh_is_reading(tmp_path, instance, runs):
    location = Location(tmp_path, instance, runs=runs)
    words = [sys.executable, "-c", _HALTING, str(location.folder.root), str(runs)]
    with subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "three of six\n"
        read = location.folder.lake.keys("run_files")
        assert len(read) == 3
        per_run = [t.name for product in GRAPH.order if product.scope is Scope.PER_RUN for t in product.tables]
        assert location.materialize(*per_run, keys=read).success
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
    refresh(DataFolder(tmp_path / "one", sources=(runs,)))
    assert_same(tables(location.folder.root), tables(tmp_path / "one"))
    assert_current(location.folder.root, runs)
