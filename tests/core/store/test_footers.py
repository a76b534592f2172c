"""Fingerprints from one process to the next: the index is a memory, and an entry counts only for the file it was of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.store.lake import Lake

FRAME = pl.DataFrame({"a": [1, 2]})


@pytest.fixture
def root(tmp_path) -> Path:
    """A lake with one product per run and one pooled, and its index."""
    lake = Lake(tmp_path)
    lake.write(FRAME, "telemetry", "r", "first")
    lake.write(FRAME, "pool", made_from="pooled")
    lake.save_index()
    return tmp_path


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Names of the Parquet files whose footers were read."""
    seen: list[str] = []
    read = pl.read_parquet_metadata

    def spy(file):
        seen.append(Path(file.name).name)
        return read(file)

    monkeypatch.setattr(pl, "read_parquet_metadata", spy)
    return seen


def facts(lake: Lake) -> tuple[str | None, str | None, str | None]:
    return lake.made_from("telemetry", "r"), lake.made_from("pool"), lake.version("pool")


def test_another_process_opens_no_file(root, opened):
    version = Lake(root).version("pool")
    assert version
    assert facts(Lake(root)) == ("first", "pooled", version)
    assert opened == []


def test_without_an_index_the_files_are_read_once(root, opened):
    (root / ".fingerprints.json").unlink()
    lake = Lake(root)
    assert facts(lake) == facts(lake) == ("first", "pooled", lake.version("pool"))
    assert sorted(opened) == ["pool.parquet", "r.parquet"]
    lake.save_index()
    facts(Lake(root))
    assert len(opened) == 2


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "null", '"text"', '{"pool.parquet": 1}', '{"pool.parquet": [1, 2]}', '{"pool.parquet": {}}',
     '{"pool.parquet": [null, null, null, "x", "x"]}', "\\ud800", '{"a": [1, 2, 3, "lie", "lie", "more"]}'],
)  # fmt: skip
def test_a_damaged_index_is_ignored_and_made_again(root, content):
    (root / ".fingerprints.json").write_text(content)
    lake = Lake(root)
    assert facts(lake)[:2] == ("first", "pooled")
    lake.save_index()
    assert set(json.loads((root / ".fingerprints.json").read_text())) >= {"pool.parquet", "telemetry/r.parquet"}


def test_an_index_that_is_not_text_is_ignored(root):
    (root / ".fingerprints.json").write_bytes(b"\xff\xfe\x00")
    assert facts(Lake(root))[:2] == ("first", "pooled")
    (root / ".fingerprints.json").unlink()
    (root / ".fingerprints.json").mkdir()
    assert facts(Lake(root))[:2] == ("first", "pooled")


def test_a_stale_entry_is_not_trusted(root):
    """Size, time of change and inode must all be those of the file."""
    index = root / ".fingerprints.json"
    entries = json.loads(index.read_text())
    for place in range(3):
        size, changed, inode, _, version = entries["telemetry/r.parquet"]
        lie = [size, changed, inode, "lie", version]
        lie[place] += 1
        index.write_text(json.dumps(entries | {"telemetry/r.parquet": lie}))
        assert Lake(root).made_from("telemetry", "r") == "first"


def test_a_file_that_another_process_replaced_is_read_again(root):
    mine, other = Lake(root), Lake(root)
    assert facts(mine)[0] == "first"
    other.write(FRAME, "telemetry", "r", "other")
    assert facts(mine)[0] == "other"
    other.drop("telemetry", "r")
    assert facts(mine)[0] is None


def test_a_file_that_is_replaced_right_after_it_was_written_is_not_taken_for_ones_own(root, monkeypatch):
    """Between the rename and the note of it, another process may put its own file there."""
    mine, other = Lake(root), Lake(root)
    replace = Path.replace

    def and_then_the_other(path, target):
        replaced = replace(path, target)
        if Path(target).name == "r.parquet":
            monkeypatch.setattr(Path, "replace", replace)
            other.write(FRAME.head(1), "telemetry", "r", "other")
        return replaced

    monkeypatch.setattr(Path, "replace", and_then_the_other)
    mine.write(FRAME, "telemetry", "r", "mine")
    assert mine.made_from("telemetry", "r") == "other"


def test_a_file_that_was_touched_is_read_again(root, opened):
    os.utime(root / "pool.parquet", ns=(1, 1))
    assert facts(Lake(root))[:2] == ("first", "pooled")
    assert opened == ["pool.parquet"]


def test_a_complete_index_is_not_written_again(root):
    before = (root / ".fingerprints.json").stat()
    lake = Lake(root)
    facts(lake)
    lake.save_index()
    assert (root / ".fingerprints.json").stat() == before


def test_the_index_moves_with_its_lake(root, opened, tmp_path_factory):
    place = tmp_path_factory.mktemp("moved") / "lake"
    root.rename(place)
    assert facts(Lake(place))[:2] == ("first", "pooled")
    assert opened == []
