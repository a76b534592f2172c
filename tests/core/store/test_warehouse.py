"""The warehouse: statements over frames and files, and a DuckDB file that is always there, whole and current."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from infrascope_core.errors import StorageError
from infrascope_core.pipeline import GRAPH
from infrascope_core.quality.settings import ReanalysisSettings
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.store.sql import identifier, run_sql
from infrascope_core.store.warehouse import PLACE, VARIABLE, is_published, publish
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

SYMBOLS, QUALITY = "infrascope_core.symbols", "infrascope_core.quality"
SHOWN = {name: table for name, table in GRAPH.tables.items() if not table.wide}
"""Tables of the warehouse: telemetry, of which every run has other columns, is left out."""
START = datetime(2025, 5, 7)
LEVELS = pl.DataFrame({"metric_group": ["load"], "low": [1.0], "high": [2.0]})


def windows(*values: float, run: str = "run") -> pl.DataFrame:
    rows = [(run, "h", i, "load", START, value, 10, 1) for i, value in enumerate(values)]
    return pl.DataFrame(rows, schema=GROUP_WINDOWS.schema, orient="row")


def baskets(*values: float, run: str = "run") -> pl.DataFrame:
    rows = [(run, "h", i, "load", START, value, "LOW", "load_LOW") for i, value in enumerate(values)]
    return pl.DataFrame(rows, schema=BASKETS.schema, orient="row")


def thresholds(**columns) -> pl.DataFrame:
    row = dict.fromkeys(THRESHOLDS.schema.names()) | {"platform": "gpu", "metric_group": "load"} | columns
    return pl.DataFrame([row], schema=THRESHOLDS.schema)


def faults(run: str) -> pl.DataFrame:
    return pl.DataFrame([dict.fromkeys(FAULTS.schema.names()) | {"run_key": run}], schema=FAULTS.schema)


# -- run_sql


def items(relation) -> list[str]:
    return run_sql(SYMBOLS, "discretize", {"group_windows": relation, "thresholds": LEVELS})["item"].to_list()


def test_a_statement_reads_frames():
    assert items(windows(0, 1.5, 9)) == ["load_LOW", "load_MED", "load_HIGH"]
    assert items(windows()) == []


@pytest.mark.parametrize("folder", ["plain", "it's a [1] *folder?", 'quo"te', "ü"])
def test_a_statement_reads_files_of_any_folder(tmp_path, folder):
    paths = [tmp_path / folder / f"{i}.parquet" for i in range(2)]
    paths[0].parent.mkdir()
    for i, path in enumerate(paths):
        windows(9.0 * i, run=f"r{i}").write_parquet(path)
    # the neighbours whose names the folder's would match as a pattern
    (tmp_path / "it's a 1 a folders").mkdir()
    windows(5, 5).write_parquet(tmp_path / "it's a 1 a folders" / "0.parquet")
    assert items(paths) == ["load_LOW", "load_HIGH"]
    assert items(paths[:1]) == ["load_LOW"]


def test_one_call_leaves_nothing_for_the_next(tmp_path):
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    windows(0).write_parquet(first)
    windows(9).write_parquet(second)
    for _ in range(2):
        assert items([first]) == ["load_LOW"]
        assert items(windows(1.5)) == ["load_MED"]
        assert items([second]) == ["load_HIGH"]
    with pytest.raises(duckdb.Error, match="group_windows"):
        run_sql(SYMBOLS, "discretize", {"thresholds": LEVELS})


def test_calls_side_by_side_do_not_see_each_other(tmp_path):
    files = {"load_LOW": tmp_path / "1.parquet", "load_HIGH": tmp_path / "2.parquet"}
    windows(0).write_parquet(files["load_LOW"])
    windows(9).write_parquet(files["load_HIGH"])
    work = [("load_LOW", [files["load_LOW"]]), ("load_HIGH", [files["load_HIGH"]]), ("load_MED", windows(1.5))] * 30
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda job: items(job[1]), work))
    assert found == [[expected] for expected, _ in work]


def test_parameters_are_values_and_never_text():
    hostile = "'; DROP TABLE quality; --"
    quality = pl.DataFrame(
        {
            "run_key": ["r"], "host": ["h"], "metric": [hostile], "unit": [""], "subsystem": ["Other"],
            "samples": [2], "missing": [2], "infinite": [0], "zeros": [0], "mean": [0.0], "std": [0.0], "cv": [0.0],
            "min": [None], "max": [None], "distinct": [0], "rises": [0], "falls": [0],
            "declared": [hostile],
        },
        schema_overrides={"min": pl.Float64, "max": pl.Float64},
    )  # fmt: skip
    runs = pl.DataFrame(
        {"run_key": ["r"], "platform": ["cpu"], "started_at": [None], "ended_at": [None]},
        schema_overrides=dict.fromkeys(("started_at", "ended_at"), pl.Datetime("us")),
    )
    values = ReanalysisSettings().model_dump() | {"names": "metric", "constancy": hostile, "near_constant": 0.1}
    values |= {"known_counters": "a", "known_levels": "b"}
    table = run_sql(QUALITY, "catalog", {"quality": quality, "runs": runs}, levels=[hostile], **values)
    assert table.select("metric", "status").rows() == [(hostile, "always_missing")]


@pytest.mark.parametrize("name", ["a", "a b", 'a"b', '";DROP TABLE x;--', "ä", "select"])
def test_an_identifier_stays_one_name(name):
    assert duckdb.sql(f"SELECT 1 AS {identifier(name)}").columns == [name]


# -- publish


def tables_of(target) -> dict[str, tuple[str, int, str]]:
    """Name -> (kind, rows, comment) of all that another process sees in a warehouse file, but where it was built."""
    with duckdb.connect(str(target), read_only=True) as con:
        kinds = con.execute(
            "SELECT table_name, 'table', comment FROM duckdb_tables() "
            "UNION ALL SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        return {
            name: (kind, con.execute(f"SELECT count(*) FROM {identifier(name)}").fetchone()[0], comment)
            for name, kind, comment in kinds
            if name != PLACE
        }


@pytest.fixture
def folder(tmp_path) -> DataFolder:
    return DataFolder(tmp_path)


@pytest.fixture
def lake(folder) -> Lake:
    return folder.lake


def test_an_empty_lake_shows_every_table_of_the_contract(tmp_path):
    target = publish(DataFolder(tmp_path / "new folder"), GRAPH)
    assert target == tmp_path / "new folder" / "warehouse.duckdb"
    assert tables_of(target) == {name: ("table", 0, table.meaning) for name, table in SHOWN.items()}
    with duckdb.connect(str(target), read_only=True) as con:
        for name, table in SHOWN.items():
            assert con.table(name).pl().schema == table.schema


def test_pooled_products_are_tables_and_per_run_products_are_views(folder, lake):
    lake.write(thresholds(low=1.5), THRESHOLDS)
    lake.write(baskets(1, 2, run="r1"), BASKETS, "r1")
    lake.write(baskets(3, run="r2"), BASKETS, "r2")
    target = publish(folder, GRAPH)
    shown = tables_of(target)
    assert shown["thresholds"] == ("table", 1, SHOWN["thresholds"].meaning)
    assert shown["baskets"] == ("view", 3, SHOWN["baskets"].meaning)
    assert shown["group_windows"] == ("table", 0, SHOWN["group_windows"].meaning)
    assert set(shown) == set(SHOWN)
    # a view shows a run that comes later, and not the leavings of a write that was cut off
    lake.write(baskets(4, 5, run="r3"), BASKETS, "r3")
    (lake.root / "baskets" / ".cut-off.tmp").write_bytes(b"PAR1")
    assert tables_of(target)["baskets"][1] == 5


def test_findings_are_copied(folder, lake):
    """Few rows per run, and what a client asks for first: they need no lake beside the file."""
    copied = {table.name for product in GRAPH.products if product.copied for table in product.tables if not table.wide}
    assert copied >= {"run_files", "faults", "anomaly_episodes", "anomaly_report"}
    for key in ("r1", "r2"):
        lake.write(faults(key), FAULTS, key)
    target = publish(folder, GRAPH)
    assert tables_of(target)["faults"] == ("table", 2, SHOWN["faults"].meaning)
    with duckdb.connect(str(target), read_only=True) as con:
        assert con.table("faults").pl().schema == FAULTS.schema


def test_values_come_out_as_they_went_in(folder, lake):
    frame = thresholds(low=0.1 + 0.2, high=5e-324, degenerate=True, samples=2**62)
    lake.write(frame, THRESHOLDS)
    with duckdb.connect(str(publish(folder, GRAPH)), read_only=True) as con:
        assert con.table("thresholds").pl().equals(frame)


NAMES = ["it's a folder", 'with "quotes"', "semi;colon -- ü", "run[1]", "a * b"]


@pytest.mark.parametrize("name", NAMES)
def test_the_data_folder_may_have_any_name(tmp_path, name):
    folder = DataFolder(tmp_path / name)
    folder.lake.write(baskets(1), BASKETS, "r1")
    assert tables_of(publish(folder, GRAPH))["baskets"][1] == 1


def test_the_data_folder_may_look_like_a_pattern(tmp_path):
    (tmp_path / "run1" / "lake" / "baskets").mkdir(parents=True)
    baskets(7, 7, 7, run="other").write_parquet(tmp_path / "run1" / "lake" / "baskets" / "other.parquet")
    folder = DataFolder(tmp_path / "run[1]")
    folder.lake.write(baskets(1), BASKETS, "r1")
    assert tables_of(publish(folder, GRAPH))["baskets"][1] == 1


def test_views_hold_wherever_the_reader_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(Path("data"))
    folder.lake.write(baskets(1), BASKETS, "r1")
    publish(folder, GRAPH)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert tables_of(tmp_path / "data" / "warehouse.duckdb")["baskets"][1] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_was_moved_can_be_queried(tmp_path, name):
    """Copied tables at once; views when the client says where the folder lies, or after it was published again."""
    old = DataFolder(tmp_path / "old")
    old.lake.write(thresholds(low=1.5), THRESHOLDS)
    old.lake.write(baskets(1, 2), BASKETS, "r1")
    old.lake.write(faults("r1"), FAULTS, "r1")
    publish(old, GRAPH)
    assert is_published(old, GRAPH)
    moved = DataFolder(tmp_path / name)
    old.root.rename(moved.root)
    with duckdb.connect(str(moved.warehouse), read_only=True) as con:
        assert con.execute("SELECT low FROM thresholds").fetchall() == [(1.5,)]
        assert con.execute("SELECT run_key FROM faults").fetchall() == [("r1",)]
        with pytest.raises(duckdb.IOException, match="No files found"):
            con.execute("SELECT count(*) FROM baskets")
        con.execute(f"SET VARIABLE {VARIABLE} = $place", {"place": glob.escape(str(moved.root))})
        assert con.execute("SELECT count(*) FROM baskets").fetchone() == (2,)
    assert not is_published(moved, GRAPH)
    publish(moved, GRAPH)
    assert is_published(moved, GRAPH)
    assert tables_of(moved.warehouse)["baskets"][1] == 2


def test_a_copy_shows_itself_and_not_the_original(tmp_path):
    original = DataFolder(tmp_path / "original")
    original.lake.write(baskets(1), BASKETS, "r1")
    publish(original, GRAPH)
    copy = DataFolder(tmp_path / "copy")
    shutil.copytree(original.root, copy.root)
    original.lake.write(baskets(1, 2, 3), BASKETS, "r1")
    assert not is_published(copy, GRAPH)
    publish(copy, GRAPH)
    assert tables_of(copy.warehouse)["baskets"][1] == 1


def test_whether_the_warehouse_shows_the_lake_as_it_is(folder, lake):
    assert not is_published(folder, GRAPH)
    lake.write(thresholds(low=1.0), THRESHOLDS)
    publish(folder, GRAPH)
    assert is_published(folder, GRAPH)
    for change in (
        lambda: lake.write(thresholds(low=2.0), THRESHOLDS),
        lambda: lake.write(baskets(1), BASKETS, "r1"),
        lambda: lake.drop(BASKETS, "r1"),
        lambda: lake.write(faults("r1"), FAULTS, "r1"),
        lambda: lake.write(faults("r1").clear(), FAULTS, "r1"),
        lambda: lake.drop(FAULTS, "r1"),
        lambda: folder.warehouse.write_bytes(b"not a database"),
        folder.warehouse.unlink,
    ):
        change()
        assert not is_published(folder, GRAPH)
        publish(folder, GRAPH)
        assert is_published(folder, GRAPH)


def test_a_view_shows_what_comes_into_its_folder_by_itself(folder, lake):
    lake.write(baskets(1), BASKETS, "r1")
    publish(folder, GRAPH)
    lake.write(baskets(1, 2), BASKETS, "r1")
    lake.write(baskets(1), BASKETS, "r2")
    assert is_published(folder, GRAPH)
    assert tables_of(folder.warehouse)["baskets"][1] == 3


_OPEN = """
import duckdb, json, sys
con = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
if sys.argv[2] == "write":
    con.execute("CREATE TABLE mine AS SELECT 1 AS a")
