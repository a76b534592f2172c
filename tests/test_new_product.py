"""Adding a product takes its functions and one declaration: whatever shows or makes products follows by itself."""

from __future__ import annotations

import dagster as dg
import duckdb
import polars as pl

from infrascope_core.contract import INT, RUN_KEY, Column, Table
from infrascope_core.documentation import architecture_page, tables_page
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.store.product import Product, Scope
from infrascope_dagster.definitions import build_defs
from infrascope_dagster.resources import of_folder
from tests.locations import Location
from tests.runs import write_run

# --- the ten lines ---


def longest_run(folder, key):
    telemetry = folder.lake.read(TELEMETRY, key, ["sample"])
    return pl.DataFrame({"run_key": [key], "longest": [telemetry.height]})


LENGTHS = Table("run_lengths", "How long a run is.", ("run_key",), (RUN_KEY, Column("longest", INT, "its samples")))
NEW = Product("quality", (LENGTHS,), Scope.PER_RUN, longest_run, inputs=(TELEMETRY,))

# ---

WITH_NEW = GRAPH.plus(NEW)


def test_it_is_refreshed_and_shown_in_the_warehouse(tmp_path, location):
    keys = [write_run(location.runs, second).stem for second in (1, 2)]
    made = []
    refresh(location.folder, graph=WITH_NEW, on_made=lambda product, key, frames: made.append((product.name, key)))
    assert [key for name, key in made if name == "run_lengths"] == keys
    with duckdb.connect(str(location.folder.warehouse), read_only=True) as con:
        assert con.execute("FROM run_lengths ORDER BY run_key").fetchall() == [(key, 400) for key in keys]
    # and it is kept, made again when its input changes, and alone
    made.clear()
    refresh(location.folder, graph=WITH_NEW, on_made=lambda product, key, frames: made.append((product.name, key)))
    assert made == []
    write_run(location.runs, 2, samples=500)
    refresh(location.folder, graph=WITH_NEW, on_made=lambda product, key, frames: made.append((product.name, key)))
    assert [key for name, key in made if name == "run_lengths"] == [keys[1]]


def test_it_is_an_asset(tmp_path, instance):
    location = Location(tmp_path, instance, WITH_NEW)
    key = write_run(location.runs, 1).stem
    repository = build_defs(of_folder(location.folder), WITH_NEW).get_repository_def()
    node = repository.asset_graph.get(dg.AssetKey("run_lengths"))
    assert {parent.to_user_string() for parent in node.parent_keys} == {"telemetry"}
    assert (node.group_name, node.code_version, node.description) == ("quality", "1", LENGTHS.meaning)
    assert [c.name for c in node.metadata["dagster/column_schema"].columns] == ["run_key", "longest"]
    assert node.automation_condition is not None
    assert location.materialize("run_files", "telemetry", "faults", "metric_types", keys=[key]).success
    assert location.materialize("run_lengths", keys=[key]).success
    assert location.folder.lake.read(LENGTHS, key)["longest"].to_list() == [400]


def test_it_is_documented():
    assert "## run_lengths" in tables_page(WITH_NEW)
    assert "| longest | Int64 | its samples |" in tables_page(WITH_NEW)
    page = architecture_page(WITH_NEW)
    assert "run_lengths([run_lengths])" in page
    assert "  run_files --> run_lengths" in page
