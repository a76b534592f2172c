"""A folder that is asked all the time, while Dagster refits everything twice and the command line looks in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from tests.locations import Location
from tests.runs import write_run

pytestmark = pytest.mark.slow
QUERIES = ["SELECT count(*) FROM anomaly_episodes", "SELECT count(*) FROM window_features"]


class Reader(threading.Thread):
    """Opens the warehouse, counts rows and closes it, again and again."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__()
        self.warehouse, self.enough = warehouse, threading.Event()
        self.answers: list[tuple[int, ...]] = []
        self.complaints: list[str] = []

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with duckdb.connect(str(self.warehouse), read_only=True) as con:
                    self.answers.append(tuple(con.execute(query).fetchall()[0][0] for query in QUERIES))
            except duckdb.Error as error:
                self.complaints.append(str(error))


def infrascope(*words: str, data: Path) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("infrascope"))
    environment = {**os.environ, "INFRASCOPE_DATA": str(data)}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def test_no_query_and_no_command_meets_a_lock_while_models_are_refitted(tmp_path):
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(tmp_path, instance)
        assert location.run_job("refresh").success
        reader = Reader(location.folder.warehouse)
        refits: list[bool] = []
        refitting = threading.Thread(
            target=lambda: refits.extend(location.run_job("refit_and_remine").success for _ in range(2))
        )
        reader.start()
        refitting.start()
        commands: list[subprocess.CompletedProcess[str]] = []
        try:
            while refitting.is_alive() or len(commands) < 3:
                commands.append(infrascope("summary", data=location.folder.root))
                commands.append(infrascope("run", str(location.runs), data=location.folder.root))
        finally:
            refitting.join()
            reader.enough.set()
            reader.join()
    assert refits == [True, True]
    assert [(done.args, done.stdout, done.stderr) for done in commands if done.returncode] == []
    assert reader.complaints == []
    assert len(reader.answers) >= 100
    assert all(min(answer) > 0 for answer in reader.answers), "a query saw an empty table"
