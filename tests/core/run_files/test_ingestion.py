"""Ingestion: which file of a run key is taken, what happens to the others, and what a later call changes."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.candidates import source_fingerprint
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.ingestion import Ingested, ingest
from infrascope_core.run_files.name import run_key
from infrascope_core.run_files.rejections import forget_absent, reject_unknown_names
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, RUN_FILES, TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.symbols.tables import BASKETS

SETTINGS = ReaderSettings()
NAME = "train_MLPforImageClassification_Digits_2026-11-01T10-00-00_h1.txt"
KEY = NAME.removesuffix(".txt")
HEADER = ["", "GPU: util.0.h1[%]", "Memory:MemAvailable.h1[kB]", "a.h1[-]", "b.h1[-]"]
LABELS = "start,end,fault,subsystem,metrics\n2026-11-01 10:00:00,2026-11-01 10:00:01,hog,CPU,a[-]\n"


def write(path: Path, samples: int = 3, name: str = NAME) -> Path:
    """A run file of a few samples, 0.1 s apart; other counts of samples are other bytes."""
    lines = ["\t".join(HEADER)]
    lines += [f"2026-11-01 10:00:0{i // 10}.{i % 10}00\t{i}\t2\t3\t4" for i in range(samples)]
    path = path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def local(*paths: Path) -> list[LocalFile]:
    return [LocalFile(path) for path in paths]


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path / "lake")


def take(lake: Lake, *paths: Path, key: str = KEY) -> Ingested:
    """Ingest, and put the row into the lake, as the graph does."""
    ingested = ingest(key, local(*paths), lake, SETTINGS)
    lake.write(ingested.run_file, RUN_FILES, key)
    return ingested


def rejected(lake: Lake) -> dict[str, str]:
    """Reason by path."""
    rows = [lake.read("rejections", entry) for entry in lake.keys("rejections")]
    return dict(pl.concat([REJECTED_FILES.empty(), *rows]).select("path", "reason").sort("path").iter_rows())


def source(lake: Lake) -> tuple[str, str]:
    return lake.read(RUN_FILES, KEY).select("status", "source").row(0)


def in_folder(tmp_path: Path, *sources: Path, settings: Settings | None = None) -> DataFolder:
    """The data folder of the lake, with sources."""
    return DataFolder(tmp_path, settings or Settings(), sources)


# -- source fingerprint


def test_the_source_fingerprint_depends_on_name_size_and_time_of_every_file(tmp_path):
    path, other = write(tmp_path), write(tmp_path / "other")
    before = source_fingerprint(local(path))
    assert source_fingerprint(local(path)) == before
    assert source_fingerprint(local(other)) != before
    assert source_fingerprint(local(path, other)) == source_fingerprint(local(other, path)) != before

    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000))
    touched = source_fingerprint(local(path))
    assert touched != before
    path.write_bytes(path.read_bytes() + b"\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert source_fingerprint(local(path)) not in {before, touched}
    path.unlink()
    assert source_fingerprint(local(path)) not in {before, touched}


def test_a_run_file_is_current_until_the_file_or_the_settings_of_the_reader_change(tmp_path):
    path = write(tmp_path / "runs")
    GRAPH.make(in_folder(tmp_path, path.parent), RUN_FILES, KEY)
    assert GRAPH.is_current(in_folder(tmp_path, path.parent), RUN_FILES, KEY)
    changed = Settings(reader=ReaderSettings(max_columns=30))
    assert not GRAPH.is_current(in_folder(tmp_path, path.parent, settings=changed), RUN_FILES, KEY)
    write(tmp_path / "runs", samples=4)
    assert not GRAPH.is_current(in_folder(tmp_path, path.parent), RUN_FILES, KEY)


def test_a_rejected_run_file_is_current_as_well(tmp_path):
    path = write(tmp_path / "runs", samples=0)
    GRAPH.make(in_folder(tmp_path, path.parent), RUN_FILES, KEY)
    assert GRAPH.is_current(in_folder(tmp_path, path.parent), RUN_FILES, KEY)


def test_the_source_fingerprint_changes_with_the_labels(tmp_path):
    path = write(tmp_path)
    seen = [source_fingerprint(local(path))]
    labels = tmp_path / f"{KEY}.faults.csv"
    labels.write_text(LABELS)
    seen.append(source_fingerprint(local(path)))
    labels.write_text(LABELS * 2)
    seen.append(source_fingerprint(local(path)))
    assert len(set(seen)) == 3
    labels.unlink()
    assert source_fingerprint(local(path)) == seen[0]


def test_the_source_fingerprint_reads_no_content(tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("opened"))
    monkeypatch.setattr(Path, "read_bytes", lambda *_: pytest.fail("read"))
    assert source_fingerprint(local(path))


# -- one file


def test_the_row_of_an_accepted_run(tmp_path, lake):
    path = write(tmp_path, samples=3)
    result = take(lake, path)
    assert (result.accepted, result.reason) == (True, "")
    row = result.run_file.row(0, named=True)
    digest = row.pop("sha256")
    assert len(digest) == 64
    assert row == {
        "run_key": KEY,
        "platform": "gpu",
        "phase": "train",
        "mode": "nonllm",
        "model": "MLP",
        "task": "ImageClassification",
        "dataset": "Digits",
        "workload": "MLP__ImageClassification__Digits",
        "host": "h1",
        "started_at": datetime(2026, 11, 1, 10),
        "samples": 3,
        "metrics": 4,
        "interval_s": 0.1,
        "hosts": ["h1"],
        "first_ts": datetime(2026, 11, 1, 10),
        "last_ts": datetime(2026, 11, 1, 10, 0, 0, 200_000),
        "seconds": 0.3,
        "bytes": path.stat().st_size,
        "source": str(path),
        "status": "accepted",
        "reason": None,
        "labelled": False,
    }
    assert lake.read(RUN_FILES, KEY).equals(result.run_file)
    assert result.run_file.schema == RUN_FILES.schema
    assert lake.read(TELEMETRY, KEY).height == 3
    assert rejected(lake) == {}


def test_a_run_that_lost_samples_took_as_long_as_the_clock_says(tmp_path, lake):
    path = write(tmp_path, samples=30)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], *lines[20:]]) + "\n")
    row = take(lake, path).run_file.row(0, named=True)
    assert (row["samples"], row["seconds"]) == (15, 3.0)


def test_what_an_earlier_version_did_not_write_is_told_by_the_telemetry(tmp_path, lake):
    """The file itself was put away."""
    now = take(lake, write(tmp_path)).run_file
    lake.write(now.drop("hosts", "first_ts", "last_ts", "seconds"), RUN_FILES.name, KEY)
    assert take(lake).run_file.equals(now)


def test_the_row_of_a_rejected_run(tmp_path, lake):
    path = write(tmp_path, samples=0)
    before = datetime.now(UTC).replace(tzinfo=None)
    result = take(lake, path)
    assert (result.accepted, result.reason) == (False, "holds a header but no samples")
    row = result.run_file.row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "run_key": KEY,
        "source": str(path),
        "status": "rejected",
        "reason": "holds a header but no samples",
    }
    assert rejected(lake) == {str(path): "holds a header but no samples"}
    assert not lake.has(TELEMETRY, KEY)
    (entry,) = lake.keys("rejections")
    stored = lake.read("rejections", entry).row(0, named=True)
    assert stored["run_key"] == KEY
    assert before <= stored["seen_at"] <= before + timedelta(minutes=1)


def test_telemetry_of_the_same_bytes_has_the_same_fingerprint_wherever_they_lie(tmp_path, lake):
    take(lake, write(tmp_path / "a"))
    before = lake.made_from(TELEMETRY, KEY)
    (tmp_path / "a" / NAME).unlink()
    take(lake, write(tmp_path / "b"))
    assert lake.made_from(TELEMETRY, KEY) == before
    take(lake, write(tmp_path / "b", samples=4))
    assert lake.made_from(TELEMETRY, KEY) != before


# -- several files, and files that change


def test_of_two_different_files_the_first_by_path_is_taken_and_the_other_rejected(tmp_path, lake):
    first, second = write(tmp_path / "a"), write(tmp_path / "b", samples=4)
    assert take(lake, second, first).accepted
    assert source(lake) == ("accepted", str(first))
    assert rejected(lake) == {str(second): f"duplicate run key: {first} is another file of the same name"}


def test_the_file_that_came_first_keeps_the_key(tmp_path, lake):
    old = write(tmp_path / "b")
    take(lake, old)
    new = write(tmp_path / "a", samples=4)
    take(lake, new, old)
    assert source(lake) == ("accepted", str(old))
    assert list(rejected(lake)) == [str(new)]
    assert lake.read(TELEMETRY, KEY).height == 3


def test_the_file_that_came_first_keeps_the_key_though_only_another_is_listed(tmp_path, lake):
    old = write(tmp_path / "b")
    take(lake, old)
    new = write(tmp_path / "a", samples=4)
    take(lake, new)
    assert source(lake) == ("accepted", str(old))
    assert list(rejected(lake)) == [str(new)]
    old.unlink()
    take(lake, new)
    assert source(lake) == ("accepted", str(new))
    assert rejected(lake) == {}


def test_the_same_bytes_under_two_folders_are_not_a_conflict(tmp_path, lake):
    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    take(lake, first, second)
    assert source(lake) == ("accepted", str(first))
    assert rejected(lake) == {}


def test_the_duplicate_takes_over_when_the_first_is_gone(tmp_path, lake):
    first, second = write(tmp_path / "a"), write(tmp_path / "b", samples=4)
    take(lake, first, second)
    first.unlink()
    take(lake, second)
    assert source(lake) == ("accepted", str(second))
    assert lake.read(TELEMETRY, KEY).height == 4
    assert rejected(lake) == {}


def test_a_good_file_is_taken_though_a_bad_one_sorts_before_it(tmp_path, lake):
    bad, good = write(tmp_path / "a", samples=0), write(tmp_path / "b")
    assert take(lake, bad, good).accepted
    assert source(lake) == ("accepted", str(good))
    assert rejected(lake) == {str(bad): "holds a header but no samples"}


def test_two_bad_files_are_both_listed(tmp_path, lake):
    paths = [write(tmp_path / folder, samples=0) for folder in "ab"]
    assert take(lake, *paths).reason == "holds a header but no samples"
    assert list(rejected(lake)) == [str(path) for path in paths]


def test_a_moved_file_keeps_its_key(tmp_path, lake):
    path = write(tmp_path / "a")
    take(lake, path)
    made_from = lake.made_from(TELEMETRY, KEY)
    moved = tmp_path / "b" / NAME
    moved.parent.mkdir()
    path.rename(moved)
    assert take(lake, moved).accepted
    assert source(lake) == ("accepted", str(moved))
    assert lake.made_from(TELEMETRY, KEY) == made_from
    assert rejected(lake) == {}


def test_a_file_that_is_packed_keeps_its_key(tmp_path, lake):
    path = write(tmp_path)
    take(lake, path)
    packed = path.with_name(NAME + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert run_key(packed) == KEY
    assert take(lake, packed).accepted
    assert source(lake) == ("accepted", str(packed))


def test_a_vanished_file_keeps_its_products(tmp_path, lake):
    path = write(tmp_path)
    (tmp_path / f"{KEY}.faults.csv").write_text(LABELS)
    first = take(lake, path)
    path.unlink()
    lake.write(BASKETS.empty(), BASKETS, KEY)
    again = take(lake)
    assert again.accepted
    assert again.run_file.equals(first.run_file)
    assert again.faults["fault"].to_list() == ["hog"]
    assert lake.read(TELEMETRY, KEY).height == 3
    assert lake.has(BASKETS, KEY)


def test_a_key_that_never_was_has_no_file(lake):
    result = take(lake)
    assert (result.accepted, result.reason) == (False, "the file no longer exists")


def test_a_bad_replacement_takes_all_products_of_the_key_and_of_no_other(tmp_path, lake):
    path = write(tmp_path)
    take(lake, path)
    products = [t.name for p in GRAPH.products if p.scope.per_run for t in p.tables if t != RUN_FILES]
    for table in products:
        for key in (KEY, "another"):
            lake.write(GRAPH.tables[table].empty(), table, key)
    path.write_text("nothing")
    take(lake, path)
    assert {table: lake.keys(table) for table in products} == {table: ["another"] for table in products}
    assert "telemetry" in products
    assert source(lake) == ("rejected", str(path))


def test_a_good_replacement_heals(tmp_path, lake):
    path = write(tmp_path, samples=0)
    take(lake, path)
    write(tmp_path)
    assert take(lake, path).accepted
    assert rejected(lake) == {}
    assert lake.read(RUN_FILES, KEY)["reason"].to_list() == [None]


@pytest.mark.parametrize("cut", [TELEMETRY, FAULTS, RUN_FILES])
def test_a_run_that_is_cut_off_is_read_again(tmp_path, monkeypatch, cut):
    path = write(tmp_path / "runs")
    write_once = Lake.write

    def cut_off(self, frame, table, *rest):
        if table == cut:
            raise KeyboardInterrupt
        return write_once(self, frame, table, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "write", cut_off)
        with pytest.raises(KeyboardInterrupt):
            GRAPH.make(in_folder(tmp_path, path.parent), RUN_FILES, KEY)
    folder = in_folder(tmp_path, path.parent)
    assert folder.lake.made_from(RUN_FILES, KEY) is None
    assert not GRAPH.is_current(folder, RUN_FILES, KEY)
    (row,) = GRAPH.make(folder, RUN_FILES, KEY)
    assert row["status"].to_list() == ["accepted"]
    assert GRAPH.is_current(folder, RUN_FILES, KEY)


# -- labels


def test_labels_come_along(tmp_path, lake):
    path = write(tmp_path)
    (tmp_path / f"{KEY}.faults.csv").write_text(LABELS)
    result = take(lake, path)
    start = datetime(2026, 11, 1, 10)
    assert result.faults.rows() == [(KEY, start, start + timedelta(seconds=1), "hog", "CPU", ["a[-]"])]
    assert lake.read(FAULTS, KEY).equals(result.faults)


def test_bad_labels_are_rejected_on_their_own_and_heal(tmp_path, lake):
    path, labels = write(tmp_path), tmp_path / f"{KEY}.faults.csv"
    labels.write_text("what,is,this\n")
    result = take(lake, path)
    assert result.accepted
    assert result.faults.equals(FAULTS.empty())
    assert list(rejected(lake)) == [str(labels)]
    assert rejected(lake)[str(labels)].startswith("expected the header start,end,fault,subsystem,metrics")
    labels.write_text(LABELS)
    assert take(lake, path).faults.height == 1
    assert rejected(lake) == {}
    labels.write_text("bad again\n")
    take(lake, path)
    labels.unlink()
    take(lake, path)
    assert lake.read(FAULTS, KEY).equals(FAULTS.empty())
    assert rejected(lake) == {}


def test_only_the_labels_beside_the_chosen_file_count(tmp_path, lake):
    chosen, other = write(tmp_path / "a"), write(tmp_path / "b")
    other.with_name(f"{KEY}.faults.csv").write_text(LABELS)
    assert take(lake, chosen, other).faults.height == 0


# -- rejections


def test_unknown_names_are_rejected_and_no_others(tmp_path, lake):
    good, packed = write(tmp_path / "b"), tmp_path / (NAME.replace("h1", "h2") + ".gz")
    nameless, undated = tmp_path / "notes.txt", tmp_path / NAME.replace("2026-11-01", "2026-13-01")
    phaseless = tmp_path / NAME.replace("train_", "data_")
    for path in (packed, nameless, undated, phaseless):
        path.touch()
    reject_unknown_names(local(packed, nameless, undated, phaseless, good), lake)
    reasons = rejected(lake)
    assert list(reasons) == sorted(map(str, (nameless, undated, phaseless)))
    assert reasons[str(nameless)].startswith("unknown file name; expected a name like train_")
    assert "2026-13-01T10-00-00 is not a valid date" in reasons[str(undated)]
    assert "expected a folder train_… or infer_…" in reasons[str(phaseless)]
    reject_unknown_names([], lake)
    assert rejected(lake) == reasons


def test_one_name_in_two_folders_makes_two_rejections(tmp_path, lake):
    paths = [tmp_path / folder / "notes.txt" for folder in "ab"]
    reject_unknown_names(local(*paths), lake)
    reject_unknown_names(local(*paths), lake)
    assert list(rejected(lake)) == [str(path) for path in paths]


def test_rejections_of_files_that_are_gone_are_forgotten(tmp_path, lake):
    stays, goes = tmp_path / "stays.txt", tmp_path / "goes.txt"
    for path in (stays, goes):
        path.touch()
    reject_unknown_names(local(stays, goes), lake)
    assert forget_absent(lake)["path"].to_list() == [str(goes), str(stays)]
    goes.unlink()
    table = forget_absent(lake)
    assert table.schema == REJECTED_FILES.schema
    assert table["path"].to_list() == [str(stays)]
    assert list(rejected(lake)) == [str(stays)]
    stays.unlink()
    assert forget_absent(lake).equals(REJECTED_FILES.empty())


@pytest.mark.parametrize("name", [NAME.replace("MLP", "M..P"), NAME.replace("_h1", "_h..1")])
def test_two_dots_in_a_name_are_refused_like_any_unknown_name(tmp_path, name):
    """A run key holds none, so that it can be part of a path."""
    path = write(tmp_path / "runs", name=name)
    write(tmp_path / "runs")
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    assert Inbox.of(folder).review_rejections()["path"].to_list() == [str(path)]
    assert rejected(folder.lake)[str(path)].startswith("unknown file name; expected a name like train_")
    assert Inbox.of(folder).keys == [KEY]


@pytest.fixture
def odd_folder(tmp_path) -> Path:
    """A folder whose name is not UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    return folder


