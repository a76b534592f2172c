"""Zip archives: what is listed, what is refused, and what damage looks like."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import pytest

from infrascope_core.errors import ChangingFileError, RunFileError
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources import archive as archives
from infrascope_core.run_files.sources.archive import Archive, inner_path, is_archive
from infrascope_core.run_files.sources.folder import list_paths
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, RUN_FILES
from infrascope_core.store.folder import DataFolder
from tests.runs import run_name, write_run


def packed(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive of members by name; names are written as they are."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.filename = name  # as hostile as it is
            info.compress_type = method
            archive.writestr(info, content)
    return path


def run_bytes(tmp_path: Path, second: int = 1) -> bytes:
    return write_run(tmp_path / "plain", second, samples=40).read_bytes()


def listed(path: Path) -> dict[str, str | None]:
    """Why each member is refused, by its name."""
    return {entry.path.name: entry.refusal for entry in Archive.of_file(path).entries}


def opened(path: Path) -> str:
    """What opening the only member of an archive says."""
    (entry,) = Archive.of_file(path).entries
    with pytest.raises(RunFileError) as caught, entry.open() as stream:
        while stream.read(1000):
            pass
    return caught.value.fault


def take(folder: DataFolder) -> dict[str, str]:
    """Ingest all that lies in the sources; the reason of each rejected file by its path."""
    folder = folder.fresh()
    inbox = Inbox.of(folder)
    for key in inbox.keys:
        if not GRAPH.is_current(folder, RUN_FILES, key):
            GRAPH.make(folder, RUN_FILES, key)
    rejected = GRAPH.make_pooled(folder, REJECTED_FILES)
    return dict(rejected.select("path", "reason").iter_rows())


# -- what is listed


def test_run_files_are_listed_with_the_folders_around_them(tmp_path):
    content = run_bytes(tmp_path)
    path = packed(
        tmp_path / "Reveal.zip",
        (f"train_separated/{run_name(1)}", content),
        (f"infer_seperated\\{run_name(2)}", content),
        ("train_separated/", b""),
        (f"__MACOSX/train_separated/._{run_name(1)}", b"x"),
        (f"train_separated/._{run_name(1)}", b"x"),
        ("train_separated/.DS_Store", b"x"),
        ("readme.md", b"x"),
    )
    entries = Archive.of_file(path).entries
    inside = [entry.path.relative_to(path) for entry in entries]
    assert inside == [Path("train_separated") / run_name(1), Path("infer_seperated") / run_name(2)]
    assert [entry.size for entry in entries] == [len(content)] * 2
    assert [entry.refusal for entry in entries] == [None, None]


def test_a_member_reads_as_the_file_does(tmp_path):
    plain = write_run(tmp_path / "plain", 1)
    name = f"train_separated/{plain.name.replace('train_', 'data_')}"
    path = packed(tmp_path / "a.zip", (name, plain.read_bytes()), (f"{name}.gz", gzip.compress(plain.read_bytes())))
    text, gz = (read_run_file(entry) for entry in Archive.of_file(path).entries)
    expected = read_run_file(plain)
    columns = [name for name in expected.telemetry.columns if name != "run_key"]
    for run in (text, gz):
        assert run.telemetry.select(columns).equals(expected.telemetry.select(columns))
        assert run.name.phase == "fine-tuning"
    assert (text.bytes, text.sha256) == (expected.bytes, expected.sha256)


def test_labels_and_metadata_in_an_archive(tmp_path):
    labels = "start,end,fault,subsystem,metrics\n2026-11-01 10:00:01,2026-11-01 10:00:02,hog,CPU,\n"
    path = packed(
        tmp_path / "a.zip",
        (f"train/{run_name(1)}", run_bytes(tmp_path)),
        (f"train/{run_name(1)[:-4]}.faults.csv", labels.encode()),
        (f"{run_name(1)[:-4]}.faults.csv", b"of another folder"),
        ("meta_cpu.csv", b"source_file\n"),
    )
    folder = DataFolder(tmp_path / "data", sources=(path,))
    assert take(folder) == {}
    assert folder.lake.read(FAULTS, run_name(1)[:-4])["fault"].to_list() == ["hog"]
    assert [meta.content for meta in Archive.of_file(path).metas] == [b"source_file\n"]


def test_archives_in_folders_are_read_and_metadata_lies_beside(tmp_path):
    runs = tmp_path / "runs"
    write_run(runs, 1)
    archive = packed(runs / "more.ZIP", (run_name(2), run_bytes(tmp_path, 2)))
    packed(runs / "._more.zip", ("x", b""))
    (runs / "meta_cpu.csv").write_text("source_file\n")
    assert {entry.path for entry in list_paths(runs).entries} == {runs / run_name(1), archive / run_name(2)}
    assert [meta.path.name for meta in list_paths(runs).metas] == ["meta_cpu.csv"]
    assert [meta.path.name for meta in list_paths(archive).metas] == ["meta_cpu.csv"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("a.zip", True), ("A.ZIP", True), (".a.zip", False), ("a.zip.part", False), ("__MACOSX/a.zip", False)],
)
def test_what_is_named_as_an_archive(name, is_one):
    assert is_archive(Path(name)) is is_one


# -- what is refused


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (f"../{run_name(1)}", "its name in the archive leads out of the archive"),
        (f"a/../../{run_name(1)}", "its name in the archive leads out of the archive"),
        (f"..\\{run_name(1)}", "its name in the archive leads out of the archive"),
        (f"/etc/{run_name(1)}", "its name in the archive is an absolute path"),
        (f"\\\\host\\{run_name(1)}", "its name in the archive is an absolute path"),
        (f"C:\\{run_name(1)}", "its name in the archive is an absolute path"),
    ],
)
def test_names_that_lead_elsewhere(tmp_path, name, fault):
    path = packed(tmp_path / "a.zip", (name, run_bytes(tmp_path)))
    assert listed(path) == {run_name(1): fault}
    assert opened(path) == fault
    (entry,) = Archive.of_file(path).entries
    assert path in entry.path.parents and ".." not in entry.path.parts
    folder = DataFolder(tmp_path / "data", sources=(path,))
    assert list(take(folder).values()) == [fault]
    assert accepted(folder.fresh()).is_empty()


def test_no_name_leaves_its_archive():
    for name in ("/a", "//a", "../a", "./a", "b/../a", "..\\a", "\\a"):
        path = inner_path(Path("x.zip"), name)
        assert path.parts[0] == "x.zip" and path.name == "a" and ".." not in path.parts


def test_a_bomb(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), b"\0" * 10_000_000))
    assert listed(path) == {run_name(1): "unpacks to more than 200 times its packed size"}


def test_the_limits_of_size_directory_and_method(tmp_path, monkeypatch):
    path = packed(tmp_path / "a.zip", (run_name(1), run_bytes(tmp_path)))
    size = Archive.of_file(path).members[0].size
    monkeypatch.setattr(archives, "MAX_UNPACKED", size - 1)
    assert listed(path) == {run_name(1): f"unpacks to {size:,} bytes; the limit is {size - 1:,}"}
    monkeypatch.setattr(archives, "MAX_UNPACKED", size)
    assert listed(path) == {run_name(1): None}
    bz = packed(tmp_path / "b.zip", (run_name(1), run_bytes(tmp_path)), method=zipfile.ZIP_BZIP2)
    assert listed(bz) == {run_name(1): "is packed by method 12; expected deflate (8) or none (0)"}
    many = packed(tmp_path / "c.zip", *((run_name(i), b"x") for i in range(60)))
    monkeypatch.setattr(archives, "MAX_DIRECTORY", 5_000)
    assert listed(many) == {"c.zip": "its directory has more than 5,000 bytes, the limit"}


def test_a_name_that_occurs_twice(tmp_path):
    content = run_bytes(tmp_path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = packed(tmp_path / "a.zip", (run_name(1), content), (run_name(1), content + b"\n"))
    (fault,) = listed(path).values()
    assert fault.startswith("occurs twice in the archive")


def test_members_that_share_their_data(tmp_path):
    """One deflated block under many names is how a small archive becomes a large one."""
    content = run_bytes(tmp_path)
    path = packed(tmp_path / "a.zip", (run_name(1), content), (run_name(2), content))
    raw = bytearray(path.read_bytes())
    first = raw.find(b"PK\x01\x02")
    second = raw.find(b"PK\x01\x02", first + 4)
    raw[second + 42 : second + 46] = raw[first + 42 : first + 46]  # where the local header lies
    path.write_bytes(raw)
    assert set(listed(path).values()) == {"overlaps another member of the archive"}


def test_an_encrypted_member(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), run_bytes(tmp_path)))
    raw = bytearray(path.read_bytes())
    raw[raw.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    assert listed(path) == {run_name(1): "is encrypted in the archive"}


# -- damage


def test_what_is_no_archive_is_rejected_and_the_others_go_on(tmp_path):
    runs = tmp_path / "runs"
    good = write_run(runs, 1)
    (runs / "text.zip").write_text("hello")
    whole = packed(tmp_path / "whole.zip", (run_name(2), run_bytes(tmp_path, 2))).read_bytes()
    (runs / "cut.zip").write_bytes(whole[:-40])
    folder = DataFolder(tmp_path / "data", sources=(runs,))
    rejected = take(folder)
    assert {Path(path).name for path in rejected} == {"text.zip", "cut.zip"}
    assert all(reason.startswith("not a zip archive, or cut off (") for reason in rejected.values())
    assert accepted(folder.fresh())["run_key"].to_list() == [good.stem]
    (runs / "text.zip").unlink()
    (runs / "cut.zip").write_bytes(whole)  # it has arrived
    assert take(folder) == {}
    assert accepted(folder.fresh())["run_key"].to_list() == [good.stem, run_name(2)[:-4]]


def test_an_archive_without_members(tmp_path):
    assert listed(packed(tmp_path / "a.zip")) == {}


def test_a_flipped_byte_is_damage_and_nothing_takes_the_runs_place(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), run_bytes(tmp_path)), method=zipfile.ZIP_STORED)
    raw = bytearray(path.read_bytes())
    at = raw.find(b"10:00:02") + 7
    raw[at] = ord("1")  # still a time, still a table
    path.write_bytes(raw)
    assert opened(path) == f"is damaged in the archive (Bad CRC-32 for file '{run_name(1)}')"
    folder = DataFolder(tmp_path / "data", sources=(path,))
    assert len(take(folder)) == 1
    assert list((folder.root / "lake").glob("telemetry/*")) == []


def test_a_damaged_member_and_labels_heal_when_the_archive_is_fetched_again(tmp_path):
    """Their fingerprints are those of the directory, which was right all the time."""
    labels = b"start,end,fault,subsystem,metrics\n2026-11-01 10:00:02,2026-11-01 10:00:03,hog,CPU,\n"
    names = run_name(1), run_name(2), run_name(2)[:-4] + ".faults.csv"
    members = zip(names, (run_bytes(tmp_path), run_bytes(tmp_path), labels), strict=True)
    path = packed(tmp_path / "a.zip", *members, method=zipfile.ZIP_STORED)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"10:00:02", b"10:00:01", 1).replace(b"hog", b"dog"))
    folder = DataFolder(tmp_path / "data", sources=(path,))
    for _ in range(2):
        reasons = take(folder)
        assert sorted(reasons) == [str(path / names[0]), str(path / names[2])]
        assert all(reason.startswith("is damaged in the archive (Bad CRC-32") for reason in reasons.values())
        assert all(GRAPH.is_current(folder.fresh(), RUN_FILES, name[:-4]) for name in names[:2])
    path.write_bytes(whole)
    assert take(folder) == {}
    assert accepted(folder.fresh())["labelled"].to_list() == [False, True]
    assert all(GRAPH.is_current(folder.fresh(), RUN_FILES, name[:-4]) for name in names[:2])


def test_an_archive_that_is_replaced_while_it_is_read(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), run_bytes(tmp_path)))
    (entry,) = Archive.of_file(path).entries
    packed(path, (run_name(1), run_bytes(tmp_path) + b"\n"))
    for replaced in (True, True, False):
        with pytest.raises(ChangingFileError, match="the archive was replaced while it was read"), entry.open():
            pass
        packed(path, (run_name(2), b"")) if replaced else path.write_bytes(b"PK")


# -- what changes


def test_packing_anew_reads_only_what_differs(tmp_path):
    contents = {run_name(i): run_bytes(tmp_path, i) for i in (1, 2)}
    path = packed(tmp_path / "a.zip", *contents.items())
    folder = DataFolder(tmp_path / "data", sources=(path,))
    assert take(folder) == {}
    contents[run_name(2)] += b"2026-11-01 10:00:59.000\t1\t2\t3\t4\t5\n"
    packed(path, *reversed(contents.items()), method=zipfile.ZIP_STORED)
    current = {key: GRAPH.is_current(folder.fresh(), RUN_FILES, key) for key in Inbox.of(folder.fresh()).keys}
    assert current == {run_name(1)[:-4]: True, run_name(2)[:-4]: False}
    assert take(folder) == {}
    assert accepted(folder.fresh())["samples"].to_list() == [40, 41]


def test_a_run_from_an_archive_keeps_its_key_against_another_file(tmp_path):
    path = packed(tmp_path / "a.zip", (f"train/{run_name(1)}", run_bytes(tmp_path)))
    folder = DataFolder(tmp_path / "data", sources=(path,))
    take(folder)
    other = write_run(tmp_path / "runs", 1, samples=80)
    elsewhere = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    source = path / "train" / run_name(1)
    assert take(elsewhere) == {str(other): f"duplicate run key: {source} is another file of the same name"}
    same = DataFolder(tmp_path / "data", sources=(tmp_path / "plain",))
    assert take(same) == {str(other): f"duplicate run key: {source} is another file of the same name"}
    assert accepted(folder.fresh())["source"].to_list() == [str(source)]


def test_a_rejected_member_stays_listed_while_its_archive_is_there(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), b"nothing"))
    folder = DataFolder(tmp_path / "data", sources=(path,))
    assert list(take(folder)) == [str(path / run_name(1))]
    elsewhere = DataFolder(tmp_path / "data", sources=(write_run(tmp_path / "runs", 2),))
    assert list(take(elsewhere)) == [str(path / run_name(1))]
    path.unlink()
    assert take(elsewhere) == {}


def test_zip64_and_bytes_before_the_archive(tmp_path):
    content = run_bytes(tmp_path)
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(run_name(1), "w", force_zip64=True) as member,
    ):
        member.write(content)
    path = tmp_path / "a.zip"
    path.write_bytes(b"#!/bin/sh\n" + buffer.getvalue())
    (entry,) = Archive.of_file(path).entries
    assert read_run_file(entry).samples == 40


def test_a_comment_that_looks_like_the_end_is_one_sentence_at_worst(tmp_path):
    path = packed(tmp_path / "a.zip", (run_name(1), run_bytes(tmp_path)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, 2**31, 2**31, 0)
    (entry,) = Archive.of_file(path).entries
    assert entry.refusal is None or entry.refusal.startswith("not a zip archive")
