"""Runs that are lost: their process is gone without a word, or their retry was overlooked.

The code server notices when a run that it started dies; nobody does if the server died as well. Such a run would keep
its partitions in progress for ever.

Dagster's daemon retries a run when it reads the event of its failure. The event is stored a moment before the run's own
status is; read in between, the run counts as one that has not failed, and is never looked at again. A backfill waits
for it for ever.
"""

import time
from collections.abc import Iterator

import dagster as dg
import psutil

_SLACK_S = 1.0
"""A process that began later than this after its run started is another one of the same number."""
_PATIENCE_S = 60.0
"""A retry that has not begun so long after a failure was overlooked."""
_LATEST = 50
_WILL_RETRY = "dagster/will_retry"
_RETRY = "dagster/auto_retry_run_id"
_REPORTED_AGAIN = "infrascope/reported_again"


def lost_runs(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    """Runs that are at work by the records, and whose process, on this machine, is not.

    A launcher that starts runs on other machines can tell by itself how they are: its runs are left to it.
    """
    if instance.run_launcher.supports_check_run_worker_health:
        return
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        pid = _process_of(instance, run)
        if pid is None or record.start_time is None or _lives(pid, record.start_time):
            continue
        now = instance.get_run_by_id(run.run_id)
        if now is not None and now.status is dg.DagsterRunStatus.STARTED:  # it has not ended meanwhile
            yield now


def overlooked_retries(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    """Runs of late that failed a while ago, are to be retried and were not; each run is given once.

    It is told by a tag of the run, because Dagster has reasons of its own not to retry one: its backfill was cancelled.
    """
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={_WILL_RETRY: "true"})
    for record in instance.get_run_records(failed, limit=_LATEST):
        run, ended = record.dagster_run, record.end_time
        if ended is None or abs(time.time() - ended) < _PATIENCE_S or {_RETRY, _REPORTED_AGAIN} & run.tags.keys():
            continue
        instance.add_run_tags(run.run_id, {_REPORTED_AGAIN: "true"})
        yield run


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int | None:
    """Number of a run's process, which it records when it starts."""
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        if entry.dagster_event is not None:
            pid = entry.dagster_event.engine_event_data.metadata.get("pid")
            if pid is not None:
                return int(str(pid.value))
    return None


def _lives(pid: int, started: float) -> bool:
    try:
        return bool(psutil.Process(pid).create_time() <= started + _SLACK_S)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # it may not be looked at: it is there
        return True
