"""The lake: where products lie, that they are replaced at once or not at all, and what they were made from."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infrascope_core.errors import InfraScopeError, OutdatedError, StorageError
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.run_files.tables import RUN_FILES, TELEMETRY
from infrascope_core.store.lake import Lake, content_hash, fingerprint
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS

ROOT = Path(__file__).parents[3]
WIDE = pl.DataFrame({"run_key": ["r", "r"], "a[%]": [1.5, None]})


def catalog(**columns) -> pl.DataFrame:
    """One usable metric; what is not given is null."""
    row = {"platform": "gpu", "metric": "a[%]", "unit": "%", "subsystem": "GPU", "runs": 1, "status": "usable"}
    return pl.DataFrame([dict.fromkeys(METRIC_CATALOG.schema.names()) | row | columns])


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path / "lake")


def test_products_lie_by_table_and_run(lake):
    assert lake.path(TELEMETRY, "run-1.0") == lake.root / "telemetry" / "run-1.0.parquet"
    assert lake.path(THRESHOLDS) == lake.root / "thresholds.parquet"


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../x", "a/b", "a/../b", "a..b", "/etc/passwd", ".hidden", "a\0b", "a b", "a\n", "a\\b",
            "*", "a[1]", "-rf", "ä", "k" * 201, "k" * 100_000],
)  # fmt: skip
def test_hostile_run_keys_name_no_file(lake, key):
    for call in (lake.path, lake.has, lake.read, lake.made_from, lake.drop):
        with pytest.raises(InfraScopeError, match="is not a valid run key"):
            call("baskets", key)
    with pytest.raises(InfraScopeError, match="is not a valid run key") as caught:
        lake.write(WIDE, TELEMETRY, key)
    assert len(str(caught.value)) < 100
    assert not lake.root.exists()


def test_the_longest_run_key_makes_a_file_name_that_fits(lake):
    key = "k" * 200
    lake.write(WIDE, TELEMETRY, key)
    assert lake.keys(TELEMETRY) == [key]


def test_what_is_written_is_read_back(lake):
    assert lake.write(WIDE, TELEMETRY, "r") == lake.path(TELEMETRY, "r")
    assert lake.read(TELEMETRY, "r").equals(WIDE)
    assert lake.read(TELEMETRY, "r", ["a[%]"]).equals(WIDE.select("a[%]"))
    assert lake.has(TELEMETRY, "r")
    assert not lake.has(TELEMETRY, "s")


def test_a_table_of_the_contract_is_held_to_its_schema(lake):
    shuffled = catalog().select(reversed(METRIC_CATALOG.schema.names())).with_columns(pl.col("runs").cast(pl.UInt8))
    lake.write(shuffled.with_columns(surplus=1), METRIC_CATALOG)
    stored = lake.read(METRIC_CATALOG)
    assert stored.schema == METRIC_CATALOG.schema
    assert stored.rows() == catalog().rows()


@pytest.mark.parametrize("wrong", [catalog().drop("status"), catalog(runs="many"), catalog(runs=2**63)])
def test_a_frame_that_does_not_fit_the_schema_is_refused_and_the_old_one_stays(lake, wrong):
    lake.write(catalog(), METRIC_CATALOG)
    with pytest.raises(pl.exceptions.PolarsError):
        lake.write(wrong, METRIC_CATALOG)
    assert lake.read(METRIC_CATALOG)["runs"].to_list() == [1]


def test_a_contract_table_that_was_never_written_is_empty_and_any_other_is_an_error(lake):
    assert lake.read(METRIC_CATALOG).equals(METRIC_CATALOG.empty())
    assert lake.read(BASKETS, "r").height == 0
    with pytest.raises(FileNotFoundError):
        lake.read(TELEMETRY, "r")


def test_a_table_that_an_earlier_version_wrote_is_refused_in_one_sentence(lake):
    lake.write(THRESHOLDS.empty().drop("low", "high"), THRESHOLDS.name)
    for read in (lake.read, lake.read_cached):
        with pytest.raises(
            OutdatedError, match=r"thresholds\.parquet was written by an earlier .* has no 'high'; `infr"
        ):
            read(THRESHOLDS)


def test_of_many_runs_what_an_earlier_version_did_not_write_is_missing(lake):
    row = dict.fromkeys(RUN_FILES.schema) | {"run_key": "r", "status": "accepted"}
    now = pl.DataFrame([row], schema=RUN_FILES.schema)
    lake.write(now.drop("hosts", "seconds"), RUN_FILES.name, "r")
    lake.write(now.with_columns(run_key=pl.lit("s"), seconds=pl.lit(1.0)), RUN_FILES, "s")
    assert lake.read_all(RUN_FILES).select("run_key", "seconds", "hosts").rows() == [
        ("r", None, None),
        ("s", 1.0, None),
    ]
    assert lake.row(RUN_FILES, "r")["hosts"] is None


def test_a_selection_of_columns_holds_for_a_table_that_was_never_written(lake):
    assert lake.read(METRIC_CATALOG, columns=["metric", "status"]).columns == ["metric", "status"]


def test_a_product_records_what_it_was_made_from(lake):
    assert lake.made_from(TELEMETRY, "r") is None
    lake.write(WIDE, TELEMETRY, "r", "first")
    assert lake.made_from(TELEMETRY, "r") == "first"
    lake.write(WIDE, TELEMETRY, "r", "second")
    assert lake.made_from(TELEMETRY, "r") == "second"
    lake.write(WIDE, TELEMETRY, "r")
    assert lake.made_from(TELEMETRY, "r") == ""
    odd = '{"gpu": "\\"q\\" é\n\u2028"}'
    lake.write(catalog(), METRIC_CATALOG, made_from=odd)
    assert lake.made_from(METRIC_CATALOG) == odd


def test_a_reader_of_the_old_file_is_not_disturbed(lake):
    path = lake.write(WIDE, TELEMETRY, "r")
    with path.open("rb") as stream:
        lake.write(WIDE.head(1), TELEMETRY, "r")
        assert pl.read_parquet(stream).equals(WIDE)
    assert lake.read(TELEMETRY, "r").height == 1


def test_a_failed_write_leaves_the_old_product_and_nothing_else(lake, monkeypatch):
    path = lake.write(WIDE, TELEMETRY, "r", "old")

    def half(frame, file, **options):
        Path(file).write_bytes(b"PAR1 and then the disk was full")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pl.DataFrame, "write_parquet", half)
        for key in ("r", "s"):
            with pytest.raises(InfraScopeError, match=r"cannot be written, .* bytes free there .*No space left"):
                lake.write(WIDE, TELEMETRY, key, "new")
    assert list(path.parent.iterdir()) == [path]
    assert lake.read(TELEMETRY, "r").equals(WIDE)
    assert lake.made_from(TELEMETRY, "r") == "old"


def test_leftovers_of_a_killed_write_are_not_products(lake):
    path = lake.write(WIDE, TELEMETRY, "r")
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_WHILE_WRITING, str(lake.root)], cwd=ROOT, capture_output=True, check=False
    )
    assert killed.returncode == 9, killed.stderr
    leftovers = {file.name for file in path.parent.iterdir()} - {path.name}
    assert len(leftovers) == 1
    assert leftovers.pop().endswith(".tmp")
    (path.parent / ".hidden.parquet").touch()
    (path.parent / "notes.txt").touch()
    assert lake.keys(TELEMETRY) == ["r"]
    assert lake.files(TELEMETRY, ["r", "s"]) == [path]
    lake.write(WIDE, TELEMETRY, "s")
    assert lake.keys(TELEMETRY) == ["r", "s"]


_KILLED_WHILE_WRITING = """
import os, sys, pathlib
import polars as pl
from infrascope_core.store.lake import Lake
pl.DataFrame.write_parquet = lambda frame, file, **options: (pathlib.Path(file).write_bytes(b"PAR1"), os._exit(9))
Lake(pathlib.Path(sys.argv[1])).write(pl.DataFrame({"a": [1]}), "telemetry", "s")
"""


def test_keys_and_files_are_sorted(lake):
    for key in ("b", "a.1", "A"):
        lake.write(WIDE, TELEMETRY, key)
    assert lake.keys(TELEMETRY) == ["A", "a.1", "b"]
    assert lake.keys(BASKETS) == []
    assert [file.stem for file in lake.files(TELEMETRY, ["b", "a.1", "b", "c"])] == ["a.1", "b"]


def test_dropping_twice_is_not_an_error(lake):
    lake.write(WIDE, TELEMETRY, "r")
    lake.drop(TELEMETRY, "r")
    lake.drop(TELEMETRY, "r")
    assert lake.keys(TELEMETRY) == []


@pytest.mark.parametrize("folder", ["a [1] *b?", "it's", "ü"])
def test_a_data_folder_may_have_any_name(tmp_path, folder):
    lake = Lake(tmp_path / folder)
    lake.write(WIDE, TELEMETRY, "r", "x")
    lake.write(catalog(), METRIC_CATALOG)
    assert lake.keys(TELEMETRY) == ["r"]
    assert lake.read(TELEMETRY, "r").equals(WIDE)
    assert lake.read(METRIC_CATALOG).height == 1
    assert lake.made_from(TELEMETRY, "r") == "x"


def test_others_may_read_what_is_written(lake):
    assert lake.write(WIDE, TELEMETRY, "r").stat().st_mode & 0o777 == 0o644


TEXTS = st.lists(st.text(max_size=3), max_size=4)


@given(TEXTS, TEXTS)
@example(["ab", "c"], ["a", "bc"])
@example(["a", ""], ["a"])
@example(["a", "b"], ["b", "a"])
@example(["\udcff"], ["\\udcff"])
def test_fingerprints_are_equal_if_and_only_if_the_parts_are(left, right):
    assert (fingerprint(*left) == fingerprint(*right)) == (left == right)


@pytest.mark.parametrize(("left", "right"), [(["a\0b"], ["a", "b"]), ([], [""]), (['a", "b'], ["a", "b"])])
def test_fingerprints_differ_for_parts_that_hold_the_separator(left, right):
    assert fingerprint(*left) != fingerprint(*right)


def test_fingerprints_do_not_change_between_versions_of_the_house():
    """Otherwise every lake would be made anew; if that is wanted, raise code versions instead."""
    assert fingerprint("a", "b") == hashlib.sha256(b'["a", "b"]').hexdigest()[:16]


_WRITE = """
import sys, pathlib
import polars as pl
from infrascope_core.store.lake import Lake
n = 250_000
frame = pl.DataFrame({"i": range(n), "v": [None if i % 7 == 0 else (i * 7919 % 1000) / 8 for i in range(n)]})
Lake(pathlib.Path(sys.argv[1])).write(frame.with_columns(t=pl.col("v").cast(pl.String)), "telemetry", "r", "x")
"""


def test_the_same_frame_gives_the_same_bytes_whatever_the_number_of_threads(tmp_path):
    digests = set()
    for threads in (1, 2, 2):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        subprocess.run(
            [sys.executable, "-c", _WRITE, str(folder)],
            cwd=ROOT,
            env=os.environ | {"POLARS_MAX_THREADS": str(threads)},
            check=True,
        )
        digests.add(hashlib.sha256(Lake(folder).path("telemetry", "r").read_bytes()).hexdigest())
    assert len(list(tmp_path.iterdir())) == 3
    assert len(digests) == 1


def test_the_same_frame_gives_the_same_bytes_under_any_key(lake):
    first, second = lake.write(WIDE, TELEMETRY, "r", "x"), lake.write(WIDE.clone(), TELEMETRY, "s", "x")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(("full", "reason"), [(True, "No space left on device"), (False, "transport error")])
def test_an_error_without_a_number_is_asked_of_the_system_again(lake, monkeypatch, full, reason):
    """Of a full disk, polars may say that the Thrift that it writes is invalid."""

    def failing(*_: object, **options: object) -> None:
        raise pl.exceptions.ComputeError("parquet: File out of specification: Invalid thrift: transport error")

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pl.DataFrame, "write_parquet", failing)
    if full:
        monkeypatch.setattr(Path, "write_bytes", no_room)
    with pytest.raises(StorageError, match=reason) as caught:
        lake.write(catalog(), METRIC_CATALOG)
    assert caught.value.full is full
    assert list(lake.root.iterdir()) == []


_STRUCT = {"x": "y", "n": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ab", "c"], ["a", "bc"]),
        ([None, "a"], ["", "a"]),
        ([True, None], [True, False]),
        ([0.0, None], [0.0, 0.0]),
        ([1, 2], [2, 1]),
        ([1, 2], [1.0, 2.0]),
        ([datetime(2026, 1, 1)], [datetime(2026, 1, 1, 0, 0, 0, 1)]),
        ([["x", "y"], []], [["x"], ["y"]]),
        ([["x"], []], [["x"], None]),
        ([[], ["x"]], [["x"], []]),
        ([["xy"]], [["x", "y"]]),
        ([[_STRUCT, None]], [[None, _STRUCT]]),
        ([[_STRUCT]], [[{**_STRUCT, "n": None}]]),
        ([_STRUCT], [{"n": 1, "x": "z"}]),
    ],
)
def test_tables_that_differ_have_different_versions(one, other):
    one, other = pl.DataFrame({"a": one}, strict=False), pl.DataFrame({"a": other}, strict=False)
    assert content_hash(one) != content_hash(other)
    assert content_hash(one) == content_hash(one.clone()) == content_hash(pl.concat([one.head(0), one]))
    assert content_hash(one) != content_hash(one.rename({"a": "b"}))
    assert content_hash(one) != content_hash(pl.concat([one, one]))


def test_the_version_of_a_table_is_that_of_its_rows_however_they_lie():
    frame = pl.DataFrame({"text": ['ä "\\\n', None, "x"], "list": [["x", "y"], [], None]})
    rows = [row % 3 for row in range(300_000)]
    whole, in_pieces = frame[rows], pl.concat([frame] * 100_000, rechunk=False)
    assert in_pieces.n_chunks() > 1
    assert content_hash(whole) == content_hash(in_pieces) == content_hash(frame.head(1).vstack(whole[1:]))
