"""The command line as a person meets it: help, collect, odd folders, one sentence for an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.cli import build_app
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS
from tests.runs import write_run

app = build_app()


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_help_is_a_page_to_work_from():
    page = infrascope("--help").output
    for word in ("run", "summary", "collect", "PHASE_MODELforTASK_DATASET_START_HOST"):
        assert word in page
    run = infrascope("run", "--help").output
    for option in ("--data", "--recipe", "--settings", "--refit", "--strict", "--debug"):
        assert option in run
    assert "Exit status" in run


@pytest.mark.parametrize("status", [0, 3])
def test_collect_records_and_returns_the_commands_status(tmp_path, status):
    program = f"import time, sys; time.sleep(0.6); sys.exit({status})"
    result = infrascope(
        "collect", "--out", tmp_path, "--model", "Sleep", "--task", "Test", "--phase", "infer",
        "--", sys.executable, "-c", program,
    )  # fmt: skip
    assert result.exit_code == status, result.output
    (path,) = tmp_path.glob("infer_SleepforTest_default_*.txt")
    run = read_run_file(path)
    assert 3 <= run.samples <= 8
    assert run.interval_s == pytest.approx(0.1, abs=0.03)
    assert "AverageCPUUtilization[%]" in run.telemetry.columns


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("--", "/no/such/program"), "no/such/program", 127),
        (("--interval", "0", "--", "true"), "interval", 1),
        (("--task", "lower", "--", "true"), "task", 1),
        (("--model", "../x", "--", "true"), "model", 1),
    ],
)
def test_collect_refuses_in_one_sentence(tmp_path, words, message, status):
    result = infrascope("collect", "--out", tmp_path, *words)
    assert result.exit_code == status
    assert message in result.output.replace("\n", "")
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_folders_with_odd_names(tmp_path):
    folder = tmp_path / "we[i]rd d'ir* ü"
    path = write_run(folder / "runs", 1)
    path.with_name(path.stem + ".faults.csv").write_text("start,end,fault,subsystem,metrics\n")
    result = infrascope("run", folder / "runs", "--data", folder / "data", "--strict")
    assert result.exit_code == 0, result.output
    folder = DataFolder(folder / "data")
    assert folder.lake.read(BASKETS, path.stem).height
    import duckdb

    with duckdb.connect(str(folder.warehouse), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM baskets").fetchone()[0] > 0


def test_settings_change_the_windows(tmp_path):
    path = write_run(tmp_path / "runs", 1)
    settings = tmp_path / "settings.yaml"
    settings.write_text("windows: {seconds: 2}\nfeatures: {samples: 50, stride: 25}\n")
    result = infrascope("run", tmp_path / "runs", "--data", tmp_path / "data", "--settings", settings)
    assert result.exit_code == 0, result.output
    lake = DataFolder(tmp_path / "data").lake
    assert lake.read(GROUP_WINDOWS, path.stem)["window"].max() == 19
    assert lake.read(WINDOW_FEATURES, path.stem)["window"].max() == 14
    settings.write_text("windows: {seconds: none}\n")
    result = infrascope("run", tmp_path / "runs", "--data", tmp_path / "data", "--settings", settings)
    assert result.exit_code == 1
    assert "windows.seconds" in result.output


def test_the_data_folder_of_the_deployment_is_that_of_the_command_line(tmp_path, monkeypatch):
    write_run(tmp_path / "runs", 1)
    monkeypatch.setenv("INFRASCOPE_DATA", str(tmp_path / "shared"))
    assert infrascope("run", tmp_path / "runs").exit_code == 0
    assert "1 run accepted" in infrascope("summary").output
    assert infrascope("summary", "--data", tmp_path / "other").exit_code == 1


def test_debug_shows_the_traceback(tmp_path):
    command = [str(Path(sys.executable).with_name("infrascope")), "run", str(tmp_path / "nowhere")]
    quiet = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    loud = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (quiet.returncode, loud.returncode) == (1, 1)
    assert quiet.stderr.strip().count("\n") == 0
    assert "Traceback" in loud.stderr
