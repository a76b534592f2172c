"""Files are whole or not there, and what killed writers leave is removed later."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrascope_core.errors import StorageError
from infrascope_core.store.atomic import aside, leftovers, sweep, write_text
from infrascope_core.store.folder import DataFolder

ROOT = Path(__file__).parents[3]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "deep" / "down" / "file"
    with aside(target) as path:
        path.write_text("new")
        assert path.parent == target.parent
        assert not target.exists()
    assert target.read_text() == "new"
    assert names(target.parent) == ["file"]
    assert target.stat().st_mode & 0o777 == 0o644


def test_whatever_goes_wrong_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    for error in (KeyboardInterrupt(), ValueError("x")):
        with pytest.raises(type(error)), aside(target) as path:
            path.write_text("ne")
            raise error
    for number, full in ((errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, True), (errno.EFBIG, False)):
        with pytest.raises(StorageError) as caught, aside(target) as path:
            path.write_text("ne")
            raise OSError(number, os.strerror(number))
        assert caught.value.full is full
        assert str(caught.value).startswith(f"{target}: cannot be written, with ")
        assert str(caught.value).endswith(f" bytes free there ({os.strerror(number)})")
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file/below/target: cannot be written, .*\(Not a directory\)"):
        write_text(tmp_path / "file" / "below" / "target", "x")


def test_text_is_utf_8_with_unix_line_ends(tmp_path):
    write_text(tmp_path / "text", "ä\nb\r\n")
    assert (tmp_path / "text").read_bytes() == "ä\nb\r\n".encode()


def test_what_is_not_a_regular_file_is_written_to_and_not_replaced(tmp_path):
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    write_text(null, "gone")
    assert null.is_symlink()
    assert names(tmp_path) == ["null"]


def test_a_name_of_the_greatest_length_fits(tmp_path):
    write_text(tmp_path / ("n" * 255), "x")
    assert names(tmp_path) == ["n" * 255]


def an_hour_ago(path: Path) -> None:
    os.utime(path, (time.time() - 3700,) * 2, follow_symlinks=False)


def put(folder: Path, *names: str, old: bool) -> None:
    """Files, and folders where a name ends so."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
            (path / "inside").touch()
        else:
            path.touch()
        if old:
            an_hour_ago(path)


OURS = [
    "lake/.a.parquet.x1.tmp", "lake/.k2j3.tmp", "lake/telemetry/.r.parquet.x.tmp", "lake/telemetry/.k9.tmp",
    ".warehouse.duckdb.x.tmp/", ".settings.json.x.tmp", "models/.m.x.tmp", "reports/.r.md.x.tmp",
    # of versions before this one, which had no common ending
    ".warehouse-abc/", "models/.m.npz.1s2",
]  # fmt: skip
OTHERS = [
    "lake/a.parquet", "lake/b.tmp", "lake/.fingerprints.json", "lake/telemetry/r.parquet", ".locks/", "warehouse-1/",
    "models/m.npz", ".mine.tmp", ".notes.npz.bak", "mine/.x.tmp",
]  # fmt: skip


@pytest.mark.parametrize("old", [True, False])
def test_leftovers_are_removed_when_they_are_old_and_nothing_else_is(tmp_path, old):
    put(tmp_path, *OURS, *OTHERS, old=old)
    DataFolder(tmp_path).check()
    assert all((tmp_path / name).exists() for name in OTHERS)
    assert [name for name in OURS if (tmp_path / name).exists()] == ([] if old else OURS)


def test_leftovers_of_the_time_before_the_clock_was_set_back_are_removed(tmp_path):
    put(tmp_path, *OURS, old=False)
    for name in OURS:
        os.utime(tmp_path / name, (time.time() + 86_400,) * 2)
    DataFolder(tmp_path).check()
    assert [name for name in OURS if (tmp_path / name).exists()] == []


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    put(tmp_path, "kept/", old=True)
    (tmp_path / ".link.tmp").symlink_to(tmp_path / "kept")
    an_hour_ago(tmp_path / ".link.tmp")
    sweep([tmp_path / ".link.tmp", tmp_path / "absent"])
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["inside"]


def test_the_leftovers_of_a_file_are_those_of_its_name(tmp_path):
    target = tmp_path / "a[1].txt"
    put(tmp_path, ".a[1].txt.x.tmp", ".a1.txt.x.tmp", ".a[1].txt.x", "a[1].txt.x.tmp", old=False)
    assert leftovers(target) == [tmp_path / ".a[1].txt.x.tmp"]
    with aside(tmp_path / ("n" * 200)) as path:
        assert leftovers(tmp_path / ("n" * 200)) == [path]


_KILLED = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
import duckdb, polars as pl
from infrascope_core.pipeline import GRAPH
from infrascope_core.store.atomic import write_text
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.warehouse import publish

folder = DataFolder(Path(sys.argv[1]))
where = sys.argv[2]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

@contextmanager
def connect(path):
    con = duckdb.connect(path)
    con.execute("CREATE TABLE half AS SELECT 1")
    die()
    yield con

if where == "warehouse":
    publish(folder, GRAPH, connect)
elif where == "lake":
    pl.DataFrame.write_parquet = lambda frame, file, **options: (Path(file).write_bytes(b"PAR1"), die())
    folder.lake.write(pl.DataFrame({"a": [1]}), "telemetry", "r")
else:
    Path.write_text = lambda path, text, **options: (path.write_bytes(text[:1].encode()), die())
    write_text(folder.root / where / "file", "text")
"""


@pytest.mark.parametrize("where", ["warehouse", "lake", "reports", "models"])
def test_what_a_kill_leaves_is_gone_after_the_next_call_that_comes_an_hour_later(tmp_path, where):
    folder = DataFolder(tmp_path / "data")
    folder.root.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder.root), where], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr
    (left,) = folder.root.rglob(".*.tmp")
    folder.check()
    assert left.exists()
    an_hour_ago(left)
    folder.check()
    assert not [*folder.root.rglob(".*.tmp")]
