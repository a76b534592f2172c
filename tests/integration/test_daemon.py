"""With a real `dagster dev`: files come, change and go, processes are killed, and everything becomes current."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from functools import partial

import dagster as dg
import pytest

from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.runs import run_file
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope
from infrascope_dagster.partitions import PARTITIONS, RUN_FILES, RUNS, UNFINISHED, keys_of
from tests.daemon import Server, serving, wait_for
from tests.runs import write_run

pytestmark = pytest.mark.slow

PER_RUN = [table.name for product in GRAPH.order if product.scope.per_run for table in product.tables]
MODELS = ("metric_catalog", "thresholds", "baselines")
POOLED = {product.name for product in GRAPH.order if not product.scope.per_run}
GATHERED = {product.name for product in GRAPH.order if product.scope is Scope.GATHERED}
SOON = 300
QUARTER = 900
"""Seconds between two times at which what is pooled is made on the clock."""


def folder_of(server: Server) -> DataFolder:
    return DataFolder(server.place / "data", sources=(server.place / "runs",))


def is_current(server: Server, *keys: str) -> bool:
    """Whether the products of these runs exist, and rest on what is there now."""
    folder = folder_of(server)
    stale = GRAPH.stale(folder, keys)
    return set(keys) <= set(GRAPH.runs(folder)["run_key"]) and not set(keys) & set().union(*stale.values())


def is_green(server: Server, *keys: str) -> bool:
    """Whether Dagster shows the partitions of all per-run assets as materialized."""
    with server.instance as instance:
        states = [
            instance.get_status_by_partition(dg.AssetKey(name), keys, PARTITIONS[GRAPH.product(name).scope]) or {}
            for name in PER_RUN
        ]
    return all(state.get(key) == dg.AssetPartitionStatus.MATERIALIZED for state in states for key in keys)


def is_at_rest(server: Server) -> bool:
    """Whether what is gathered from all runs is current, and nothing is at work."""
    with server.instance as instance:
        if instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
            return False
    return all(GRAPH.is_current(folder_of(server), name) for name in GATHERED)


def runs_of(server: Server) -> list[dg.DagsterRun]:
    with server.instance as instance:
        return list(instance.get_runs())


def kill_a_run(server: Server) -> str:
    """Kill the process of a run that is at work; returns the run's id."""
    found: list[tuple[str, int]] = []

    def at_work() -> bool:
        with server.instance as instance:
            for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
                text = " ".join(entry.message for entry in instance.all_logs(run.run_id))
                if (pid := re.search(r"Started process for run \(pid: (\d+)\)", text)) is not None:
                    found.append((run.run_id, int(pid[1])))
        return bool(found)

    wait_for(at_work, SOON)
    run_id, pid = found[0]
    os.kill(pid, signal.SIGKILL)
    return run_id


