"""Sensors: the one that compares the data folder with what Dagster knows, and the one that evaluates the conditions."""

import json
from collections.abc import Iterator, Sequence, Set
from itertools import islice

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.graph import Graph
from infrascope_core.store.lake import fingerprint
from infrascope_dagster import loading
from infrascope_dagster.adoption import Event, unrecorded
from infrascope_dagster.lost_runs import lost_runs, overlooked_retries
from infrascope_dagster.partitions import RUN_FILES, UNFINISHED, Changes, changes, keys_of, latest_records
from infrascope_dagster.resources import DataFolderResource
from infrascope_dagster.versions import DATA_VERSION

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
        "withdraws partitions that nothing is left of, takes rejected files out of the runs, and records what was made "
        "without Dagster.",
    )
    def body(context: dg.SensorEvaluationContext, infrascope: DataFolderResource) -> dg.SensorResult | dg.SkipReason:
        folder, instance = infrascope.folder(), context.instance
        try:
            found = {key: graph.rests_on(folder, product, key) for key in Inbox.of(folder).keys}
        except InfraScopeError as error:
            return dg.SkipReason(str(error))
        compared = list(changes(instance, folder, graph))
        known, made = set(keys_of(instance, RUN_FILES)), set(graph.runs(folder)["run_key"])
        # every tick is stored with its cursor, and so it is two hashes: of what arrived, and of what was made of it
        arrived = fingerprint(json.dumps([found, sorted(known), sorted(made)], sort_keys=True))
        read = fingerprint(json.dumps({key: folder.lake.made_from(product.tables[0], key) for key in sorted(made)}))
        seen, _, recorded = (context.cursor or "").partition(" ")
        if arrived != seen or any(change.added or change.deleted for change in compared):
            reported = _reported(instance)
            changed = [key for key in found if key not in known or reported.get(key) != found[key]][:PER_TICK]
            put_away = sorted(key for key in known & made - found.keys() if reported.get(key) is not None)
            later = {key for key in found if key not in known} - set(changed)
            requests = list(_requests(compared, later))
            if requests or changed or put_away:
                events = [*(_arrived(key, found[key]) for key in changed), *map(_put_away, put_away)]
                return dg.SensorResult(dynamic_partitions_requests=requests, asset_events=events)
        # while there are runs, they are about to record what they made
        busy = instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)) > 0
        adopted: list[Event] = []
        if not busy:
            news = unrecorded(instance, folder, graph, thorough=read != recorded)
            adopted = list(islice(news, ADOPTED_PER_TICK))
        recorded = recorded if busy or len(adopted) == ADOPTED_PER_TICK else read
        cursor = f"{arrived} {recorded}"
        if cursor == context.cursor and not adopted:
            nothing = f"no new, changed or deleted run files among {len(found)}"
            return dg.SkipReason("; ".join([nothing, *Inbox.of(folder).notices]))
        return dg.SensorResult(asset_events=adopted, cursor=cursor)

    return body


def _requests(
    compared: Sequence[Changes], later: Set[str]
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    """What makes the partitions as the data folder is, save for keys whose turn comes in a later tick."""
    for change in compared:
        if added := [key for key in change.added if key not in later]:
            yield change.partitions.build_add_request(added)
        if change.deleted:
            yield change.partitions.build_delete_request(change.deleted)


def _reported(instance: dg.DagsterInstance) -> dict[str, str | None]:
    """The version of each run file as it was last reported; None if it was last reported as deleted."""
    asset = dg.AssetKey("source_files")
    arrived = latest_records(instance.fetch_materializations, asset)
    gone = latest_records(instance.fetch_observations, asset)
    versions: dict[str, str | None] = {}
    for key, record in arrived.items():
        event = record.asset_materialization
        put_away = key in gone and gone[key].storage_id > record.storage_id
        versions[key] = (event.tags or {}).get(DATA_VERSION) if event and not put_away else None
    return dict.fromkeys(gone) | versions


def _arrived(key: str, version: str) -> dg.AssetMaterialization:
    return dg.AssetMaterialization("source_files", partition=key, tags={DATA_VERSION: version})


def _put_away(key: str) -> dg.AssetObservation:
    """A run file that is gone, and whose products stay: they are what it was read for."""
    meaning = "The run file no longer lies in the sources. What was made of it is kept; `infrascope forget` removes it."
    return dg.AssetObservation("source_files", partition=key, description=meaning, metadata={"deleted": True})


@dg.sensor(
    name="lost_run_sensor",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks runs as failed whose process was killed together with the server, and reports failures again "
    "whose retry was overlooked, so that both are retried.",
)
def lost_run_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """The sensor that finds runs without a process; retrying them is the instance's (`run_retries` in dagster.yaml)."""
    found = list(lost_runs(context.instance))
    for run in found:
        context.instance.report_run_failed(run, "The process of this run is gone.")
    overlooked = list(overlooked_retries(context.instance))
    for run in overlooked:
        context.instance.report_run_failed(run, "The retry of this run was overlooked: its failure is reported again.")
    return dg.SkipReason(f"{len(found)} runs had lost their process, the retry of {len(overlooked)} was overlooked")


@dg.definitions
def defs() -> dg.Definitions:
    """All sensors, on the graph that is being loaded."""
    return dg.Definitions(sensors=[automation_sensor, lost_run_sensor, run_file_sensor(loading.project().graph)])
