"""Sensors: the one that compares the data folder with what Dagster knows, and the one that evaluates the conditions."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_dagster import loading
from infrascope_dagster.adoption import unrecorded
from infrascope_dagster.partitions import RUN_FILES, RUN_FILES_NAME
from infrascope_dagster.resources import DataFolderResource

PER_TICK = 200
"""Most files reported per tick, so that a first load of thousands does not outlast the sensor's time."""
ADOPTED_PER_TICK = 1000
"""Most products per tick that are reported as they lie in the data folder."""
_GONE = ""

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
        seen: dict[str, str] = json.loads(context.cursor or "{}")
        folder, instance = infrascope.folder(), context.instance
        try:
            found = {key: graph.rests_on(folder, product, key) for key in Inbox.of(folder).keys}
        except InfraScopeError as error:
            return dg.SkipReason(str(error))
        known = set(instance.get_dynamic_partitions(RUN_FILES_NAME))
        changed = [key for key, fingerprint in found.items() if seen.get(key) != fingerprint][:PER_TICK]
        new = [key for key in changed if key not in known]
        gone = (known | seen.keys()) - found.keys()
        kept = gone & set(graph.runs(folder)["run_key"])
        put_away = sorted(key for key in kept if seen.get(key) != _GONE)
        withdrawn = sorted(gone - kept)
        adopted = [] if changed else _adopted(instance, folder, graph)
        if not (changed or put_away or withdrawn or adopted):
            return dg.SkipReason(f"no new, changed or deleted run files among {len(found)}")
        remembered = {key: value for key, value in seen.items() if key not in withdrawn}
        remembered |= {key: found[key] for key in changed} | dict.fromkeys(put_away, _GONE)
        requests: list[Any] = [RUN_FILES.build_add_request(new)] if new else []
        requests += [RUN_FILES.build_delete_request(withdrawn)] if known.intersection(withdrawn) else []
        return dg.SensorResult(
            dynamic_partitions_requests=requests,
            asset_events=[*_arrived(changed, found), *map(_put_away, put_away), *adopted],
            cursor=json.dumps(remembered),
        )

    return body


def _arrived(keys: list[str], found: Mapping[str, str]) -> list[dg.AssetMaterialization]:
    return [
        dg.AssetMaterialization("source_files", partition=key, tags={"dagster/data_version": found[key]})
        for key in keys
    ]


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
    return dg.Definitions(sensors=[automation_sensor, run_file_sensor(loading.project().graph)])
