"""Run files that are deleted: what was made of them stays, until somebody says otherwise."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from infrascope_core.errors import InfraScopeError
from infrascope_core.pipeline import GRAPH, forget, refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from tests.runs import write_run


@pytest.fixture
def folder(tmp_path):
    for second in (1, 2, 3):
        write_run(tmp_path / "runs", second)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    return folder


def files_of(folder: DataFolder, key: str) -> list[str]:
    return [str(path) for path in folder.root.rglob(f"{key}*")]


def test_what_was_made_of_a_deleted_file_stays_until_it_is_forgotten(folder):
    first, *others = accepted(folder)["run_key"]
    (folder.sources[0] / f"{first}.txt").unlink()
    refresh(folder)
    assert accepted(folder.fresh())["run_key"].to_list() == [first, *others]
    picture = folder.picture("baskets", first)
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"PNG")
    assert picture in map(Path, files_of(folder, first))

    forget(folder, first)
    after = folder.fresh()
    assert files_of(folder, first) == []
    assert accepted(after)["run_key"].to_list() == others
    assert all(GRAPH.is_current(after, p.name) for p in GRAPH.order if p.scope in ("mined", "compared"))
    with duckdb.connect(str(folder.warehouse), read_only=True) as con:
        for table in ("run_files", "anomaly_report", "group_windows"):
            keys = con.execute(f"SELECT DISTINCT run_key FROM {table} ORDER BY 1").fetchall()
            assert [key for (key,) in keys] == others, table


@pytest.mark.parametrize("after", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_what_was_interrupted_is_no_run_any_more_and_is_finished_by_the_next_call(folder, monkeypatch, after):
    first, *others = accepted(folder)["run_key"]
    (folder.sources[0] / f"{first}.txt").unlink()
    unlink, left = Path.unlink, ["a file"] * after

    def interrupted(path, missing_ok=False):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            forget(folder, first)
    assert files_of(folder, first)
    refresh(folder)  # nothing is made of a part
    assert accepted(folder.fresh())["run_key"].to_list() == others
    forget(folder.fresh(), first)
    assert files_of(folder, first) == []
    with pytest.raises(InfraScopeError, match="there is no run of that name"):
        forget(folder.fresh(), first)


def test_a_run_whose_file_is_there_is_not_forgotten(folder):
    key = accepted(folder)["run_key"][0]
    with pytest.raises(InfraScopeError, match=r"\.txt: still lies there and would be read again; delete it first"):
        forget(folder, key)
    assert files_of(folder, key)


def test_a_run_that_lies_in_an_archive_is_not_forgotten_while_the_archive_is_there(tmp_path):
    path = write_run(tmp_path, 1)
    archive = tmp_path / "runs.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(path, path.name)
    folder = DataFolder(tmp_path / "data", sources=(archive,))
    refresh(folder)
    with pytest.raises(InfraScopeError, match=r"runs\.zip/train_.*: still lies there and would be read again"):
        forget(folder, path.stem)
    archive.unlink()
    forget(replace(folder, sources=()), path.stem)
    assert accepted(folder.fresh()).is_empty()


@pytest.mark.parametrize("name", ["no_such_run", "../data", ""])
def test_an_unknown_run_is_named(folder, name):
    with pytest.raises(InfraScopeError, match=r"there is no run of that name|is not a valid run key"):
        forget(folder, name)