def test_files_arrive_are_replaced_and_deleted_with_no_click(tmp_path):
    with serving(tmp_path) as server:
        folder, lake = server.place, folder_of(server).lake
        with socket.create_connection(("127.0.0.1", server.port), timeout=5):
            pass
        with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", server.port), timeout=5):
            pass

        # one file, in three runs: read, made, and what is gathered from all runs
        wait_for(lambda: lake.has(REJECTED_FILES), SOON)  # an empty list, of an empty folder
        wait_for(lambda: time.time() % QUARTER < QUARTER - 60, SOON)  # what is made on the clock adds to the runs
        runs_before = len(runs_of(server))
        first = write_run(folder / "runs", 1).stem
        wait_for(lambda: is_current(server, first), SOON)
        wait_for(lambda: is_green(server, first), SOON)
        wait_for(lambda: is_at_rest(server), SOON)
        assert len(runs_of(server)) - runs_before <= 3

        # many, and a bad one beside them
        keys = [write_run(folder / "runs", second).stem for second in range(2, 13)]
        bad = write_run(folder / "runs", 13)
        bad.write_text("nothing")
        wait_for(lambda: is_current(server, first, *keys), SOON)
        wait_for(lambda: lake.read(REJECTED_FILES)["run_key"].to_list() == [bad.stem], SOON)
        models = {name: lake.read(name) for name in MODELS}

        # twelve are replaced at once, the bad one is healed, two are deleted
        for second in range(1, 14):
            write_run(folder / "runs", second, samples=450)
        wait_for(lambda: is_current(server, first, *keys, bad.stem), SOON)
        assert {run_file(folder_of(server), key)["samples"] for key in (first, *keys, bad.stem)} == {450}
        assert all(lake.read(name).equals(models[name]) for name in MODELS)
        wait_for(lambda: is_green(server, first, *keys, bad.stem), SOON)
        for key in keys[:2]:
            (folder / "runs" / f"{key}.txt").unlink()
        gone = write_run(folder / "runs", 20)
        gone.write_text("nothing")
        with server.instance as instance:
            wait_for(lambda: lake.has("run_files", gone.stem), SOON)
            gone.unlink()
            wait_for(lambda: gone.stem not in keys_of(instance, RUN_FILES), SOON)
            assert set(keys[:2]) <= set(keys_of(instance, RUN_FILES))
        assert is_current(server, *keys[2:])
        assert is_green(server, first, *keys)
        # what is over all runs waits for its quarter of an hour, and a model keeps what it was fitted on
        assert {name for name, _ in server.unsynced()} <= POOLED


def test_a_backfill_outlives_the_loss_of_a_run_and_of_everything(tmp_path):
    """The obvious backfill of a fresh folder: a run is killed, then server, daemon and runs; it ends green."""
    keys = [write_run(tmp_path / "away", second).stem for second in range(1, 31)]
    with serving(tmp_path, runs=tmp_path / "away") as server:
        with server.instance as instance:
            wait_for(lambda: set(keys_of(instance, RUNS)) == set(keys), SOON)
        names = [t.name for p in GRAPH.order if p.scope is not Scope.STUDIED and p.scope.per_run for t in p.tables]
        backfill = server.backfill(names, keys)
        lost = kill_a_run(server)
        wait_for(lambda: any(run.parent_run_id == lost for run in runs_of(server)), SOON)
        kill_a_run(server)
        server.kill()
    with serving(tmp_path, runs=tmp_path / "away") as server:
        wait_for(lambda: server.status(backfill)[0] != "REQUESTED", 2 * SOON)
        assert server.status(backfill)[0] == "COMPLETED_SUCCESS"
        assert is_current(server, *keys)
        assert is_green(server, *keys)


def test_a_backfill_with_models_ends_green_and_jobs_and_schedules_succeed(tmp_path):
    keys = [write_run(tmp_path / "away", second, samples=600).stem for second in range(1, 5)]

    def succeeded(run_id: str) -> bool:
        with server.instance as instance:
            run = instance.get_run_by_id(run_id)
        assert run is not None and not run.is_failure_or_canceled
        return run.is_success

    with serving(tmp_path, "benchmarks.location", runs=tmp_path / "away") as server:  # nothing starts by itself
        server.add_partitions(keys)
        backfill = server.backfill([*PER_RUN, *MODELS], keys)
        wait_for(lambda: server.status(backfill)[0] != "REQUESTED", 2 * SOON)
        assert server.status(backfill)[0] == "COMPLETED_SUCCESS"
        assert is_current(server, *keys)
        assert is_green(server, *keys)
        assert server.unsynced() == set()
    with serving(tmp_path, runs=tmp_path / "away") as server:
        for job in ("refresh", "refit_and_remine", "studies"):
            run_id = server.launch(job)
            wait_for(partial(succeeded, run_id), SOON)
        for schedule in ("read_missing", "make_missing"):
            found = server.dry_run(schedule)
            assert found["error"] is None
            assert not found["runRequests"] and found["skipReason"]
