"""Run files from rows: names that nothing can escape, text that the reader takes, types beside."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.jobs import Job
from infrascope_core.importers.joining import Joined
from infrascope_core.importers.writing import Naming, run_path, write_run_file
from infrascope_core.run_files.metric_types import read_types
from infrascope_core.run_files.name import parse_run_name, types_path
from infrascope_core.run_files.reader import read_run_file

START = datetime(2026, 11, 20, 10)
JOB = Job(START, START + timedelta(hours=1), ("gpu01",), "7", "BERT large, try 2")


def test_a_job_gives_its_name_to_the_model():
    name = "train_BERT-large-try-2forUnknown_default_2026-11-20T10-00-00_gpu01.tsv"
    assert run_path(Path("runs"), JOB, "gpu01", Naming()) == Path("runs", name)
    given_name = run_path(Path("runs"), JOB, "gpu01", Naming("LLAMA", "TextClassification", "C4", "infer"))
    assert given_name.name == "infer_LLAMAforTextClassification_C4_2026-11-20T10-00-00_gpu01.tsv"


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_name_leaves_the_folder_or_breaks_the_grammar(name, host):
    path = run_path(Path("out"), Job(START, START, None, None, name), host, Naming())
    assert path.parent == Path("out") and path.resolve().parent == Path("out").resolve()
    assert parse_run_name(path).started_at == START


@pytest.mark.parametrize("name", ["../../etc", "a/b", "x\ny", "FooforBar", "a..b", "-", "", "gpt_neo"])
def test_hostile_names_of_jobs(name):
    path = run_path(Path("out"), Job(START, START, None, None, name), "../h", Naming())
    parsed = parse_run_name(path)
    assert (path.parent, parsed.task, parsed.host) == (Path("out"), "Unknown", "h")


@pytest.mark.parametrize("naming", [Naming(task="lower"), Naming(dataset="a b"), Naming(task="../X")])
def test_what_a_person_gives_is_not_changed_but_refused(naming):
    with pytest.raises(ImportSourceError, match="expected a name like"):
        run_path(Path("out"), JOB, "gpu01", naming)


def test_the_reader_takes_what_is_written(tmp_path):
    rows = pl.DataFrame(
        {
            "ts": [START, START + timedelta(seconds=15, milliseconds=250)],
            "Memory:MemFree[kB]": [1e6, None],
            "GPU: utilization.gpu.0[%]": [99.5, 0.25],
            "Storage:size.1[MiB]": [2.0**60, float("inf")],
            "Memory:nothing[kB]": pl.Series([None, None], dtype=pl.Float64),
            "a[-]": [-1.0, 0.0],
        }
    )
    types = pl.DataFrame([("Memory:MemFree[kB]", "gauge", "node")], schema=["metric", "type", "origin"], orient="row")
    path = run_path(tmp_path, JOB, "gpu01", Naming())
    write_run_file(path, Joined(rows, types, 15.25), "gpu01")
    assert path.read_text().splitlines()[1] == "2026-11-20 10:00:00.000\t1000000\t99.5\t1.152921504606847e+18\t\t-1"
    run = read_run_file(path)
    assert (run.platform, run.samples, run.interval_s, run.telemetry["host"][0]) == ("gpu", 2, 15.25, "gpu01")
    assert run.telemetry.select(rows.columns).equals(rows)
    assert read_types(types_path(path), "k").drop("run_key").rows() == types.rows()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, types_path(path).name])
