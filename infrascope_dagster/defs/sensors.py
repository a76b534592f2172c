"""Sensors: the one that compares the data folder with what Dagster knows, and the one that evaluates the conditions."""

import json
from itertools import islice
from typing import Any

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.lake import fingerprint
from infrascope_dagster import loading
from infrascope_dagster.adoption import DATA_VERSION, unrecorded
from infrascope_dagster.lost_runs import lost_runs
from infrascope_dagster.partitions import RUN_FILES, RUN_FILES_NAME
from infrascope_dagster.resources import DataFolderResource

PER_TICK = 200
"""Most files reported per tick, so that a first load of thousands does not outlast the sensor's time."""
ADOPTED_PER_TICK = 1000
"""Most products per tick that are reported as they lie in the data folder."""

automation_sensor = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks(),
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    use_user_code_server=True,  # whether something is stale is asked of the data folder
)


def run_file_sensor(graph: Graph) -> dg.SensorDefinition:
    """The sensor that keeps partitions and records in step with files and lake; it starts nothing itself."""
    product = graph.product(tables.RUN_FILES)

    @dg.sensor(
        name="run_file_sensor",
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Registers new run files as partitions, reports new, changed and deleted ones on source_files, "
        "withdraws partitions that nothing is left of, and records what was made without Dagster.",
    )
    def body(context: dg.SensorEvaluationContext, infrascope: DataFolderResource) -> dg.SensorResult | dg.SkipReason:
        folder, instance = infrascope.folder(), context.instance
        try:
            found = {key: graph.rests_on(folder, product, key) for key in Inbox.of(folder).keys}
        except InfraScopeError as error:
            return dg.SkipReason(str(error))
        known, made = set(instance.get_dynamic_partitions(RUN_FILES_NAME)), set(graph.runs(folder)["run_key"])
        # every tick is stored with its cursor, and so it is a hash
        state = fingerprint(json.dumps([found, sorted(known), sorted(made)], sort_keys=True))
        if state != context.cursor:
            reported = _reported(instance)
            changed = [key for key in found if key not in known or reported.get(key) != found[key]][:PER_TICK]
            new = [key for key in [*changed, *sorted(made - found.keys())] if key not in known]
            put_away = sorted(key for key in known & made - found.keys() if reported.get(key) is not None)
            withdrawn = sorted(known - made - found.keys())
            if new or changed or put_away or withdrawn:
                requests: list[Any] = [RUN_FILES.build_add_request(new)] if new else []
                requests += [RUN_FILES.build_delete_request(withdrawn)] if withdrawn else []
                events = [*(_arrived(key, found[key]) for key in changed), *map(_put_away, put_away)]
                return dg.SensorResult(dynamic_partitions_requests=requests, asset_events=events)
        adopted = _adopted(instance, folder, graph)
        if state == context.cursor and not adopted:
            return dg.SkipReason(f"no new, changed or deleted run files among {len(found)}")
        return dg.SensorResult(asset_events=adopted, cursor=state)

    return body


def _reported(instance: dg.DagsterInstance) -> dict[str, str | None]:
    """The version of each run file as it was last reported; None if it was last reported as deleted."""
    last: dict[str, tuple[int, str | None]] = {}
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        cursor, more = None, True
        while more:
            page = fetch(dg.AssetKey("source_files"), limit=1000, cursor=cursor)
            for record in page.records:
                event = record.asset_materialization or record.event_log_entry.asset_observation
                if event and record.partition_key and record.storage_id > last.get(record.partition_key, (-1, None))[0]:
                    last[record.partition_key] = record.storage_id, (event.tags or {}).get(DATA_VERSION)
            cursor, more = page.cursor, page.has_more
    return {key: version for key, (_, version) in last.items()}


def _arrived(key: str, version: str) -> dg.AssetMaterialization:
    return dg.AssetMaterialization("source_files", partition=key, tags={DATA_VERSION: version})


def _put_away(key: str) -> dg.AssetObservation:
    """A run file that is gone, and whose products stay: they are what it was read for."""
    meaning = "The run file no longer lies in the sources. What was made of it is kept; `infrascope forget` removes it."
    return dg.AssetObservation("source_files", partition=key, description=meaning, metadata={"deleted": True})


def _adopted(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> list[dg.AssetMaterialization]:
    """What the folder holds and the instance has no record of.

    Nothing while there are runs: they are about to record what they made.
    """
    busy = instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED))
    return [] if busy else list(islice(unrecorded(instance, folder, graph), ADOPTED_PER_TICK))


@dg.sensor(
    name="lost_run_sensor",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks runs as failed whose process was killed together with the server, so that they are retried.",
)
def lost_run_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """The sensor that finds runs without a process; retrying them is the instance's (`run_retries` in dagster.yaml)."""
    found = list(lost_runs(context.instance))
    for run in found:
        context.instance.report_run_failed(run, "The process of this run is gone.")
    return dg.SkipReason(f"{len(found)} runs had lost their process")


UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.definitions
def defs() -> dg.Definitions:
    """All sensors, on the graph that is being loaded."""
    return dg.Definitions(sensors=[automation_sensor, lost_run_sensor, run_file_sensor(loading.project().graph)])
