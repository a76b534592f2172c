"""Sensors: the one that finds run files, and the one that evaluates the conditions of the assets."""

import json

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.graph import Graph
from infrascope_dagster import loading
from infrascope_dagster.partitions import RUN_FILES, RUN_FILES_NAME
from infrascope_dagster.resources import DataFolderResource

PER_TICK = 200
"""Most files reported per tick, so that a first load of thousands does not outlast the sensor's time."""

automation_sensor = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks(),
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    use_user_code_server=True,  # whether something is stale is asked of the data folder
)


def run_file_sensor(graph: Graph) -> dg.SensorDefinition:
    """The sensor that compares what lies in the sources with what its cursor remembers; it starts nothing itself."""
    product = graph.product(tables.RUN_FILES)

    @dg.sensor(
        name="run_file_sensor",
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Registers new run files as partitions, and reports new and changed ones on source_files.",
    )
    def body(context: dg.SensorEvaluationContext, infrascope: DataFolderResource) -> dg.SensorResult | dg.SkipReason:
        seen: dict[str, str] = json.loads(context.cursor or "{}")
        folder = infrascope.folder()
        try:
            found = {key: graph.rests_on(folder, product, key) for key in Inbox.of(folder).keys}
        except InfraScopeError as error:
            return dg.SkipReason(str(error))
        changed = [key for key, fingerprint in found.items() if seen.get(key) != fingerprint][:PER_TICK]
        if not changed:
            return dg.SkipReason(f"no new or changed run files among {len(found)}")
        known = set(context.instance.get_dynamic_partitions(RUN_FILES_NAME))
        new = [key for key in changed if key not in known]
        return dg.SensorResult(
            dynamic_partitions_requests=[RUN_FILES.build_add_request(new)] if new else [],
            asset_events=[
                dg.AssetMaterialization("source_files", partition=key, tags={"dagster/data_version": found[key]})
                for key in changed
            ],
            cursor=json.dumps(seen | {key: found[key] for key in changed}),
        )

    return body


@dg.definitions
def defs() -> dg.Definitions:
    """All sensors, on the graph that is being loaded."""
    return dg.Definitions(sensors=[automation_sensor, run_file_sensor(loading.project().graph)])
