"""Checks that can fail do fail, and the daily schedule asks for what is missing."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from infrascope_core.patterns.mining import is_mined

from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS
from infrascope_dagster.defs.fleet import checks as fleet
from infrascope_dagster.defs.fleet.schedules import fill_missing, refit_and_remine
from infrascope_dagster.defs.runs import checks as runs
from infrascope_dagster.in_process import bring_up_to_date
from infrascope_dagster.partitions import RUN_FILES
from tests.dagster.conftest import Location
from tests.runs import write_run

pytestmark = pytest.mark.xdist_group("checks")  # shares a folder


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A folder through the whole graph, and its instance on disk: schedules look instances up by reference."""
    folder = tmp_path_factory.mktemp("healthy")
    (folder / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "home")) as instance:
        location = Location(folder, instance)
        for second in (1, 2, 3):
            write_run(location.runs, second, samples=600)
        bring_up_to_date(location.folder, False, lambda *_: None, instance)
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


def outcome(check, location) -> bool:
    job = location.defs.resolve_implicit_global_asset_job_def()
    done = job.get_subset(asset_check_selection=set(check.check_keys)).execute_in_process(instance=location.instance)
    (evaluation,) = done.get_asset_check_evaluations()
    return evaluation.passed


def test_a_healthy_folder_passes(filled):
    for check in (runs.no_partition_left_failed, runs.baskets_complete, runs.no_level_drift,
                  fleet.no_rejected_files, fleet.no_degenerate_groups, fleet.pooled_tables_complete):  # fmt: skip
        assert outcome(check, filled), check


def test_rejected_and_failed(filled):
    bad = write_run(filled.runs, 9)
    bad.write_text("nothing")
    filled.materialize("run_files", "telemetry", "faults", keys=[bad.stem])
    filled.materialize("rejected_files")
    assert not outcome(fleet.no_rejected_files, filled)
    assert not outcome(runs.no_partition_left_failed, filled)


def test_missing_baskets(filled):
    key = filled.accepted(folder)["run_key"][0]
    lake = filled.pipeline.lake
    lake.write(lake.read(BASKETS, key).head(5), BASKETS, key)
    assert not outcome(runs.baskets_complete, filled)
    assert not outcome(fleet.pooled_tables_complete, filled)


def test_degenerate_and_drifted_levels(filled):
    lake = filled.pipeline.lake
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
    assert not outcome(fleet.no_degenerate_groups, filled)
    assert not outcome(runs.no_level_drift, filled)


def test_the_daily_schedule(filled):
    def requests():
        context = dg.build_schedule_context(instance=filled.instance, scheduled_execution_time=datetime(2026, 11, 2, 6))
        return list(fill_missing(context))

    (skipped,) = requests()
    assert isinstance(skipped, dg.SkipReason)
    late = write_run(filled.runs, 7).stem
    filled.instance.add_dynamic_partitions("run_files", [late])
    (request,) = requests()
    assert set(request.tags.values()) >= {late}
    assert request.asset_selection is None
    filled.materialize("run_files", "telemetry", "faults", keys=[late])
    (request,) = requests()
    assert dg.AssetKey("telemetry") not in request.asset_selection
    assert dg.AssetKey("anomaly_reasons") in request.asset_selection


def test_the_refit_job(filled):
    write_run(filled.runs, 8, samples=600, burst=(0, 300))
    before = filled.pipeline.lake.read(THRESHOLDS)
    job = filled.defs.get_job_def(refit_and_remine.name)
    assert job.execute_in_process(instance=filled.instance).success
    after = filled.pipeline.lake.read(THRESHOLDS)
    assert after["samples"][0] > before["samples"][0]
    assert is_mined(filled.pipeline)