for line in sys.stdin:
    print(json.dumps(con.execute(line).fetchall()), flush=True)
"""


@contextmanager
def someone_has_open(target, mode: str):
    """Another process with the file open; yields a function that asks it."""
    with subprocess.Popen(
        [sys.executable, "-c", _OPEN, str(target), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:

        def ask(question: str):
            other.stdin.write(question + "\n")
            other.stdin.flush()
            return json.loads(other.stdout.readline())

        ask("SELECT 1")
        yield ask
        other.stdin.close()


@pytest.mark.parametrize("mode", ["read", "idle"])
def test_whoever_has_the_old_file_open_keeps_it(folder, lake, mode):
    lake.write(thresholds(low=1.0), THRESHOLDS)
    target = publish(folder, GRAPH)
    with someone_has_open(target, mode) as ask:
        lake.write(thresholds(low=2.0), THRESHOLDS)
        publish(folder, GRAPH)
        assert ask("SELECT low FROM thresholds") == [[1.0]]
        with duckdb.connect(str(target), read_only=True) as con:
            assert con.execute("SELECT low FROM thresholds").fetchall() == [(2.0,)]


def test_someone_who_writes_into_the_old_file_does_not_spoil_the_new_one(folder):
    target = publish(folder, GRAPH)
    with someone_has_open(target, "write"):
        publish(folder, GRAPH)
        assert set(tables_of(target)) == set(SHOWN)


FULL_DISKS = (
    OSError(28, "No space left on device"),
    duckdb.IOException('IO Error: Could not write file "x.tmp": No space left on device'),
    duckdb.TransactionException("TransactionContext Error: Failed to commit: No space left on device"),
)  # fmt: skip


@pytest.mark.parametrize("error", FULL_DISKS, ids=lambda error: type(error).__name__)
def test_a_failed_build_leaves_the_old_file_and_nothing_beside_it(folder, lake, error):
    lake.write(thresholds(low=1.0), THRESHOLDS)
    target = publish(folder, GRAPH)

    @contextmanager
    def full(path):
        with duckdb.connect(path) as con:
            con.execute("CREATE TABLE half AS SELECT 1")
            raise error
            yield con

    with pytest.raises(StorageError, match=r"warehouse.duckdb: cannot be written, .* there \(No space left") as caught:
        publish(folder, GRAPH, full)
    assert caught.value.full
    assert sorted(path.name for path in folder.root.iterdir()) == [".locks", "lake", "warehouse.duckdb"]
    assert tables_of(target)["thresholds"][1] == 1


def test_the_file_is_whole_before_it_is_closed(folder, lake):
    """What fails when it is closed, for want of room, is not raised, and the file would be empty."""
    lake.write(thresholds(low=1.0), THRESHOLDS)

    @contextmanager
    def closed_as_it_is(path):
        with duckdb.connect(path) as con:
            con.execute("PRAGMA disable_checkpoint_on_shutdown")
            yield con

    assert tables_of(publish(folder, GRAPH, closed_as_it_is))["thresholds"][1] == 1


def test_the_file_is_opened_for_writing_only_where_it_is_built(folder):
    opened = []

    def connect(path):
        opened.append(path)
        return duckdb.connect(path)

    target = publish(folder, GRAPH, connect)
    publish(folder, GRAPH, connect)
    assert len(opened) == 2
    assert str(target) not in opened
    assert sorted(path.name for path in folder.root.iterdir()) == [".locks", "warehouse.duckdb"]


@pytest.mark.parametrize("ahead_s", [-86_400, 86_400])
def test_what_was_written_by_another_clock_is_shown(folder, lake, ahead_s):
    """It was set back, or is that of another machine: what is newer bears an earlier time."""
    lake.write(thresholds(low=1.0), THRESHOLDS)
    lake.write(faults("r1"), FAULTS, "r1")
    publish(folder, GRAPH)
    then = time.time() + ahead_s
    for path in (lake.write(thresholds(low=2.0), THRESHOLDS), lake.write(faults("r2"), FAULTS, "r2").parent):
        os.utime(path, (then, then))
        assert not is_published(folder, GRAPH)
        publish(folder, GRAPH)
        assert is_published(folder, GRAPH)
