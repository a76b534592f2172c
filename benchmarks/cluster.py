"""1,200 files on a cluster: PostgreSQL, a daemon and two run workers that share the database and the folder alone."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import sqlalchemy
from rich.console import Console

from benchmarks.fleet import SMALL_FILES, refresh_alone, write_small
from benchmarks.pipeline import Claim
from infrascope_core.pipeline import GRAPH
from infrascope_dagster.partitions import PARTITIONS, UNFINISHED
from tests.daemon import Server, serving, wait_for
from tests.postgres import binaries, postgres
from tests.workers import ROOT, with_workers

HOUR = 3_600


def claims(console: Console) -> Iterator[Claim]:
    """Measure, print the times, and give the figures."""
    if binaries() is None:
        console.print("a cluster: not measured, PostgreSQL is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        keys = [write_small(place / "runs", number).stem for number in range(SMALL_FILES)]
        plain = refresh_alone(place / "runs", place / "plain")[0]
        with postgres(place / "postgres") as address:
            os.environ |= {"INFRASCOPE_POSTGRES": address, "INFRASCOPE_LOGS": str(place / "logs")}
            os.environ["PYTHONPATH"] = str(ROOT)
            start = time.perf_counter()
            with serving(place, settings=with_workers(place)) as server:
                wait_for(lambda: _reports(server) == len(keys), HOUR)
                wait_for(lambda: _at_rest(server), HOUR)
                seconds = time.perf_counter() - start
                green, failed, runs, tick = _outcome(server, keys)
            with sqlalchemy.create_engine(address).connect() as connection:
                size = connection.execute(sqlalchemy.text("SELECT pg_database_size('postgres')")).scalar_one() / 1e6
        console.print(
            f"{len(keys):,} files dropped at once, PostgreSQL, two workers: {seconds:.0f} s in {runs} runs, "
            f"{failed} failed, {green:,} of {len(keys):,} green in every asset, {size:.0f} MB of database, an idle "
            f"tick of the sensor {tick:.2f} s; the plain loop in one process: {plain:.0f} s"
        )
        yield Claim("runs not green, of 1,200 on a cluster", len(keys) - green + failed, 0, "")


def _reports(server: Server) -> int:
    return len([*(server.place / "data" / "lake" / "anomaly_report").glob("*.parquet")])


def _at_rest(server: Server) -> bool:
    with server.instance as instance:
        return not instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED))


def _outcome(server: Server, keys: list[str]) -> tuple[int, int, int, float]:
    """Keys that are green in every asset, failed runs, all runs, and seconds of an idle tick of the run-file sensor."""
    time.sleep(60)  # to be idle
    with server.instance as instance:
        green = set(keys)
        for product in (product for product in GRAPH.order if product.scope.per_run):
            for table in product.tables:
                found = instance.get_status_by_partition(dg.AssetKey(table.name), keys, PARTITIONS[product.scope]) or {}
                green &= {key for key in keys if found.get(key) == dg.AssetPartitionStatus.MATERIALIZED}
        failed = instance.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        (sensor,) = (state for state in instance.all_instigator_state() if state.instigator_name == "run_file_sensor")
        ticks = instance.get_ticks(sensor.instigator_origin_id, sensor.selector_id, limit=5)
        idle = min(tick.end_timestamp - tick.timestamp for tick in ticks if tick.end_timestamp is not None)
        return len(green), failed, instance.get_runs_count(), idle
