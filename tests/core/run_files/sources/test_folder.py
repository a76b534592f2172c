"""Files of this machine: which are found, and which are left for later because somebody writes them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from infrascope_core.errors import ChangingFileError, RunFileError
from infrascope_core.run_files.content import regular_file
from infrascope_core.run_files.sources import folder as folders
from infrascope_core.run_files.sources.folder import LocalFile, growing, list_paths
from tests.runs import run_name, write_run


@pytest.fixture
def watching(monkeypatch):
    monkeypatch.setattr(folders, "_WATCH_S", 0.3)


class Writer(threading.Thread):
    """Adds whole lines to a file, ten a second and more, until it is told to stop."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.line = path, path.read_text().splitlines(keepends=True)[-1]
        self.done = threading.Event()

    def run(self) -> None:
        with self.path.open("a") as file:
            while not self.done.wait(0.02):
                file.write(self.line)
                file.flush()


def test_a_file_that_is_written_is_left_for_the_next_look_and_named(tmp_path, watching):
    still, written = write_run(tmp_path, 1, samples=20), write_run(tmp_path, 2, samples=20)
    writer = Writer(written)
    writer.start()
    try:
        found = list_paths(tmp_path)
    finally:
        writer.done.set()
        writer.join()
    assert [entry.path for entry in found.wanted] == [still]
    assert found.notices == (f"{written}: is still being written; it is left for the next look",)
    assert {entry.path for entry in list_paths(tmp_path).wanted} == {still, written}


def test_files_that_lie_still_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_WATCH_S", 60.0)
    path = write_run(tmp_path, 1, samples=20)
    for age in (10, -3600):  # a clock that is ahead makes no file young
        os.utime(path, (0, time.time() - age))
        began = time.monotonic()
        assert growing([path, tmp_path / "gone"]) == set()
        assert time.monotonic() - began < 5


def test_a_file_that_changes_while_it_is_read_is_not_taken(tmp_path):
    path = write_run(tmp_path, 1, samples=20)
    for found_wrong in (False, True):
        with pytest.raises(ChangingFileError, match="was written to while it was read; it is read at the next look"):
            with regular_file(path) as stream:
                stream.read()
                path.write_text(path.read_text() * 2)
                if found_wrong:
                    raise RunFileError(path, "it ends in the middle of a line")


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path):
    path = write_run(tmp_path, 1, samples=20)
    content, before = path.read_bytes(), LocalFile(path).fingerprint
    with regular_file(path) as stream:
        (tmp_path / "new").write_text("other")
        (tmp_path / "new").replace(path)
        assert stream.read() == content
    assert LocalFile(path).fingerprint != before, "and the other one at the next look"


def test_what_an_entry_tells(tmp_path):
    path = write_run(tmp_path, 1, samples=20)
    entry = LocalFile(path)
    assert (entry.size, entry.labels, entry.refusal) == (path.stat().st_size, None, None)
    labels = path.with_name(run_name(1)[:-4] + ".faults.csv")
    labels.touch()
    assert entry.labels == LocalFile(labels)
    path.unlink()
    assert (entry.size, entry.fingerprint) == (0, f"{path} none")
