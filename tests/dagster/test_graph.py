"""The graph as a whole: nothing changes in it unseen, every table is an asset, the whole of it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from infrascope_core.pipeline import TABLES
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_dagster.definitions import build_defs
from infrascope_dagster.defs.fleet.evaluations import EVALUATIONS
from infrascope_dagster.in_process import ASSETS, bring_up_to_date
from infrascope_dagster.partitions import RUN_FILES, stretches
from infrascope_dagster.resources import PipelineResource
from tests.runs import write_run

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).with_name("graph.json")


def specs() -> dict[str, object]:
    """Every spec, job, schedule, sensor and check in plain values."""
    defs = build_defs(PipelineResource(data="data", sources=["data/sample"]))
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    assets = {}
    for key in sorted(graph.get_all_asset_keys(), key=str):
        node = graph.get(key)
        condition = node.automation_condition
        policy = node.backfill_policy
        assets[key.to_user_string()] = {
            "group": node.group_name,
            "kinds": sorted(node.kinds),
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "partitions": node.partitions_def.name if node.partitions_def else None,
            "batch": policy.max_partitions_per_run if policy else None,
            "code_version": node.code_version,
            "pools": sorted(node.pools or ()),
            "condition": condition.get_label() if condition else None,
            "description": node.description,
            "columns": [c.name for c in node.metadata["dagster/column_schema"].columns]
            if "dagster/column_schema" in node.metadata
            else None,
            "checks": sorted(check.name for check in node.check_keys),
        }
    return {
        "assets": assets,
        "jobs": sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
        "schedules": {s.name: s.cron_schedule for s in repository.schedule_defs},
        "sensors": {s.name: s.minimum_interval_seconds for s in repository.sensor_defs},
    }


def test_nothing_changes_unseen(request):
    found = json.dumps(specs(), indent=1, sort_keys=True) + "\n"
    if request.config.getoption("--snapshot-update"):
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text(), "the graph changed; if on purpose, run `make snapshot`"


def test_every_table_is_an_asset_with_its_columns():
    assets = specs()["assets"]
    assert set(assets) == set(TABLES) | {"telemetry", "source_files"}
    for name, table in TABLES.items():
        assert assets[name]["columns"] == table.schema.names()
        assert assets[name]["description"] == table.meaning
    assert {a["group"] for a in assets.values()} == {
        "ingest",
        "quality",
        "symbols",
        "patterns",
        "anomalies",
        "evaluation",
    }


def test_definitions_validate(tmp_path):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dagster")), "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        env={"DAGSTER_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_whole_graph_through_dagster(location):
    keys = [write_run(location.runs, s, samples=600, burst=(300, 380) if s == 2 else None).stem for s in range(1, 5)]
    keys.append(write_run(location.runs, 5, host="h2").stem)
    told = []
    bring_up_to_date(location.folder, False, lambda *said: told.append(said), location.instance)
    on_demand = {asset.key.to_user_string() for asset in EVALUATIONS}
    assert location.materialize(*on_demand).success
    for name in set(TABLES) - on_demand:
        assert ("telemetry" if name in ("run_files", "faults") else name) in {table for table, *_ in told}
    assert all(location.materialized(p.key.to_user_string()) == set(keys) for p in ASSETS[2:9])
    for name in set(TABLES):
        event = location.instance.get_latest_materialization_event(dg.AssetKey(name))
        assert len(event.asset_materialization.metadata) <= 10
    with duckdb.connect(str(location.folder.warehouse), read_only=True) as con:
        rows = {name: con.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}
    empty = {name for name, n in rows.items() if not n}
    assert empty == {"rejected_files", "faults"}


def test_a_warehouse_that_somebody_has_open_stops_nobody(location):
    write_run(location.runs, 1)
    bring_up_to_date(location.folder, False, lambda *_: None)
    with duckdb.connect(str(location.folder.warehouse)) as con:  # open for writing, the worst case
        write_run(location.runs, 2)
        bring_up_to_date(location.folder, False, lambda *_: None)
        assert con.execute("SELECT count(*) FROM run_files").fetchone() == (2,)  # views show the lake
    with duckdb.connect(str(location.folder.warehouse), read_only=True) as con:
        assert con.execute("SELECT count(DISTINCT run_key) FROM baskets").fetchone() == (2,)


@pytest.mark.parametrize(
    ("registered", "wanted", "batches"),
    [
        ("abcde", "abcde", ["abc", "de"]),
        ("abcde", "ace", ["a", "c", "e"]),
        ("edcba", "cde", ["edc"]),
        ("abc", "", []),
        ("", "x", []),
    ],
)
def test_batches_hold_no_unwanted_key(instance, registered, wanted, batches):
    instance.add_dynamic_partitions(RUN_FILES.name, list(registered))
    assert ["".join(batch) for batch in stretches(instance, set(wanted), 3)] == batches
