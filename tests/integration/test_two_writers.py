"""Two processes that fill one data folder at the same time: as if one had gone after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope
from infrascope_core.store.sql import identifier
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
WHEN = {"baselines": ["fitted_at"], "rejected_files": ["seen_at"]}
"""Columns that hold the time of the work."""


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
    assert_current(tmp_path / "both", runs)
