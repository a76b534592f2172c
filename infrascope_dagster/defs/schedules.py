"""Schedules: what happens every day, or every few minutes, whatever became of it before."""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.sources.imported import is_import
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope
from infrascope_dagster import loading
from infrascope_dagster.defs.jobs import IMPORT, MAKE, PRUNE, READ
from infrascope_dagster.partitions import BATCH, PARTITIONS, UNFINISHED, keys_of, range_tags, stretches
from infrascope_dagster.resources import DataFolderResource


@dataclass(frozen=True)
class Morning:
    """What one of the schedules asks for.

    Attributes
    ----------
    name, job, cron : str
        Its own name, that of the job that it starts, and when (UTC).
    scope : Scope
        Products of this scope are looked at.
    description : str
        For the UI.
    nothing : str
        Said if there is nothing to ask for.
    """

    name: str
    job: str
    cron: str
    scope: Scope
    description: str
    nothing: str


MORNINGS = (
    Morning(
        "read_missing",
        READ,
        "0 6 * * *",
        Scope.ARRIVING,
        "Every morning: asks for run files that were not read as they lie there now.",
        "every registered run file is read, or rejected, as it lies there now",
    ),
    Morning(
        "make_missing",
        MAKE,
        "30 6 * * *",
        Scope.PER_RUN,
        "Every morning, half an hour later: asks for products that are missing or stale.",
        "every run has all its products, and all of them are current",
    ),
)


def schedule_of(graph: Graph, morning: Morning) -> dg.ScheduleDefinition:
    """A schedule that asks the core what is stale."""
    products = [product.name for product in graph.order if product.scope is morning.scope]

    @dg.schedule(
        name=morning.name,
        job_name=morning.job,
        cron_schedule=morning.cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=morning.description,
    )
    def body(
        context: dg.ScheduleEvaluationContext, infrascope: DataFolderResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        day, folder = context.scheduled_execution_time.strftime("%Y-%m-%d"), infrascope.folder()
        try:
            stale = graph.stale(folder, Inbox.of(folder).keys)
        except InfraScopeError as error:  # a source is missing
            yield dg.SkipReason(str(error))
            return
        registered = keys_of(context.instance, PARTITIONS[morning.scope])
        wanted = set().union(*(stale[name] for name in products)) & set(registered)
        for batch in stretches(registered, wanted, BATCH):
            yield dg.RunRequest(run_key=f"{day} {batch[0]}", tags=range_tags(batch))
        if not wanted:
            yield dg.SkipReason(morning.nothing)

    return body


@dg.schedule(
    name="prune_daily",
    job_name=PRUNE,
    cron_schedule="0 5 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every morning, before runs are read: drops the samples of runs older than `retention.days`.",
)
def pruning(
    context: dg.ScheduleEvaluationContext, infrascope: DataFolderResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """A schedule that drops the samples of old runs, if the settings say how old."""
    if infrascope.folder().settings.retention.days is None:
        yield dg.SkipReason("retention.days is not set: everything is kept")
    else:
        yield dg.RunRequest(run_key=context.scheduled_execution_time.strftime("%Y-%m-%d prune"))


@dg.schedule(
    name="import_regularly",
    job_name=IMPORT,
    cron_schedule="*/10 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every ten minutes: imports what is new in sources that are telemetry. The sensor takes it from there.",
)
def importing(
    context: dg.ScheduleEvaluationContext, infrascope: DataFolderResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """A schedule that asks for the import, if a source needs it and none is under way."""
    if not any(map(is_import, infrascope.folder().sources)):
        yield dg.SkipReason("no source is telemetry")
    elif context.instance.get_runs_count(dg.RunsFilter(job_name=IMPORT, statuses=UNFINISHED)):
        yield dg.SkipReason("the import before is still going on")
    else:
        yield dg.RunRequest(run_key=context.scheduled_execution_time.strftime("%Y-%m-%dT%H:%M import"))


@dg.definitions
def defs() -> dg.Definitions:
    """All schedules, on the graph that is being loaded."""
    graph = loading.project().graph
    return dg.Definitions(schedules=[*(schedule_of(graph, morning) for morning in MORNINGS), pruning, importing])
