"""With a real `dagster dev` and its daemon: a file that is dropped in arrives, a bad neighbour stops nothing."""

from __future__ import annotations

import socket

import pytest

from infrascope_core.anomalies.tables import ANOMALY_REASONS
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from tests.daemon import serving, wait_for
from tests.runs import write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as server:
        yield server


def test_dropped_files_arrive_with_no_click(server):
    folder, port = server.place, server.port
    lake = DataFolder(folder / "data").lake
    keys = [write_run(folder / "runs", second).stem for second in (1, 2)]
    bad = write_run(folder / "runs", 3)
    bad.write_text("nothing")
    wait_for(lambda: all(lake.has(ANOMALY_REASONS, key) for key in keys), 900)
    wait_for(lambda: lake.read(REJECTED_FILES)["run_key"].to_list() == [bad.stem], 120)
    assert not lake.has(ANOMALY_REASONS, bad.stem)

    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass

    models = {name: lake.read(name) for name in ("metric_catalog", "thresholds", "baselines")}
    late = [write_run(folder / "runs", 3).stem, write_run(folder / "runs", 4).stem]
    wait_for(lambda: all(lake.has(ANOMALY_REASONS, key) for key in late), 900)
    assert all(lake.read(name).equals(models[name]) for name in models)
