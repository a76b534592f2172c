"""What is not a file, under names of run files and of labels: rejected in one sentence, and nothing waits for it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infrascope_core.errors import LabelFileError, RunFileError
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files import labels
from infrascope_core.run_files.content import read_bounded, regular_file
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.reader import is_same_content, read_run_file
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, RUN_FILES
from infrascope_core.store.folder import DataFolder
from tests.runs import run_name, write_run


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """A test that waits for a FIFO is ended, and fails."""

    def too_late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def a_socket(path: Path) -> None:
    # the name of a socket may have no more than 107 bytes
    with socket.socket(socket.AF_UNIX) as own:
        short = path.parent / "s"
        own.bind(os.path.relpath(short))
        short.rename(path)


def a_link_to_a_fifo(path: Path) -> None:
    pipe = path.parent / "pipe"
    os.mkfifo(pipe)
    path.symlink_to(pipe)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "FIFO": (os.mkfifo, "not a regular file"),
    "socket": (a_socket, "not a regular file"),
    "folder": (Path.mkdir, "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "link to a FIFO": (a_link_to_a_fifo, "not a regular file"),
    "link into nowhere": (lambda path: path.symlink_to("nowhere"), "cannot be read (No such file or directory)"),
    "link to itself": (lambda path: path.symlink_to(path.name), "cannot be read (Too many levels of symbolic links)"),
}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest) -> tuple[Callable[[Path], object], str]:
    return ODD[request.param]


def test_reading_it_is_an_error(tmp_path, monkeypatch, odd):
    monkeypatch.chdir(tmp_path)
    make, fault = odd
    path = tmp_path / run_name(1)
    make(path)
    reads = (regular_file(path).__enter__, lambda: is_same_content(LocalFile(path), 0, ""), lambda: read_run_file(path))
    for read in reads:
        with pytest.raises(RunFileError) as caught:
            read()
        assert caught.value.fault == fault
    with pytest.raises(LabelFileError) as caught:
        read_labels(path, "run")
    assert caught.value.fault == fault


def taken(tmp_path: Path) -> tuple[DataFolder, dict[str, str]]:
    """The folder after all that lies in `runs` was ingested, and the reason by name of each rejected file."""
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    for key in Inbox.of(folder).keys:
        GRAPH.make(folder, RUN_FILES, key)
    GRAPH.make_pooled(folder, REJECTED_FILES)
    folder = folder.fresh()
    assert all(GRAPH.is_current(folder, RUN_FILES, key) for key in Inbox.of(folder).keys)
    rejected = folder.lake.read(REJECTED_FILES)
    return folder, {Path(path).name: reason for path, reason in rejected.select("path", "reason").iter_rows()}


def test_as_a_run_file_it_is_rejected_and_the_others_go_on(tmp_path, monkeypatch, odd):
    make, fault = odd
    good = write_run(tmp_path / "runs", 1)
    monkeypatch.chdir(tmp_path / "runs")
    make(tmp_path / "runs" / run_name(2))
    folder, rejected = taken(tmp_path)
    assert rejected == {run_name(2): fault}
    assert accepted(folder)["run_key"].to_list() == [good.stem]


def test_as_labels_it_is_rejected_and_the_run_goes_on_and_it_heals(tmp_path, monkeypatch, odd):
    make, fault = odd
    good = write_run(tmp_path / "runs", 1)
    monkeypatch.chdir(tmp_path / "runs")
    path = good.with_name(good.stem + ".faults.csv")
    before, _ = taken(tmp_path)
    make(path)
    assert not GRAPH.is_current(before.fresh(), RUN_FILES, good.stem)
    folder, rejected = taken(tmp_path)
    assert rejected == {path.name: fault}
    row = accepted(folder)
    assert (row["run_key"].to_list(), row["labelled"].to_list()) == ([good.stem], [False])
    (path.rmdir if path.is_dir() else path.unlink)()
    path.write_text("start,end,fault,subsystem,metrics\n2026-11-01 10:00:02,2026-11-01 10:00:03,hog,CPU,\n")
    folder, rejected = taken(tmp_path)
    assert rejected == {}
    assert folder.lake.read(FAULTS, good.stem)["fault"].to_list() == ["hog"]


def test_as_another_file_of_a_key_it_is_rejected_and_the_good_one_is_taken(tmp_path, monkeypatch, odd):
    make, fault = odd
    good = write_run(tmp_path / "runs" / "a", 1)
    (tmp_path / "runs" / "b").mkdir()
    monkeypatch.chdir(tmp_path / "runs" / "b")
    make(tmp_path / "runs" / "b" / good.name)
    folder, rejected = taken(tmp_path)
    assert rejected == {good.name: fault}
    assert accepted(folder)["source"].to_list() == [str(good)]


def test_a_second_file_of_another_size_is_not_read(tmp_path, monkeypatch):
    path = write_run(tmp_path, 1)
    monkeypatch.setattr("hashlib.sha256", lambda *_: pytest.fail("read"))
    assert not is_same_content(LocalFile(path), path.stat().st_size + 1, "")


def test_a_file_is_read_up_to_its_limit(tmp_path, monkeypatch):
    path = tmp_path / "run.faults.csv"
    path.write_bytes(b"12345")
    with regular_file(path) as stream:
        assert read_bounded(path, stream, 5) == b"12345"
    with pytest.raises(RunFileError, match="larger than 4 bytes, the limit"), regular_file(path) as stream:
        read_bounded(path, stream, 4)
    monkeypatch.setattr(labels, "_MAX_BYTES", 4)
    with pytest.raises(LabelFileError, match="larger than 4 bytes, the limit"):
        read_labels(path, "run")


def test_upper_case_endings_are_taken_and_double_ones_rejected(tmp_path):
    runs = tmp_path / "runs"
    upper = write_run(runs, 1)
    upper.rename(upper.with_suffix(".TXT"))
    for second, ending in ((2, ".txt.txt"), (3, ".txt.gz.gz"), (4, ".faults.csv.gz")):
        path = write_run(runs, second)
        path.rename(path.with_suffix(ending))
    folder, rejected = taken(tmp_path)
    row = accepted(folder).row(0, named=True)
    assert (row["run_key"], row["host"], row["source"]) == (upper.stem, "h1", str(upper.with_suffix(".TXT")))
    assert accepted(folder).height == 1
    assert sorted(rejected) == sorted(
        run_name(second).replace(".txt", ending)
        for second, ending in ((2, ".txt.txt"), (3, ".txt.gz.gz"), (4, ".faults.csv.gz"))
    )
    assert {reason.partition(";")[0] for reason in rejected.values()} == {
        "two endings",
        "labels lie beside their run file as STEM.faults.csv, in lower case and not packed",
    }


def test_upper_and_lower_case_endings_have_one_key(tmp_path):
    lower = write_run(tmp_path / "runs" / "a", 1)
    upper = write_run(tmp_path / "runs" / "b", 1, samples=200)
    upper = upper.rename(upper.with_suffix(".TXT"))
    folder, rejected = taken(tmp_path)
    assert accepted(folder)["source"].to_list() == [str(lower)]
    assert rejected == {upper.name: f"duplicate run key: {lower} is another file of the same name"}
