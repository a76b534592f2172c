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
from infrascope_core.store.atomic import aside, sweep, write_text
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


def test_leftovers_are_removed_when_they_are_old_and_nothing_else_is(tmp_path):
    """Names of this version and of those before it, which had no common ending."""
    leftovers = [".a.parquet.x1.tmp", ".k2j3.tmp", ".warehouse.duckdb.x.tmp/", ".warehouse-abc/", ".m.npz.1s2"]
    others = ["a.parquet", "b.tmp", ".locks/", ".fingerprints.json", ".hidden", "warehouse-1/"]
    for folder in ("old", "new"):
        for name in (*leftovers, *others):
            path = tmp_path / folder / name
            path.parent.mkdir(exist_ok=True)
            if name.endswith("/"):
                path.mkdir()
                (path / "inside").touch()
            else:
                path.touch()
            if folder == "old":
                an_hour_ago(path)
    sweep(tmp_path / "old", tmp_path / "new", tmp_path / "absent")
    assert names(tmp_path / "old") == sorted(name.rstrip("/") for name in others)
    assert names(tmp_path / "new") == sorted(name.rstrip("/") for name in (*leftovers, *others))


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "inside").touch()
    (tmp_path / ".link.tmp").symlink_to(tmp_path / "kept")
    an_hour_ago(tmp_path / ".link.tmp")
    sweep(tmp_path)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["inside"]


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
