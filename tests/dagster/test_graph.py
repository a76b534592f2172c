"""The graph as a whole: nothing changes in it unseen, every table is an asset, the whole of it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.store.product import Scope
from infrascope_dagster.definitions import build_defs
from infrascope_dagster.partitions import stretches
from infrascope_dagster.resources import DataFolderResource
from tests.runs import write_run

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).with_name("graph.json")


def condition(node: dg.AutomationCondition) -> object:
    """A condition with all that it is made of: its operands, the assets they look at, cron expressions."""
    details = {
        name: str(getattr(node, name))
        for name in ("cron_schedule", "cron_timezone", "allow_selection", "ignore_selection", "lookback_delta")
        if getattr(node, name, None) is not None
    }
    if type(node).__module__.startswith("infrascope"):
        details["says"] = node.description  # with what it looks at
    operands = [condition(child) for child in node.children]
    whole = {"is": node.name, "label": node.get_label(), **details, "of": operands}
    return {key: value for key, value in whole.items() if value}


def specs() -> dict[str, Any]:
    """Every spec, job, schedule, sensor and check in plain values."""
    repository = build_defs(DataFolderResource(data="data", sources=["data/sample"])).get_repository_def()
    graph = repository.asset_graph
    assets = {}
    for key in sorted(graph.get_all_asset_keys(), key=str):
        node = graph.get(key)
        policy = node.backfill_policy
        assets[key.to_user_string()] = {
            "group": node.group_name,
            "kinds": sorted(node.kinds),
            "owners": sorted(node.owners),
            "tags": {name: value for name, value in sorted(node.tags.items()) if not name.startswith("dagster/")},
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "partitions": getattr(node.partitions_def, "name", None),
            "batch": policy.max_partitions_per_run if policy else None,
            "code_version": node.code_version,
            "pools": sorted(node.pools or ()),
            "condition": condition(node.automation_condition) if node.automation_condition else None,
            "description": node.description,
            "columns": [c.name for c in node.metadata["dagster/column_schema"].columns]
            if "dagster/column_schema" in node.metadata
            else None,
            "checks": {
                check.name: condition(when)
                for check in sorted(node.check_keys, key=str)
                if (when := graph.get(check).automation_condition)
            },
        }
    return {
        "assets": assets,
        "jobs": {
            job.name: sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys)
            for job in repository.get_all_jobs()
            if not job.name.startswith("__")
        },
        "schedules": {
            s.name: {"cron": s.cron_schedule, "job": s.job_name, "status": s.default_status.value}
            for s in repository.schedule_defs
        },
        "sensors": {
            s.name: {"seconds": s.minimum_interval_seconds, "status": s.default_status.value}
            for s in repository.sensor_defs
        },
    }


def test_nothing_changes_unseen(request):
    found = json.dumps(specs(), indent=1, sort_keys=True) + "\n"
    if request.config.getoption("--snapshot-update"):
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text(), "the graph changed; if on purpose, run `make snapshot`"


def test_the_snapshot_holds_what_a_condition_is_made_of():
    """Another cron, or another selection, is another snapshot."""
    on_the_clock = dg.AutomationCondition.cron_tick_passed
    assert condition(on_the_clock("*/15 * * * *")) != condition(on_the_clock("0 0 1 1 *"))
    deps = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.missing())
    assert condition(deps.ignore(dg.AssetSelection.assets("a"))) != condition(
        deps.ignore(dg.AssetSelection.assets("b"))
    )


def test_every_table_is_an_asset_with_its_columns_and_its_true_code_version():
    assets = specs()["assets"]
    assert set(assets) == set(GRAPH.tables) | {"source_files"}
    for name, table in GRAPH.tables.items():
        assert assets[name]["columns"] == table.schema.names()
        assert assets[name]["description"] == table.meaning
        assert assets[name]["code_version"] == GRAPH.product(name).code_version
    folders = {path.parent.name for path in (ROOT / "infrascope_core").glob("*/products.py")}
    assert {a["group"] for a in assets.values()} == folders


def test_an_asset_depends_on_all_that_its_product_reads():
    assets = specs()["assets"]
    for product in GRAPH.order:
        if product.scope is not Scope.ARRIVING:
            reads = {table.name for table in (*product.reads, *product.quotes)}
            assert reads <= set(assets[product.name]["deps"]), product.name


def test_column_lineage_names_columns_of_what_the_asset_is_made_from():
    assets = specs()["assets"]
    for product in GRAPH.order:
        within = {table.name for table in product.tables} | set(assets[product.name]["deps"])
        for table in product.tables:
            lineage = GRAPH.column_lineage(table)
            assert set(lineage) <= set(table.schema.names())
            for source, column in {pair for pairs in lineage.values() for pair in pairs}:
                assert source in within, (table.name, source)
                assert column in GRAPH.tables[source].schema.names(), (table.name, source, column)
    shown = build_defs(DataFolderResource(data="data", sources=[])).get_repository_def().asset_graph
    of_level = shown.get(dg.AssetKey("baskets")).metadata["dagster/column_lineage"].deps_by_column["level"]
    assert [(dep.asset_key.to_user_string(), dep.column_name) for dep in of_level] == [
        ("group_windows", "value"),
        ("thresholds", "high"),
        ("thresholds", "low"),
    ]


def test_decisions_that_products_name_are_there():
    for product in GRAPH.order:
        for number in product.decisions:
            assert len([*(ROOT / "docs" / "adr").glob(f"{number:04}-*.md")]) == 1, (product.name, number)


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
    assert location.run_job("refresh").success
    assert location.materialize(*(p.name for p in GRAPH.order if p.scope is Scope.STUDIED)).success
    for product in GRAPH.order:
        for table in product.tables:
            assert not product.scope.per_run or location.materialized(table.name) == set(keys), table.name
            assert len(location.metadata(table.name)) <= 10
    shown = [table.name for table in GRAPH.tables.values() if not table.wide]
    with duckdb.connect(str(location.folder.warehouse), read_only=True) as con:
        rows = {name: con.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in shown}
    empty = {name for name, n in rows.items() if not n}
    # no run of these differs from the others as a whole, what one of them does alone is no rule, all are short,
    # and the settings declare no comparison
    assert empty == {
        "rejected_files",
        "faults",
        "metric_types",
        "level_offsets",
        "structural_changes",
        "group_aliases",
        "sequential_patterns",
        "association_rules",
        "phase_changes",
        "run_comparisons",
        "comparison_page",
    }


def test_a_warehouse_that_somebody_has_open_stops_nobody(location):
    write_run(location.runs, 1)
    refresh(location.folder)
    with duckdb.connect(str(location.folder.warehouse)) as con:  # open for writing, the worst case
        write_run(location.runs, 2)
        refresh(location.folder)
        # who has the old file open keeps its findings; views show the lake
        assert con.execute("SELECT count(*) FROM run_files").fetchone() == (1,)
        assert con.execute("SELECT count(DISTINCT run_key) FROM baskets").fetchone() == (2,)
    with duckdb.connect(str(location.folder.warehouse), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM run_files").fetchone() == (2,)
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
def test_batches_hold_no_unwanted_key(registered, wanted, batches):
    assert ["".join(batch) for batch in stretches(registered, set(wanted), 3)] == batches
