"""Files that somebody changes while they are read: taken as they were or as they are, or left for the next look."""

from __future__ import annotations

import builtins
import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.making import Failure, attempt
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files import content
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.tables import FAULTS, METRIC_TYPES, REJECTED_FILES, RUN_FILES, TELEMETRY
from infrascope_core.store.folder import DataFolder
from tests.runs import run_name, write_run

STEM = run_name(1).removesuffix(".txt")
HOG = "start,end,fault,subsystem,metrics\n2026-11-01 10:00:02,2026-11-01 10:00:03,{},CPU,\n"
TYPES = "metric,type,origin\nAverageCPUUtilization[%],{},\n"


def packed(folder: Path, samples: int, word: str) -> bytes:
    """An archive with a run, its labels and its types."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(run_name(1), write_run(folder, 1, samples=samples).read_bytes())
        archive.writestr(f"{STEM}.faults.csv", HOG.format(word))
    return raw.getvalue()


@pytest.fixture(params=["plain", "gz", "archive", "labels", "types"])
def place(request, tmp_path) -> tuple[Path, bytes, bytes]:
    """The file that will be changed, as it is, and as it will be."""
    runs, aside = tmp_path / "runs", tmp_path / "aside"
    if request.param == "archive":
        runs.mkdir()
        return runs / "a.zip", packed(aside, 60, "hog"), packed(aside, 90, "dog")
    old, new = (write_run(aside, 1, samples=samples).read_bytes() for samples in (60, 90))
    if request.param == "plain":
        runs.mkdir()
        return runs / run_name(1), old, new
    if request.param == "gz":
        runs.mkdir()
        return runs / f"{run_name(1)}.gz", gzip.compress(old, mtime=0), gzip.compress(new, mtime=0)
    write_run(runs, 1, samples=60)
    text, ending = (HOG, "faults") if request.param == "labels" else (TYPES, "metrics")
    words = ("hog", "dog") if request.param == "labels" else ("counter", "gauge")
    return (runs / f"{STEM}.{ending}.csv", *(text.format(word).encode() for word in words))


def rename_over(path: Path, new: bytes) -> None:
    beside = path.with_name("new")
    beside.write_bytes(new)
    beside.replace(path)


def rewrite(path: Path, new: bytes) -> None:
    path.write_bytes(new)


def rewrite_the_same(path: Path, new: bytes) -> None:
    path.write_bytes(path.read_bytes())


def truncate(path: Path, new: bytes) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path, new: bytes) -> None:
    path.write_bytes(b"")


def append(path: Path, new: bytes) -> None:
    with path.open("ab") as file:
        file.write(new[len(new) // 2 :])


def overwrite_the_end(path: Path, new: bytes) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(new[size // 2 : size])


def delete(path: Path, new: bytes) -> None:
    path.unlink()


def move_away(path: Path, new: bytes) -> None:
    path.rename(path.parents[1] / "away")


SLOW = pytest.mark.slow
CHANGES = (
    rename_over, rewrite, truncate,
    *(pytest.param(change, marks=SLOW)
      for change in (rewrite_the_same, empty, append, overwrite_the_end, delete, move_away)),
)  # fmt: skip
MOMENTS = (
    "while it is read",
    "while its member is",
    pytest.param("before it is opened", marks=SLOW),
    pytest.param("before its member is", marks=SLOW),
)


class Tampered(io.BufferedReader):
    """A file to which something is done after half of its first read."""

    change: Callable[[], None] | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        if self.change is None:
            return super().read(size)
        there = os.fstat(self.fileno()).st_size
        first = super().read(max(1, min(there if size is None or size < 0 else size, there) // 2))
        change, self.change = self.change, None
        change()
        return first + super().read(-1 if size is None or size < 0 else size - len(first))


@pytest.fixture(params=MOMENTS)
def tamper(request, place, monkeypatch) -> Callable[[Callable[[], None]], None]:
    """Do something to the file at a moment of its reading, once; an archive is listed before."""
    path, moment = place[0], request.param
    if "member" in moment and path.suffix != ".zip":
        pytest.skip("has no members")

    def arm(change: Callable[[], None]) -> None:
        inode, open_file, left = path.stat().st_ino, os.open, [change]
        to_pass = ["the listing"] if "member" in moment else []

        def is_now(it: bool) -> bool:
            if it and to_pass:
                to_pass.clear()
                return False
            return it and bool(left)

        def opened(name, *more, **options):
            if is_now(Path(name) == path):
                left.pop()()
            return open_file(name, *more, **options)

        def wrapped(descriptor, *more, **options):
            if not is_now(os.fstat(descriptor).st_ino == inode):
                return builtins.open(descriptor, *more, **options)  # noqa: PTH123
            stream = Tampered(io.FileIO(descriptor, closefd=False))
            stream.change = left.pop()
            return stream

        if moment.startswith("while"):
            monkeypatch.setattr(content, "open", wrapped, raising=False)
        else:
            monkeypatch.setattr(os, "open", opened)

    return arm


def looked(tmp_path: Path) -> list[str]:
    """Look at the folder; returns what a person is told about files that are left, in words."""
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    inbox = Inbox.of(folder)
    stale = [key for key in inbox.keys if not GRAPH.is_current(folder, RUN_FILES, key)]
    made = [attempt(GRAPH, folder, RUN_FILES.name, key) for key in stale]
    GRAPH.make_pooled(folder, REJECTED_FILES)
    return [outcome.reason for outcome in made if isinstance(outcome, Failure)] + inbox.notices


def state(tmp_path: Path) -> dict[str, pl.DataFrame]:
    lake = DataFolder(tmp_path / "data").lake
    found = {table.name: lake.read(table, STEM) for table in (RUN_FILES, FAULTS, METRIC_TYPES)}
    if lake.has(TELEMETRY, STEM):
        found["telemetry"] = lake.read(TELEMETRY, STEM)
    return found | {"rejected_files": lake.read(REJECTED_FILES).drop("seen_at")}


def same(left: dict[str, pl.DataFrame], right: dict[str, pl.DataFrame]) -> bool:
    return left.keys() == right.keys() and all(frame.equals(right[name]) for name, frame in left.items())


def but_for_rejections(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    return {name: frame for name, frame in found.items() if name != "rejected_files"}


def as_read_alone(tmp_path: Path) -> dict[str, pl.DataFrame]:
    """What a fresh data folder holds of the files as they lie."""
    data = tmp_path / "data"
    data.rename(tmp_path / "kept")
    assert looked(tmp_path) == []
    found = state(tmp_path)
    data.rename(tmp_path / f"fresh{len(list(tmp_path.iterdir()))}")
    (tmp_path / "kept").rename(data)
    return found


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", [pytest.param("unread", marks=SLOW), "read before"])
def test_it_is_taken_whole_or_left_for_the_next_look(tmp_path, monkeypatch, place, tamper, change, before):  # noqa: PLR0917
    path, old, new = place
    possible = []
    (tmp_path / "data").mkdir()
    if before == "read before":
        path.write_bytes(new)
        assert looked(tmp_path) == []
        possible.append(state(tmp_path))
    path.write_bytes(old)
    os.utime(path, (1, 1))
    possible.append(as_read_alone(tmp_path))
    tamper(lambda: change(path, new))
    reasons = looked(tmp_path)
    monkeypatch.undo()
    found, settled = state(tmp_path), as_read_alone(tmp_path)
    rejected = found["rejected_files"]["reason"].to_list()
    assert all("\n" not in reason and "unexpected" not in reason for reason in (*reasons, *rejected))
    # wholly the old or the new, or nothing is known
    known = [but_for_rejections(each) for each in (*possible, settled)]
    assert any(same(but_for_rejections(found), each) for each in known) or (reasons and before == "unread")
    assert rejected in ([], settled["rejected_files"]["reason"].to_list())
    for _ in range(2):
        assert looked(tmp_path) == []
        after = state(tmp_path)
        if "telemetry" in settled:
            assert same(after, settled)
        else:  # nothing can be read any more: what was made before stays, if the file is gone as far as can be seen
            assert same(after, settled) or any(
                same(but_for_rejections(after), but_for_rejections(each)) for each in possible
            )
    away = tmp_path / "away"
    if away.exists():  # it comes back as it was
        away.rename(path)
        assert looked(tmp_path) == []
        assert same(state(tmp_path), possible[-1])
