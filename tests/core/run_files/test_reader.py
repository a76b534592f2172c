from __future__ import annotations

import gzip
import hashlib
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from infrascope_core.errors import ChangingFileError, RunFileError
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.settings import ReaderSettings
from tests.generated import cpu_columns, frame, gpu_columns, write

NAME = "train_BERTforTextClassification_default_2025-04-26T13-38-18_h1.txt"
HEADER = "\tPerf:IPC.h1[%]\tMemory:Dirty.h1[kB]\tServer:a.h1[-]\tServer:b.h1[-]"
ROWS = [
    "2025-04-26 13:38:18.600\t98.3\t5\t0\t1e3",
    "2025-04-26 13:38:18.700\t97.1\t\tnan\t-2.5",
    "2025-04-26 13:38:18.800\t96\t7\tinf\t-inf",
]


def put(folder: Path, *lines: str, name: str = NAME, end: str = "\n", last: str = "\n") -> Path:
    path = folder / name
    path.write_bytes((end.join(lines) + last).encode())
    return path


def test_a_good_file(tmp_path):
    path = put(tmp_path, HEADER, *ROWS)
    run = read_run_file(path)
    times = [datetime(2025, 4, 26, 13, 38, 18, us) for us in (600_000, 700_000, 800_000)]
    expected = pl.DataFrame(
        {
            "run_key": [path.stem] * 3,
            "host": ["h1"] * 3,
            "sample": [0, 1, 2],
            "ts": pl.Series(times, dtype=pl.Datetime("us")),
            "Perf:IPC[%]": [98.3, 97.1, 96.0],
            "Memory:Dirty[kB]": [5.0, None, 7.0],
            "Server:a[-]": [0.0, None, float("inf")],
            "Server:b[-]": [1000.0, -2.5, float("-inf")],
        }
    )
    assert_frame_equal(run.telemetry, expected)
    assert (run.platform, run.samples, run.metrics, run.interval_s) == ("cpu", 3, 4, 0.1)
    assert run.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert run.bytes == path.stat().st_size


@pytest.mark.parametrize("variant", ["gz", "csv", "crlf", "no last newline", "blank lines at the end"])
def test_the_same_table_in_other_clothes(tmp_path, variant):
    plain = read_run_file(put(tmp_path, HEADER, *ROWS)).telemetry
    if variant == "gz":
        path = tmp_path / f"{NAME}.gz"
        path.write_bytes(gzip.compress((tmp_path / NAME).read_bytes()))
    elif variant == "csv":
        lines = [line.replace("\t", ",") for line in (HEADER, *ROWS)]
        path = put(tmp_path, *lines, name=NAME.replace(".txt", ".csv"))
    elif variant == "crlf":
        path = put(tmp_path, HEADER, *ROWS, end="\r\n", last="\r\n")
    elif variant == "no last newline":
        path = put(tmp_path, HEADER, *ROWS, last="")
    else:
        path = put(tmp_path, HEADER, *ROWS, last="\n\n\n")
    assert_frame_equal(read_run_file(path).telemetry, plain)


@pytest.mark.parametrize("word", ["NA", "N/A", "null", "None", "[N/A]", "[Not Supported]", "NaN", "nan", ""])
def test_spellings_of_missing(tmp_path, word):
    path = put(tmp_path, HEADER, ROWS[0], f"2025-04-26 13:38:18.700\t{word}\t1\t1\t1")
    assert read_run_file(path).telemetry["Perf:IPC[%]"].to_list() == [98.3, None]


