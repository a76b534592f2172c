"""The warehouse as a client meets it: filled after the first run, and wherever the folder is put later."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.warehouse import VARIABLE, is_published
from infrascope_core.symbols.tables import BASKETS
from tests.runs import run_name, write_run


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """A folder after one refresh of five runs, of which one holds a burst."""
    place = tmp_path_factory.mktemp("once")
    for second in range(1, 6):
        write_run(place / "runs", second, samples=600, burst=(300, 380) if second == 2 else None)
    folder = DataFolder(place / "data", sources=(place / "runs",))
    refresh(folder)
    return folder


def rows(folder: Path, table: str, before: str = "SELECT 1") -> int:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as con:
        con.execute(before)
        ((count,),) = con.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(count)


def test_findings_are_there_after_the_first_run(once: DataFolder) -> None:
    for table in (ANOMALY_EPISODES, ANOMALY_REPORT):
        assert rows(once.root, table.name) == once.lake.read_all(table).height > 0
    with duckdb.connect(str(once.warehouse), read_only=True) as con:
        worst = con.execute("SELECT run_key FROM anomaly_episodes ORDER BY severity DESC LIMIT 1").fetchone()
    assert worst == (run_name(2).removesuffix(".txt"),)


@pytest.mark.parametrize("words", [["summary"], ["report", "--all"]])
def test_a_folder_that_was_moved_works_after_any_command(once: DataFolder, tmp_path: Path, words: list[str]) -> None:
    moved = tmp_path / "it's [moved]"
    shutil.copytree(once.root, moved)
    found = once.lake.read_all(ANOMALY_EPISODES).height, once.lake.read_all(BASKETS).height
    shutil.copytree(once.root, tmp_path / "gone")
    DataFolder(tmp_path / "gone").warehouse.unlink()
    refresh(DataFolder(tmp_path / "gone"))
    shutil.copy(tmp_path / "gone" / "warehouse.duckdb", moved / "warehouse.duckdb")
    shutil.rmtree(tmp_path / "gone")
    assert rows(moved, "anomaly_episodes") == found[0]
    with pytest.raises(duckdb.IOException):
        rows(moved, "baskets")
    place = str(moved).replace("'", "''").replace("[", "[[]")
    assert rows(moved, "baskets", f"SET VARIABLE {VARIABLE} = '{place}'") == found[1]
    assert not is_published(DataFolder(moved), GRAPH)
    result = CliRunner().invoke(build_app(), [*words, "--data", str(moved)])
    assert result.exit_code == 0, result.output
    assert rows(moved, "baskets") == found[1]


def test_a_folder_that_nobody_may_write_can_still_be_read(once: DataFolder, tmp_path: Path, monkeypatch) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(once.root, copy)
    before = (copy / "warehouse.duckdb").stat()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("infrascope_core.store.warehouse.tempfile.TemporaryDirectory", refuse)
    result = CliRunner().invoke(build_app(), ["summary", "--data", str(copy)])
    assert result.exit_code == 0, result.output
    assert (copy / "warehouse.duckdb").stat().st_ino == before.st_ino
