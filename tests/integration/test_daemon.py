"""With a real `dagster dev` and its daemon: a file that is dropped in arrives, a bad neighbour stops nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrascope_core.anomalies.tables import ANOMALY_REASONS
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from tests.runs import write_run

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(tmp_path):
    """`dagster dev` on a folder of runs, with the project's own instance settings."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (tmp_path / "runs").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "INFRASCOPE_DATA": str(tmp_path / "data"),
        "INFRASCOPE_RUNS": str(tmp_path / "runs"),
    }
    dagster = str(Path(sys.executable).with_name("dagster"))
    with (tmp_path / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [dagster, "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)],
            cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield tmp_path, port
        finally:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(what, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(1)


def test_dropped_files_arrive_with_no_click(daemon):
    folder, port = daemon
    lake = DataFolder(folder / "data").lake
    keys = [write_run(folder / "runs", second).stem for second in (1, 2)]
    bad = write_run(folder / "runs", 3)
    bad.write_text("nothing")
    wait_for(lambda: all(lake.has(ANOMALY_REASONS, key) for key in keys), 900)
    wait_for(lambda: lake.keys(REJECTED_FILES), 120)
    assert not lake.has(ANOMALY_REASONS, bad.stem)

    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass

    models = {name: lake.read(name) for name in ("metric_catalog", "thresholds", "baselines")}
    late = [write_run(folder / "runs", 3).stem, write_run(folder / "runs", 4).stem]
    wait_for(lambda: all(lake.has(ANOMALY_REASONS, key) for key in late), 900)
    assert all(lake.read(name).equals(models[name]) for name in models)
