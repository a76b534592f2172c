"""A run whose process was killed together with the server is found, and one that is at work is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import dagster as dg
import pytest
from dagster import DagsterEvent, DagsterEventType
from dagster._core.events import EngineEventData  # what a run worker reports with its number

from infrascope_dagster.defs.sensors import lost_run_sensor
from infrascope_dagster.lost_runs import lost_runs, overlooked_retries


@dg.job
def nothing(): ...


def at_work(instance: dg.DagsterInstance, pid: int | None) -> dg.DagsterRun:
    """A run that is started, of a process."""
    run = instance.create_run_for_job(nothing)
    data = EngineEventData.in_process(pid) if pid else EngineEventData()
    instance.report_engine_event("Started process for run", run, data)
    event = DagsterEvent(event_type_value=DagsterEventType.PIPELINE_START.value, job_name="nothing")
    instance.report_dagster_event(event, run_id=run.run_id)
    return run


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_whose_process_is_gone_is_marked_as_failed(instance):
    lost, alive, unknown = (at_work(instance, pid) for pid in (dead_process(), os.getpid(), None))
    assert [run.run_id for run in lost_runs(instance)] == [lost.run_id]
    lost_run_sensor(dg.build_sensor_context(instance=instance))
    status = [instance.get_run_by_id(run.run_id).status for run in (lost, alive, unknown)]
    failed, started = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED
    assert status == [failed, started, started]
    assert list(lost_runs(instance)) == []


@pytest.mark.parametrize("later", [False, True])
def test_another_process_of_the_same_number_is_not_the_runs(instance, later):
    if not later:
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        run = at_work(instance, other.pid)
        expected = []
    else:
        run = at_work(instance, None)
        time.sleep(1.5)
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        instance.report_engine_event("Started process for run", run, EngineEventData.in_process(other.pid))
        expected = [run.run_id]
    try:
        assert [run.run_id for run in lost_runs(instance)] == expected
    finally:
        other.kill()
        other.wait()


def test_a_failure_whose_retry_was_overlooked_is_reported_again_and_once(instance, monkeypatch):
    """Dagster's daemon saw the event of the failure before the run was marked: no run has it as its parent."""
    overlooked, retried, new = (at_work(instance, None) for _ in range(3))
    for run in (overlooked, retried):
        instance.report_run_failed(run)
        instance.add_run_tags(run.run_id, {"dagster/will_retry": "true"})
    instance.add_run_tags(retried.run_id, {"dagster/auto_retry_run_id": "another"})
    assert list(overlooked_retries(instance)) == []  # it may still come
    monkeypatch.setattr("infrascope_dagster.lost_runs._PATIENCE_S", 0.0)
    instance.report_run_failed(new)  # of a run that is not to be retried
    instance.add_run_tags(new.run_id, {"dagster/will_retry": "false"})
    for _ in range(2):
        lost_run_sensor(dg.build_sensor_context(instance=instance))
    failures = {
        run.run_id: len(instance.all_logs(run.run_id, of_type=DagsterEventType.RUN_FAILURE))
        for run in (overlooked, retried, new)
    }
    assert failures == {overlooked.run_id: 2, retried.run_id: 1, new.run_id: 1}
