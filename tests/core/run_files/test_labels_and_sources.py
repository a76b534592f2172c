from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from infrascope_core.errors import InfraScopeError, LabelFileError
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.name import labels_path
from infrascope_core.run_files.sources.folder import find_run_files

HEADER = "start,end,fault,subsystem,metrics\n"


def test_labels(tmp_path):
    path = tmp_path / "run.faults.csv"
    path.write_text(HEADER + "2025-05-07 01:35:33.000,2025-05-07 01:42:23,hog,CPU,a[%];b[-]\n"
                    "2025-05-07 01:50:00.000,2025-05-07 01:50:00.000,leak,Memory,\n")  # fmt: skip
    assert read_labels(path, "run").rows() == [
        (
            "run",
            datetime(2025, 5, 7, 1, 35, 33),
            datetime(2025, 5, 7, 1, 42, 23),
            "hog",
            "CPU",
            ["a[%]", "b[-]"],
        ),
        ("run", datetime(2025, 5, 7, 1, 50), datetime(2025, 5, 7, 1, 50), "leak", "Memory", []),
    ]
    assert labels_path(Path("x/run.txt.gz")) == Path("x/run.faults.csv")


def test_a_header_alone_means_healthy(tmp_path):
    path = tmp_path / "run.faults.csv"
    path.write_text(HEADER)
    assert read_labels(path, "run").height == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "cannot be read"),
        ("a,b\n1,2\n", "expected the header start,end"),
        (HEADER + "soon,later,hog,CPU,\n", "line 2: expected a start"),
        (HEADER + "2025-05-07 01:35:33,2025-05-07 01:35:32,hog,CPU,\n", "line 2: expected a start"),
    ],
)
def test_bad_labels(tmp_path, text, fault):
    path = tmp_path / "run.faults.csv"
    path.write_text(text)
    with pytest.raises(LabelFileError, match=fault):
        read_labels(path, "run")


def test_finding_files(tmp_path):
    for name in ("a/x.txt", "b/x.txt.gz", "b/y.csv", "b/y.faults.csv", "b/._z.txt", "__MACOSX/q.txt", "c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_run_files([tmp_path, tmp_path / "a" / "x.txt"])
    assert found == {"x": [tmp_path / "a/x.txt", tmp_path / "b/x.txt.gz"], "y": [tmp_path / "b/y.csv"]}
    assert list(find_run_files([tmp_path / "c.md"])) == ["c.md"]  # named by hand: judged, not overlooked
    with pytest.raises(InfraScopeError, match="no such file or folder"):
        find_run_files([tmp_path / "nowhere"])


def test_overlapping_intervals_of_one_kind_are_one(tmp_path):
    path = tmp_path / "run.faults.csv"
    day = "2025-05-07 "
    path.write_text(HEADER + f"{day}01:00:00,{day}01:10:00,leak,Memory,a\n{day}01:20:00,{day}01:25:00,leak,Memory,\n"
                    f"{day}01:05:00,{day}01:15:00,leak,Memory,b;a\n{day}01:02:00,{day}01:03:00,hog,CPU,\n")  # fmt: skip
    found = read_labels(path, "run").select("start", "end", "fault", "metrics").rows()
    times = [(f"{start:%H:%M}", f"{end:%H:%M}", fault, metrics) for start, end, fault, metrics in found]
    assert times == [
        ("01:00", "01:15", "leak", ["a", "b"]),
        ("01:20", "01:25", "leak", []),
        ("01:02", "01:03", "hog", []),
    ]
