"""Comparisons as assets: hosts on every run of the command, the paper's evaluations on their day or on demand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.settings import Settings
from infrascope_core.store.product import Scope
from infrascope_core.studies.settings import LatencySettings
from infrascope_dagster import resources
from tests.runs import write_run

NAMES = {product.name for product in GRAPH.order if product.scope is Scope.STUDIED}
SUNDAY_NIGHT = datetime(2026, 11, 22, 3, tzinfo=UTC)


@pytest.fixture
def filled(location):
    """Three runs of one job, on three hosts."""
    for second in range(1, 4):
        write_run(location.runs, second, host=f"h{second}")
    assert location.run_job("refresh").success
    return location


def metadata_of(location, name: str) -> dict[str, dg.MetadataValue]:
    event = location.instance.get_latest_materialization_event(dg.AssetKey(name))
    return dict(event.asset_materialization.metadata)


def test_the_command_compares_hosts_once_and_evaluates_nothing(filled):
    told = []
    assert metadata_of(filled, "host_deviations")["jobs"].value == 1
    assert all(filled.instance.get_latest_materialization_event(dg.AssetKey(name)) is None for name in NAMES)
    refresh(filled.folder, False, lambda product, *_: told.append(product))
    assert "host_deviations" not in told
    write_run(filled.runs, 4, host="h4")
    refresh(filled.folder, False, lambda product, *_: told.append(product))
    assert "host_deviations" in told


def test_the_job_makes_all_three(filled):
    job = filled.defs.resolve_job_def("studies")
    assert {key.to_user_string() for key in job.asset_layer.selected_asset_keys} == NAMES
    quick = Settings(latency=LatencySettings(batches=(1,), rounds=2))
    filled.resource = resources.of_folder(replace(filled.folder, settings=quick))
    assert filled.materialize(*NAMES).success
    assert metadata_of(filled, "window_agreement")["dagster/row_count"].value == 9
    assert "picture" in metadata_of(filled, "window_agreement")
    assert metadata_of(filled, "run_similarity")["tested"].value == 0  # three runs allow no p-value
    assert metadata_of(filled, "detector_latency")["dagster/row_count"].value == 4 + len(DETECTORS)


def asked(location, when: datetime, cursor):
    result = dg.evaluate_automation_conditions(location.defs, location.instance, cursor=cursor, evaluation_time=when)
    return {name for name in NAMES if result.get_num_requested(dg.AssetKey(name))}, result.cursor


def test_evaluations_are_asked_for_on_sunday_night_alone(filled):
    wednesday = SUNDAY_NIGHT - timedelta(days=4)
    none, cursor = asked(filled, wednesday, None)
    still_none, cursor = asked(filled, wednesday + timedelta(days=1), cursor)
    everything, _ = asked(filled, SUNDAY_NIGHT + timedelta(minutes=1), cursor)
    assert (none, still_none, everything) == (set(), set(), NAMES)