BAD = {
    "empty": (b"", "empty: expected a header line"),
    "no table": (b"\x89PNG\r\n\x1a\n\x00\x00", "not a table"),
    "prose": (b"hello world\nhow are you\n", "not a table"),
    "no rows": (HEADER.encode() + b"\n", "holds a header but no samples"),
    "short row": (
        "\n".join([HEADER, ROWS[0], "2025-04-26 13:38:18.700\t1\t2\t3", ROWS[2], ""]).encode(),
        "line 3 has 4 fields, the header has 5",
    ),
    "long row": (
        "\n".join([HEADER, ROWS[0] + "\t9", ROWS[1], ""]).encode(),
        "line 2 has 6 fields, the header has 5",
    ),
    "long and short rows that add up": (
        "\n".join([HEADER, ROWS[0] + "\t9", "2025-04-26 13:38:18.700\t1\t2\t3", ""]).encode(),
        "line 2 has 6 fields",
    ),
    "cut in a line": (
        "\n".join([HEADER, *ROWS]).encode()[:-8],
        "line 4 has 4 fields, the header has 5; the file ends in the middle of a line",
    ),
    "two headers": ("\n".join([HEADER, ROWS[0], HEADER, ROWS[1], ""]).encode(), "line 3 repeats the header"),
    "no timestamps": (
        "\n".join([HEADER, "1\t1\t1\t1\t1", "2\t2\t2\t2\t2", ""]).encode(),
        "no timestamps: the first column holds '1' in line 2",
    ),
    "one bad time": (
        "\n".join([HEADER, ROWS[0], "yesterday\t1\t1\t1\t1", ""]).encode(),
        "line 3: expected a time",
    ),
    "time backwards": (
        "\n".join([HEADER, ROWS[1], ROWS[0], ""]).encode(),
        "line 3: time runs backwards, 2025-04-26 13:38:18.600 follows 2025-04-26 13:38:18.700",
    ),
    "text": (
        "\n".join([HEADER, ROWS[0], "2025-04-26 13:38:18.700\t1\tmuch\t3\t4", ""]).encode(),
        r"line 3, column 'Memory:Dirty.h1\[kB\]': expected a number, found 'much'",
    ),
    "not utf-8": (HEADER.encode() + b"\n2025-04-26 13:38:18.700\t\xff\t1\t1\t1\n", "line 2 is not UTF-8 text"),
    "NUL in a cell": (
        HEADER.encode() + b"\n2025-04-26 13:38:18.700\t\x00\t1\t1\t1\n",
        r"line 2, column .*: expected a number, found '\\x00'",
    ),
    "duplicate column": (
        (HEADER + "\tPerf:IPC.h1[%]\n2025-04-26 13:38:18.700\t1\t1\t1\t1\t1\n").encode(),
        "occurs 2 times",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_content_is_named_in_one_sentence(tmp_path, case):
    content, fault = BAD[case]
    path = tmp_path / NAME
    path.write_bytes(content)
    with pytest.raises(RunFileError, match=fault) as caught:
        read_run_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_gzip(tmp_path):
    good = gzip.compress("\n".join([HEADER, *ROWS, ""]).encode() * 50)
    path = tmp_path / f"{NAME}.gz"
    for content, fault in ((good[: len(good) // 2], "ends early"), (b"plain text", "not a gzip file")):
        path.write_bytes(content)
        with pytest.raises(RunFileError, match=fault):
            read_run_file(path)


@pytest.mark.parametrize("content", [b"0\n" * 2_500_000, b"0" * 2_000_000], ids=["lines", "one line"])
def test_a_gzip_bomb_stops_at_the_limit(tmp_path, content):
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(RunFileError, match="unpacks to more than 1,000,000 bytes"):
        read_run_file(path, ReaderSettings(max_bytes=1_000_000))


def test_a_first_line_without_end_is_not_a_table(tmp_path):
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(gzip.compress(b"0" * 5_000_000))
    with pytest.raises(RunFileError, match="not a table: its first line is longer than 4,194,304 bytes"):
        read_run_file(path)


def test_no_file_and_no_regular_file(tmp_path):
    with pytest.raises(ChangingFileError, match=r"cannot be read \(No such file or directory\)"):
        read_run_file(tmp_path / NAME)
    (tmp_path / NAME).mkdir()
    with pytest.raises(RunFileError, match="not a regular file"):
        read_run_file(tmp_path / NAME)


def test_a_long_cell_is_cut_in_the_message(tmp_path):
    path = put(tmp_path, HEADER, f"2025-04-26 13:38:18.700\t{'x' * 10_000}\t1\t1\t1")
    with pytest.raises(RunFileError) as caught:
        read_run_file(path)
    assert len(caught.value.fault) < 200


def test_one_sample_and_repeated_times_are_not_errors(tmp_path):
    assert read_run_file(put(tmp_path, HEADER, ROWS[0])).interval_s is None
    assert read_run_file(put(tmp_path, HEADER, ROWS[0], ROWS[0])).samples == 2


def test_files_of_the_public_shape(tmp_path):
    gpu = read_run_file(write(tmp_path / NAME, frame(gpu_columns("h1"), 40)))
    assert (gpu.platform, gpu.metrics, gpu.telemetry.shape) == ("gpu", 764, (40, 768))
    both = pl.concat([frame(cpu_columns("h1"), 40), frame(cpu_columns("h2"), 40, seed=1)], how="horizontal")
    two = read_run_file(write(tmp_path / NAME, both))
    assert (two.platform, two.metrics, two.telemetry.shape) == ("cpu", 1582, (80, 795))
    assert two.telemetry.group_by("host").len().sort("host").rows() == [("h1", 40), ("h2", 40)]


# -- files of several pieces


@pytest.mark.parametrize("piece", [150, 151, 190, 400, 10_000])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\r\n"])
def test_pieces_make_the_same_table(tmp_path, monkeypatch, piece, packed, end):
    rows = [f"2025-04-26 13:38:{i:02d}.600\t{i}\t{'' if i % 7 else 'NA'}\tnan\t1e3" for i in range(30)]
    path = put(tmp_path, HEADER, *rows, last=end)
    if packed:
        path = tmp_path / f"{NAME}.gz"
        path.write_bytes(gzip.compress((tmp_path / NAME).read_bytes()))
    whole = read_run_file(path)
    monkeypatch.setattr("infrascope_core.run_files.content.PIECE", piece)
    parts = read_run_file(path)
    assert_frame_equal(parts.telemetry, whole.telemetry)
    assert (parts.bytes, parts.sha256, parts.samples) == (whole.bytes, whole.sha256, 30)
    assert whole.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("line", "text", "fault"),
    [
        (25, "2025-04-26 13:38:25.600\t1\t2\t3", "line 25 has 4 fields, the header has 5 (tab-separated)"),
        (
            25,
            "2025-04-26 13:38:25.600\t1\tx\t3\t4",
            "line 25, column 'Memory:Dirty.h1[kB]': expected a number, found 'x'",
        ),
        (25, HEADER, "line 25 repeats the header; two files seem to be joined"),
        (25, "", "line 25 has 1 fields, the header has 5 (tab-separated)"),
        (
            31,
            "2025-04-26 13:38:55.600\t1\t2",
            "line 31 has 3 fields, the header has 5; the file ends in the middle of a line",
        ),
    ],
)
def test_faults_in_later_pieces_have_their_own_lines(tmp_path, monkeypatch, line, text, fault):
    lines = [HEADER, *(f"2025-04-26 13:38:{i:02d}.600\t{i}\t1\t2\t3" for i in range(30))]
    lines[line - 1] = text
    path = put(tmp_path, *lines, last="" if line == 31 else "\n")
    for piece in (10_000, 200):
        monkeypatch.setattr("infrascope_core.run_files.content.PIECE", piece)
        with pytest.raises(RunFileError) as caught:
            read_run_file(path)
        assert caught.value.fault == fault


def test_a_line_that_is_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("infrascope_core.run_files.content.PIECE", 100)
    with pytest.raises(RunFileError, match="not a table: it holds a line of more than 100 bytes"):
        read_run_file(put(tmp_path, HEADER, "1\t" * 200))


def test_more_values_than_the_limit(tmp_path):
    path = put(tmp_path, HEADER, *ROWS)
    assert read_run_file(path, ReaderSettings(max_values=12)).samples == 3
    with pytest.raises(RunFileError, match="holds more than 11 values, the limit"):
        read_run_file(path, ReaderSettings(max_values=11))
