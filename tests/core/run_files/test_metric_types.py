"""Types of metrics beside a run file: what is read, what is refused, and what a refresh makes of them."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from infrascope_core import pipeline
from infrascope_core.errors import MetricTypesError, RunFileError
from infrascope_core.quality.tables import METRIC_CATALOG, QUALITY_METRICS
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.metric_types import read_types, types_text
from infrascope_core.run_files.name import is_run_file, parse_run_name, types_path
from infrascope_core.run_files.tables import METRIC_TYPES, REJECTED_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

RUN = "train_MLPforTask_default_2026-11-01T10-00-00_h1.tsv"
TEXT = """\
metric,type,origin
CPU:user[s],counter,node_cpu_seconds_total
GPU:pstate.0[-],state,pstate
"""


def write_run(folder: Path, types: str | None = TEXT) -> Path:
    path = folder / RUN
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\tCPU:user.h1[s]\tGPU:pstate.0.h1[-]\tMemory:x.h1[kB]\ta.h1[-]\tb.h1[-]"]
    for i in range(60):
        cells = [i * 0.73 + i % 5 * 0.1, int(i**1.5) % 3, 5 + i % 2, i % 7, i % 5]
        lines.append("\t".join([f"2026-11-01 10:{i:02}:00.000", *map(str, cells)]))
    path.write_text("\n".join(lines) + "\n")
    if types is not None:
        types_path(path).write_text(types)
    return path


def test_a_file_of_types_lies_beside_its_run_file():
    path = Path("runs", RUN + ".gz")
    assert types_path(path) == Path("runs", "train_MLPforTask_default_2026-11-01T10-00-00_h1.metrics.csv")
    assert not is_run_file(types_path(path))
    shouted = types_path(path).with_suffix(".CSV")
    assert is_run_file(shouted)
    with pytest.raises(RunFileError, match=r"types of metrics lie beside their run file as STEM\.metrics\.csv"):
        parse_run_name(shouted)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "x.metrics.csv"
    hostile = 'Storage:a".1, "b[count]'
    rows = [("k", hostile, "gauge", 'x{l="a, b"}'), ("k", "z[s]", "counter", "z")]
    types = pl.DataFrame(rows, schema=METRIC_TYPES.schema, orient="row")
    path.write_text(types_text(types))
    assert read_types(path, "k").equals(types)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metric,kind\n", "expected the header metric,type,origin, found metric,kind"),
        (
            "metric,type,origin\na,counter,\nb,histogram,\n",
            "line 3: expected a metric and one of counter, gauge, state",
        ),
        ("metric,type,origin\n,counter,x\n", "line 2: expected a metric"),
        ("metric,type,origin\na,,x\n", "line 2: expected a metric"),
        ("metric,type,origin\na,counter,\na,gauge,\n", "line 2: the metric 'a' occurs more than once"),
        ("", "cannot be read as a table"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, text, said):
    path = tmp_path / "x.metrics.csv"
    path.write_text(text)
    with pytest.raises(MetricTypesError, match=said) as error:
        read_types(path, "k")
    assert "\n" not in str(error.value)


def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "x.metrics.csv")
    with pytest.raises(MetricTypesError, match="not a regular file"):
        read_types(tmp_path / "x.metrics.csv", "k")


def refreshed(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data", Settings(), (tmp_path / "runs",))
    pipeline.refresh(folder)
    return folder.fresh()


def treatments(folder: DataFolder) -> dict[str, tuple]:
    catalog = folder.lake.read(METRIC_CATALOG).filter(pl.col("metric").str.contains("CPU:user|pstate"))
    return {metric: tuple(row) for metric, *row in catalog.select("metric", "treatment", "metric_class").iter_rows()}


def test_declared_types_decide_and_a_change_of_theirs_is_noticed(tmp_path):
    path = write_run(tmp_path / "runs")
    folder = refreshed(tmp_path)
    key = Inbox.of(folder).keys[0]
    assert folder.lake.read(METRIC_TYPES, key)["origin"].to_list() == ["node_cpu_seconds_total", "pstate"]
    declared = dict(folder.lake.read(QUALITY_METRICS, key).select("metric", "declared").iter_rows())
    assert declared == {
        "CPU:user[s]": "counter", "GPU:pstate.0[-]": "state", "Memory:x[kB]": None, "a[-]": None, "b[-]": None,
        "interval[s]": None,
    }  # fmt: skip
    # fractions would be no counter, and three values that come and go no state
    assert treatments(folder) == {"CPU:user[s]": ("rate", "dynamic"), "GPU:pstate.0[-]": ("as_is", "static")}
    types_path(path).unlink()
    pipeline.refresh(DataFolder(tmp_path / "data", Settings(), (tmp_path / "runs",)), refit=True)
    assert treatments(folder.fresh()) == {
        "CPU:user[s]": ("as_is", "dynamic"),
        "GPU:pstate.0[-]": ("as_is", "dynamic"),
    }


def test_bad_types_are_rejected_by_themselves(tmp_path):
    path = write_run(tmp_path / "runs", "metric,type\n")
    folder = refreshed(tmp_path)
    rejected = folder.lake.read(REJECTED_FILES)
    assert rejected["path"].to_list() == [str(types_path(path))]
    assert treatments(folder)["CPU:user[s]"] == ("as_is", "dynamic")
