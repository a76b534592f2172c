"""The partitions: one per run file, named by its stem (docs/design.md)."""

from collections.abc import Collection, Iterator, Sequence

import dagster as dg

from infrascope_core.store.product import Scope

RUN_FILES_NAME = "run_files"
RUN_FILES = dg.DynamicPartitionsDefinition(name=RUN_FILES_NAME)

INGEST_BATCH = 100
"""Run files per ingest run. A run costs seconds before it does anything; a run that is lost costs what it had left."""
PRODUCT_BATCH = INGEST_BATCH + 1
"""Runs per run of the other per-run assets.

Another number than `INGEST_BATCH` on purpose: Dagster puts assets of a backfill into one run only if their policies are
equal. Kept apart, a bad file fails its ingest run and costs the good files of its batch nothing. Not a smaller one, so
that what was ingested in one run goes on in one run.
"""

BATCHES = {Scope.ARRIVING: INGEST_BATCH, Scope.PER_RUN: PRODUCT_BATCH}

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


def register(instance: dg.DagsterInstance, keys: Sequence[str]) -> list[str]:
    """Register run keys as partitions; returns those that were not registered before."""
    known = set(instance.get_dynamic_partitions(RUN_FILES_NAME))
    new = [key for key in dict.fromkeys(keys) if key not in known]
    if new:
        instance.add_dynamic_partitions(RUN_FILES_NAME, new)
    return new


def stretches(instance: dg.DagsterInstance, wanted: Collection[str], at_most: int) -> Iterator[list[str]]:
    """Cut the wanted keys into batches that Dagster can name by a first and a last key.

    A range of dynamic partitions holds every key that was registered between its ends, so a batch ends where an
    unwanted key lies between.
    """
    batch: list[str] = []
    for key in instance.get_dynamic_partitions(RUN_FILES_NAME):
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
