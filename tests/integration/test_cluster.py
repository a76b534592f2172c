"""On PostgreSQL, with runs on two workers that share nothing but the database and the data folder."""

from __future__ import annotations

import os
import signal
from collections import Counter

import dagster as dg
import pytest

from tests.daemon import ROOT, serving, wait_for
from tests.integration.test_daemon import SOON, is_current, is_green, runs_of
from tests.postgres import binaries, postgres
from tests.runs import write_run
from tests.workers import PROCESS, WORKER, with_workers


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="needs PostgreSQL (Debian: apt install postgresql)")
def test_two_workers_share_the_database_and_the_folder(tmp_path, monkeypatch):
    """Files arrive, one is bad, a worker is killed, twelve are replaced: everything becomes current."""
    with postgres(tmp_path / "postgres") as address:
        variables = {"INFRASCOPE_POSTGRES": address, "INFRASCOPE_LOGS": str(tmp_path / "logs"), "PYTHONPATH": str(ROOT)}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        keys = [write_run(tmp_path / "runs", second).stem for second in range(1, 31)]
        bad = write_run(tmp_path / "runs", 40)
        bad.write_text("nothing")
        with serving(tmp_path, settings=with_workers(tmp_path)) as server:
            victim: list[dg.DagsterRun] = []

            def at_work() -> bool:
                victim[:] = [
                    run for run in runs_of(server) if run.status is dg.DagsterRunStatus.STARTED and PROCESS in run.tags
                ]
                return bool(victim)

            wait_for(at_work, SOON)
            os.kill(int(victim[0].tags[PROCESS]), signal.SIGKILL)
            wait_for(lambda: is_current(server, *keys), SOON)
            wait_for(lambda: is_green(server, *keys), SOON)
            for second in range(1, 13):
                write_run(tmp_path / "runs", second, samples=450)
            wait_for(lambda: not is_current(server, *keys), SOON)
            wait_for(lambda: is_current(server, *keys), SOON)
            wait_for(lambda: is_green(server, *keys), SOON)
            runs = runs_of(server)
            assert any(run.parent_run_id == victim[0].run_id for run in runs)
            assert set(Counter(run.tags[WORKER] for run in runs if WORKER in run.tags)) == {"worker1", "worker2"}
            assert not [*(tmp_path / "home").rglob("*.db")]  # nothing was stored beside the database
