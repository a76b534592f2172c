"""The partitions: run files that were found, and the runs that they hold; both are named by the file's stem.

Two sets, so that a file which cannot be read is red where it was read, and leaves no gap in everything behind it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from infrascope_core.run_files import tables
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope

RUN_FILES = dg.DynamicPartitionsDefinition(name="run_files")
"""Files that lie in the sources, or lay there when they were read."""
RUNS = dg.DynamicPartitionsDefinition(name="runs")
"""Those of them that are not rejected. A file counts as a run until it is read, so that a backfill of everything in a
fresh folder makes the products too."""
PARTITIONS = {Scope.ARRIVING: RUN_FILES, Scope.PER_RUN: RUNS}

BATCH = 100
"""Keys per run of an asset. A run costs seconds before it does anything; a run that is lost costs what it had left."""

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


Fetch = Callable[..., dg.EventRecordsResult]
"""`fetch_materializations` or `fetch_observations` of an instance."""


@dataclass(frozen=True)
class Changes:
    """What has to be added to a set of partitions, and deleted, for it to be as the data folder is."""

    partitions: dg.DynamicPartitionsDefinition
    added: list[str]
    deleted: list[str]


def changes(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> Iterator[Changes]:
    """Compare the partitions with the run files that lie in the sources, and with what the data folder holds.

    Nothing is deleted while a backfill or a run is at work: Dagster gives up a backfill of which a key is gone, and a
    run names its keys by the first and the last.

    Raises
    ------
    InfraScopeError
        A source is missing.
    """
    found, made = Inbox.of(folder).keys, list(graph.runs(folder)["run_key"])
    refused = rejected(folder, graph)
    wanted = {RUN_FILES: [*found, *made], RUNS: [*(key for key in found if key not in refused), *made]}
    for partitions, keys in wanted.items():
        known = set(keys_of(instance, partitions))
        gone = sorted(known - set(keys))
        if gone and _at_work(instance):
            gone = []
        yield Changes(partitions, list(dict.fromkeys(key for key in keys if key not in known)), gone)


def _at_work(instance: dg.DagsterInstance) -> bool:
    """Whether there are runs, or one of the latest backfills is not at its end."""
    if instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
        return True
    unfinished = ("REQUESTED", "CANCELING", "FAILING")
    return any(backfill.status.name in unfinished for backfill in instance.get_backfills(limit=100))


def rejected(folder: DataFolder, graph: Graph) -> set[str]:
    """Keys of run files that were read as they lie there now, and rejected."""
    product, made = graph.product(tables.RUN_FILES), set(graph.runs(folder)["run_key"])
    return {key for key in Inbox.of(folder).keys if key not in made and graph.is_current(folder, product.name, key)}


def align(instance: dg.DagsterInstance, folder: DataFolder, graph: Graph) -> None:
    """Make the partitions what the data folder says."""
    for change in changes(instance, folder, graph):
        if change.added:
            instance.add_dynamic_partitions(str(change.partitions.name), change.added)
        for key in change.deleted:
            instance.delete_dynamic_partition(str(change.partitions.name), key)


def keys_of(instance: dg.DagsterInstance, partitions: dg.DynamicPartitionsDefinition) -> Sequence[str]:
    """The registered keys, in the order in which they were registered."""
    return instance.get_dynamic_partitions(str(partitions.name))


def latest_records(fetch: Fetch, records: dg.AssetKey | dg.AssetRecordsFilter) -> dict[str, dg.EventLogRecord]:
    """The latest event of each partition of an asset, of those that `fetch` gives a page at a time, latest first."""
    latest: dict[str, dg.EventLogRecord] = {}
    cursor, more = None, True
    while more:
        page = fetch(records, limit=1000, cursor=cursor)
        for record in page.records:
            if record.partition_key is not None:
                latest.setdefault(record.partition_key, record)
        cursor, more = page.cursor, page.has_more
    return latest


def stretches(registered: Sequence[str], wanted: Collection[str], at_most: int) -> Iterator[list[str]]:
    """Cut the wanted keys into batches that Dagster can name by a first and a last key.

    A range of dynamic partitions holds every key that was registered between its ends, so a batch ends where an
    unwanted key lies between.
    """
    batch: list[str] = []
    for key in registered:
        if key in wanted and len(batch) < at_most:
            batch.append(key)
            continue
        if batch:
            yield batch
        batch = [key] if key in wanted else []
    if batch:
        yield batch


def range_tags(batch: list[str]) -> dict[str, str]:
    """Run tags that select a batch made by `stretches`."""
    return {RANGE_START: batch[0], RANGE_END: batch[-1]}
