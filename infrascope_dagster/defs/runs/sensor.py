"""The sensor that finds run files: it registers keys and reports changes, and starts nothing itself."""

import json

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_dagster.partitions import RUN_FILES, RUN_FILES_NAME
from infrascope_dagster.resources import PipelineResource

PER_TICK = 200
"""Most files reported per tick, so that a first load of thousands does not outlast the sensor's time."""


@dg.sensor(
    name="run_file_sensor",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Registers new run files as partitions, and reports new and changed ones on source_files.",
)
def run_file_sensor(
    context: dg.SensorEvaluationContext, infrascope: PipelineResource
) -> dg.SensorResult | dg.SkipReason:
    """Compare what lies in the sources with what the cursor remembers."""
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    try:
        offers = infrascope.pipeline().offers()
    except InfraScopeError as error:
        return dg.SkipReason(str(error))
    changed = [key for key, offered in offers.items() if seen.get(key) != offered][:PER_TICK]
    if not changed:
        return dg.SkipReason(f"no new or changed run files among {len(offers)}")
    known = set(context.instance.get_dynamic_partitions(RUN_FILES_NAME))
    new = [key for key in changed if key not in known]
    return dg.SensorResult(
        dynamic_partitions_requests=[RUN_FILES.build_add_request(new)] if new else [],
        asset_events=[
            dg.AssetMaterialization("source_files", partition=key, tags={"dagster/data_version": offers[key]})
            for key in changed
        ],
        cursor=json.dumps(seen | {key: offers[key] for key in changed}),
    )
