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
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.settings import RetentionSettings
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS
from infrascope_dagster.defs.checks import QUESTIONS
from infrascope_dagster.defs.jobs import MAKE, PRUNE, READ
from infrascope_dagster.defs.schedules import MORNINGS, pruning, schedule_of
from infrascope_dagster.partitions import PARTITIONS, align, keys_of
from infrascope_dagster.resources import DataFolderResource
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
    keys = {partitions: set(keys_of(healthy.instance, partitions)) for partitions in PARTITIONS.values()}
    yield healthy
    for folder in (data, runs):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / folder.name, folder)
    for partitions, before in keys.items():
        for key in set(keys_of(healthy.instance, partitions)) - before:
            healthy.instance.delete_dynamic_partition(partitions.name, key)


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
    filled.materialize("run_files", "telemetry", "faults", "metric_types", keys=[bad.stem])
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


def asked_in_the_morning(location) -> dict[str, list[dg.RunRequest | dg.SkipReason]]:
    """What the daily schedules yield, by their jobs."""
    asked = {}
    for morning in MORNINGS:
        context = dg.build_schedule_context(
            instance=location.instance,
            scheduled_execution_time=datetime(2026, 11, 2, 6),
            resources={"infrascope": location.resource},
        )
        found = schedule_of(GRAPH, morning)(context)
        assert isinstance(found, Iterator)
        asked[morning.job] = list(found)
    return asked


def said(asked: list[dg.RunRequest | dg.SkipReason]) -> str:
    """Why a schedule asks for nothing."""
    (skipped,) = asked
    assert isinstance(skipped, dg.SkipReason)
    return str(skipped.skip_message)


def test_the_daily_schedules(filled):
    assert {job: said(asked) for job, asked in asked_in_the_morning(filled).items()} == {
        morning.job: morning.nothing for morning in MORNINGS
    }
    late = write_run(filled.runs, 7).stem
    align(filled.instance, filled.folder, GRAPH)
    asked = asked_in_the_morning(filled)
    (request,) = asked[READ]
    assert set(request.tags.values()) == {late}
    assert "current" in said(asked[MAKE])
    filled.materialize("run_files", "telemetry", "faults", "metric_types", keys=[late])
    asked = asked_in_the_morning(filled)
    assert "is read" in said(asked[READ])
    (request,) = asked[MAKE]
    assert set(request.tags.values()) == {late}


def test_the_daily_schedules_ask_for_what_is_stale_and_not_for_bad_files(filled):
    bad = write_run(filled.runs, 6)
    bad.write_text("nothing")
    filled.materialize("run_files", "telemetry", "faults", "metric_types", keys=[bad.stem])
    key = accepted(filled.folder)["run_key"][0]
    filled.folder.lake.write(filled.folder.lake.read(BASKETS, key), BASKETS, key, made_from="something else")
    asked = asked_in_the_morning(filled)
    assert "rejected" in said(asked[READ])
    (request,) = asked[MAKE]
    assert set(request.tags.values()) == {key}


def test_the_daily_schedules_say_in_a_sentence_that_a_source_is_missing(filled, tmp_path):
    away = tmp_path / "away"
    filled.runs.rename(away)
    asked = asked_in_the_morning(filled)
    away.rename(filled.runs)
    assert {said(requests) for requests in asked.values()} == {f"{filled.runs}: no such file or folder"}


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


@pytest.mark.parametrize("days", [None, 1.0])
def test_samples_of_old_runs_are_dropped_if_the_settings_say_so(filled, days, monkeypatch):
    settings = filled.folder.settings.model_copy(update={"retention": RetentionSettings(days=days)})
    folder = DataFolder(filled.folder.root, settings, filled.folder.sources)
    monkeypatch.setattr(DataFolderResource, "folder", lambda _: folder)
    context = dg.build_schedule_context(
        instance=filled.instance,
        scheduled_execution_time=datetime(2026, 11, 2, 5),
        resources={"infrascope": filled.resource},
    )
    found = pruning(context)
    assert isinstance(found, Iterator)
    (asked,) = found
    assert isinstance(asked, dg.SkipReason if days is None else dg.RunRequest)
    assert filled.run_job(PRUNE).success
    pruned = {GRAPH.is_pruned(folder, key) for key in accepted(folder)["run_key"]}
    assert pruned == {days is not None}
    assert outcome("disk_has_room", filled)