def test_a_file_whose_path_is_not_utf_8_is_accepted_and_its_path_escaped(odd_folder, lake):
    path = write(odd_folder)
    assert source_fingerprint(local(path))
    assert take(lake, path).accepted
    assert source(lake) == ("accepted", str(odd_folder.parent) + "/\\xff/" + NAME)


def test_a_bad_file_whose_path_is_not_utf_8_is_rejected_and_heals(odd_folder, lake):
    path = write(odd_folder, samples=0)
    take(lake, path)
    assert rejected(lake) == {str(odd_folder.parent) + "/\\xff/" + NAME: "holds a header but no samples"}
    write(odd_folder)
    assert take(lake, path).accepted
    assert rejected(lake) == {}


def test_a_rejection_whose_path_is_not_utf_8_stays_while_the_file_is_present(odd_folder, lake):
    """The table cannot spell the path, so it cannot tell by itself whether the file is there."""
    path = odd_folder / "notes.txt"
    path.touch()
    reject_unknown_names(local(path), lake)
    spelled = [str(odd_folder.parent) + "/\\xff/notes.txt"]
    assert forget_absent(lake, [path])["path"].to_list() == spelled
    assert list(rejected(lake)) == spelled
    path.unlink()
    assert forget_absent(lake).equals(REJECTED_FILES.empty())
    assert rejected(lake) == {}


def test_a_good_copy_is_found_though_a_copy_without_a_phase_sorts_before_it(tmp_path):
    name = NAME.replace("train_", "data_")
    write(tmp_path / "backup", name=name)
    write(tmp_path / "train_llama", name=name)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path,))
    assert Inbox.of(folder).keys == [name.removesuffix(".txt")]
