"""What goes wrong beside bad files: interruptions, kills, full disks, two folders with one name."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.summary import summarize
from infrascope_core.run_files import ingestion
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.symbols.tables import BASKETS
from infrascope_dagster.in_process import bring_up_to_date
from tests.core.conftest import SAMPLE
from tests.runs import write_run

app = build_app(bring_up_to_date)
ROOT = Path(__file__).parents[2]


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_an_accident_with_one_file_is_said_and_the_others_are_kept(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    paths = [write_run(runs, second) for second in (1, 2, 3)]
    whole = ingestion.read_run_file

    def clumsy(path, settings):
        if path == paths[1]:
            raise MemoryError("no more")
        return whole(path, settings)

    monkeypatch.setattr(ingestion, "read_run_file", clumsy)
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 1
    assert f"neither be read nor rejected, the first is {paths[1].stem}" in result.output.replace("\n", "")
    assert Lake(data / "lake").keys("telemetry") == [paths[0].stem, paths[2].stem]
    monkeypatch.undo()
    result = infrascope("run", runs, "--data", data, "--strict")
    assert result.exit_code == 0, result.output
    assert "3 runs accepted" in result.output


def test_an_interruption_is_one_and_the_next_call_goes_on(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in (1, 2):
        write_run(runs, second)
    write = Lake.write

    for table in ("telemetry", "window_features", "thresholds", "frequent_itemsets"):

        def interrupted(self, frame, name, *more, table=table, **options):
            if name == table:
                raise KeyboardInterrupt
            return write(self, frame, name, *more, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Lake, "write", interrupted)
            result = infrascope("run", runs, "--data", data)
        assert result.exit_code == 130
        assert "interrupted" in result.output
        assert not Lake(data / "lake").keys(table)  # not a table of another stage before it
        assert not Lake(data / "lake").has(table)
    result = infrascope("run", runs, "--data", data, "--strict")
    assert result.exit_code == 0, result.output


def test_a_refit_that_is_killed_between_model_and_table_does_no_harm(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in (1, 2):
        write_run(runs, second)
    assert infrascope("run", runs, "--data", data).exit_code == 0
    write_run(runs, 3)
    write = Lake.write

    def killed(self, frame, name, *more, **options):
        if name == "baselines":
            raise KeyboardInterrupt
        return write(self, frame, name, *more, **options)

    monkeypatch.setattr(Lake, "write", killed)
    assert infrascope("run", runs, "--data", data, "--refit").exit_code == 130
    monkeypatch.undo()
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 0, result.output
    for model in (data / "models").glob("*.safetensors"):
        model.unlink()
    write_run(runs, 4)
    assert infrascope("run", runs, "--data", data).exit_code == 0  # a lost model is fitted again


def test_the_same_name_in_another_folder_is_rejected_though_it_comes_in_another_call(tmp_path):
    data = tmp_path / "data"
    first = write_run(tmp_path / "a", 1)
    other = write_run(tmp_path / "b", 1, samples=150)
    infrascope("run", tmp_path / "a", "--data", data)
    result = infrascope("run", tmp_path / "b", "--data", data, "--strict")
    assert result.exit_code == 1
    assert "duplicate run key" in DataFolder(data).rejected_files()["reason"][0]
    assert DataFolder(data).run_file(first.stem)["samples"] == 400
    first.unlink()  # now the name is free
    assert infrascope("run", tmp_path / "b", "--data", data, "--strict").exit_code == 0
    assert DataFolder(data).run_file(other.stem)["samples"] == 150


def test_the_exit_status_is_about_this_call(tmp_path):
    data = tmp_path / "data"
    write_run(tmp_path / "good", 1)
    bad = write_run(tmp_path / "bad", 2)
    bad.write_text("nothing")
    assert infrascope("run", tmp_path / "good", "--data", data).exit_code == 0
    result = infrascope("run", tmp_path / "bad", "--data", data)
    assert result.exit_code == 1
    assert "no run could be used" in result.output
    assert infrascope("run", tmp_path / "good", "--data", data, "--strict").exit_code == 0


def test_a_data_folder_that_is_none(tmp_path):
    write_run(tmp_path / "runs", 1)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", Path("/proc/infrascope")):
        result = infrascope("run", tmp_path / "runs", "--data", folder)
        assert result.exit_code == 1
        assert f"{folder}: nothing can be written there" in result.output.replace("\n", "")


def test_a_full_disk_is_called_one(tmp_path):
    """A limit on the size of files stands in for the disk: the kernel refuses the write in the same place."""
    lake = tmp_path / "lake"
    program = (
        "import resource, signal, sys, polars as pl\n"
        "from pathlib import Path\n"
        "from infrascope_core.lake import Lake\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "frame = pl.DataFrame({'x': range(100_000)}).with_columns(y=pl.col('x').hash())\n"
        f"Lake(Path({str(lake)!r})).write(frame, 'telemetry', 'run')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "InfraScopeError" in done.stderr
    assert "cannot be written" in done.stderr
    assert not list(lake.rglob("*.*"))


def test_summary_speaks_of_the_windows_that_were_used(tmp_path):
    write_run(tmp_path / "runs", 1, burst=(200, 260))
    settings = tmp_path / "settings.yaml"
    settings.write_text("features: {samples: 60}\n")
    result = infrascope("run", tmp_path / "runs", "--data", tmp_path / "data", "--settings", settings)
    assert result.exit_code == 0, result.output
    again = infrascope("summary", "--data", tmp_path / "data")
    assert again.output.strip() in result.output
    with pytest.raises(InfraScopeError, match="holds no lake"):
        DataFolder.as_last_filled(tmp_path / "empty")


_FILL = """
import sys
from pathlib import Path
from infrascope_core.pipeline import DataFolder
from infrascope_core.settings import Settings
from infrascope_dagster import in_process
in_process.INGEST_BATCH = in_process.PRODUCT_BATCH = int(sys.argv[3])
in_process.bring_up_to_date(DataFolder(Path(sys.argv[1]), Settings(), (Path(sys.argv[2]),)), False, lambda *_: None)
"""


def test_the_same_bytes_whatever_the_threads_and_batches(tmp_path):
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    prints = []
    for threads, batch in (("1", 1), ("4", 50)):
        data = tmp_path / f"data{threads}"
        subprocess.run(
            [sys.executable, "-c", _FILL, str(data), str(tmp_path / "runs"), str(batch)],
            check=True, cwd=ROOT,
            env={**os.environ, "POLARS_MAX_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        )  # fmt: skip
        prints.append(
            {
                str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted([*data.rglob("*.parquet"), *data.rglob("*.safetensors")])
                if path.name != "baselines.parquet"  # it says when it was fitted
            }
        )
    assert prints[0] == prints[1]
    assert len(prints[0]) > 40


@pytest.mark.skipif(not list(SAMPLE.glob("*.txt.gz")), reason="no sample runs are recorded here")
def test_the_samples_worst_episodes_name_injected_disturbances(tmp_path):
    folder = DataFolder(tmp_path, sources=(SAMPLE,))
    bring_up_to_date(folder, False, lambda *_: None)
    summary = summarize(folder)
    named = summary.episodes.filter(fault="sync_writes", subsystem="Storage").height
    named += summary.episodes.filter(fault="memory_growth", subsystem="Memory").height
    assert named >= 2
    assert summary.episodes.filter(fault="sync_writes", subsystem="Storage").height
    assert summary.episodes.filter(fault="memory_growth", subsystem="Memory").height
    groups = folder.lake.read(BASKETS, accepted(folder)["run_key"][0])["metric_group"].n_unique()
    assert groups >= 7
    assert not summary.rejected.height
    assert summary.rules.height
