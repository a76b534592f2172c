"""Checks that can fail do fail, and the daily schedule asks for what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from infrascope_core.patterns.tables import FREQUENT_ITEMSETS
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.runs import accepted
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS
from infrascope_dagster.defs.checks import QUESTIONS
from infrascope_dagster.defs.schedules import fill_missing
from infrascope_dagster.partitions import RUN_FILES
from tests.locations import Location
from tests.runs import write_run


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A folder through the whole graph, and its instance on disk: schedules look instances up by reference."""
    folder = tmp_path_factory.mktemp("healthy")
    (folder / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "home")) as instance:
        location = Location(folder, instance)
        for second in (1, 2, 3):
            write_run(location.runs, second, samples=600)
        assert location.run_job("refresh").success
        yield location


@pytest.fixture
def filled(healthy, tmp_path):
    """The same, whose files and registered keys are put back after each test."""
    data, runs = Path(healthy.resource.data), healthy.runs
    shutil.copytree(data, tmp_path / "data")
    shutil.copytree(runs, tmp_path / "runs")
    keys = set(healthy.instance.get_dynamic_partitions(RUN_FILES.name))
    yield healthy
    for folder in (data, runs):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / folder.name, folder)
    for key in set(healthy.instance.get_dynamic_partitions(RUN_FILES.name)) - keys:
        healthy.instance.delete_dynamic_partition(RUN_FILES.name, key)


def outcome(name, location) -> bool:
    job = location.defs.resolve_implicit_global_asset_job_def()
    (key,) = {key for key in job.asset_layer.asset_graph.asset_check_keys if key.name == name}
    done = job.get_subset(asset_check_selection={key}).execute_in_process(instance=location.instance)
    (evaluation,) = done.get_asset_check_evaluations()
    return evaluation.passed


def test_a_healthy_folder_passes(filled):
    for check in (*QUESTIONS, "no_partition_left_failed"):
        assert outcome(check, filled), check


def test_rejected_and_failed(filled):
    bad = write_run(filled.runs, 9)
    bad.write_text("nothing")
    filled.materialize("run_files", "telemetry", "faults", keys=[bad.stem])
    filled.materialize("rejected_files")
    assert not outcome("no_rejected_files", filled)
    assert not outcome("no_partition_left_failed", filled)


def test_missing_baskets(filled):
    key = accepted(filled.folder)["run_key"][0]
    lake = filled.folder.lake
    lake.write(lake.read(BASKETS, key).head(5), BASKETS, key)
    assert not outcome("baskets_complete", filled)
    assert not outcome("pooled_tables_complete", filled)


def test_degenerate_and_drifted_levels(filled):
    lake = filled.folder.lake
    fitted = lake.read(THRESHOLDS)
    cpu = pl.col("metric_group") == "CPU_busy"
    made_from = lake.made_from(THRESHOLDS)
    lake.write(
        fitted.with_columns(
            degenerate=cpu,
            low_share=pl.when(cpu).then(0.98).otherwise("low_share"),
            med_share=pl.when(cpu).then(0.01).otherwise("med_share"),
            high_share=pl.when(cpu).then(0.01).otherwise("high_share"),
        ),
        "thresholds",
        made_from=made_from,
    )
    assert not outcome("no_degenerate_groups", filled)
    assert not outcome("no_level_drift", filled)


def asked_in_the_morning(location) -> list[dg.RunRequest | dg.SkipReason]:
    """What the daily schedule yields."""
    context = dg.build_schedule_context(
        instance=location.instance,
        scheduled_execution_time=datetime(2026, 11, 2, 6),
        resources={"infrascope": location.resource},
    )
    found = fill_missing(GRAPH)(context)
    assert isinstance(found, Iterator)
    return list(found)


def test_the_daily_schedule(filled):
    (skipped,) = asked_in_the_morning(filled)
    assert isinstance(skipped, dg.SkipReason)
    late = write_run(filled.runs, 7).stem
    filled.instance.add_dynamic_partitions("run_files", [late])
    (request,) = asked_in_the_morning(filled)
    assert set(request.tags.values()) >= {late}
    assert request.asset_selection is None
    filled.materialize("run_files", "telemetry", "faults", keys=[late])
    (request,) = asked_in_the_morning(filled)
    assert dg.AssetKey("telemetry") not in request.asset_selection
    assert dg.AssetKey("anomaly_reasons") in request.asset_selection


def test_the_daily_schedule_asks_for_what_is_stale_and_not_for_bad_files(filled):
    bad = write_run(filled.runs, 6)
    bad.write_text("nothing")
    filled.materialize("run_files", "telemetry", "faults", keys=[bad.stem])
    key = accepted(filled.folder)["run_key"][0]
    filled.folder.lake.write(filled.folder.lake.read(BASKETS, key), BASKETS, key, made_from="something else")
    (request,) = asked_in_the_morning(filled)
    assert isinstance(request, dg.RunRequest)
    assert set(request.tags.values()) & {key, bad.stem} == {key}


def test_the_daily_schedule_says_in_a_sentence_that_a_source_is_missing(filled, tmp_path):
    away = tmp_path / "away"
    filled.runs.rename(away)
    (skipped,) = asked_in_the_morning(filled)
    away.rename(filled.runs)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == f"{filled.runs}: no such file or folder"


def test_the_refit_job(filled):
    late = write_run(filled.runs, 8, samples=600, burst=(0, 300)).stem
    before = filled.folder.lake.read(THRESHOLDS)
    result = filled.run_job("refit_and_remine")
    assert result.success
    after = filled.folder.lake.read(THRESHOLDS)
    assert after["samples"][0] > before["samples"][0]
    assert GRAPH.is_current(filled.folder, FREQUENT_ITEMSETS)
    # what it made is on the assets, under its own run
    assert late in filled.materialized("anomaly_report")
    record = filled.instance.fetch_materializations(dg.AssetKey("thresholds"), limit=1).records[0]
    assert record.run_id == result.run_id


def test_the_record_of_a_partition_takes_three_kilobytes_at_most(filled):
    sizes = {}
    for product in GRAPH.order:
        for table in product.tables if product.scope.per_run else ():
            (record,) = filled.instance.fetch_materializations(dg.AssetKey(table.name), limit=1).records
            sizes[table.name] = len(dg.serialize_value(record.event_log_entry))
    assert {name: size for name, size in sizes.items() if size > 3_072} == {}
