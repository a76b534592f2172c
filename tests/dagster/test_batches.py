"""A batch in which one of three files is bad: the others are green, the bad one is red and can be healed."""

from __future__ import annotations

import dagster as dg
import pytest

from infrascope_core.pipeline import GRAPH
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.product import Scope
from infrascope_dagster.partitions import RUN_FILES
from tests.runs import SPOIL, write_run

INGEST = ("run_files", "telemetry", "faults", "metric_types")
SYMBOLS = ("curated_metrics", "group_windows")


def failed(location) -> list[str]:
    keys = location.instance.get_dynamic_partitions(RUN_FILES.name)
    status = location.instance.get_status_by_partition(dg.AssetKey("telemetry"), keys, RUN_FILES)
    return [key for key, said in status.items() if said == dg.AssetPartitionStatus.FAILED]


@pytest.mark.parametrize("case", SPOIL)
def test_the_failure_says_what_is_wrong_with_the_file(location, case):
    spoil, fault = SPOIL[case]
    good, bad = (write_run(location.runs, second) for second in (1, 2))
    spoil(bad)
    result = location.materialize(*INGEST, keys=[good.stem, bad.stem])
    assert not result.success
    failure = next(event for event in result.all_events if event.is_step_failure)
    assert fault in str(failure.step_failure_data.error)
    assert location.materialized("telemetry") == {good.stem}
    assert failed(location) == [bad.stem]
    # on the pages of its own partition; its row in `run_files` is there
    metadata = location.metadata("run_files", bad.stem)
    assert metadata["status"].value == "rejected"
    assert fault in metadata["reason"].value
    for asset in ("telemetry", "faults"):
        (record,) = location.instance.fetch_observations(dg.AssetKey(asset), limit=10).records
        assert record.partition_key == bad.stem
        assert fault in record.event_log_entry.asset_observation.metadata["reason"].value


def test_one_of_three_is_bad(location):
    spoil, _ = SPOIL["ragged rows"]
    paths = [write_run(location.runs, second) for second in (1, 2, 3)]
    keys = [path.stem for path in paths]
    spoil(paths[1])

    result = location.materialize(*INGEST, keys=keys)
    assert not result.success
    assert location.materialized("telemetry") == {keys[0], keys[2]}
    assert failed(location) == [keys[1]]

    for stage in (["quality_metrics"], SYMBOLS):
        for key in (keys[0], keys[2]):
            assert location.materialize(*stage, keys=[key]).success
        if stage == ["quality_metrics"]:
            assert location.materialize("metric_catalog").success
    assert location.materialize("thresholds").success
    # a user's backfill over all keys: the bad one fails again, the others do not care
    assert not location.materialize("baskets", keys=keys).success
    assert location.materialized("baskets") == {keys[0], keys[2]}

    assert location.materialize("rejected_files").success
    assert location.folder.lake.read(REJECTED_FILES)["run_key"].to_list() == [keys[1]]
    write_run(location.runs, 2)
    assert location.materialize(*INGEST, keys=[keys[1]]).success
    assert failed(location) == []
    assert location.materialize("rejected_files").success
    assert location.folder.lake.read(REJECTED_FILES).is_empty()


def test_a_batch_is_one_step_and_each_partition_shows_its_own(location):
    keys = [write_run(location.runs, second, samples=400 + second).stem for second in range(1, 6)]
    result = location.materialize(*INGEST, keys=keys)
    assert result.success
    assert len([event for event in result.all_events if event.is_step_success]) == 1
    assert location.materialized("telemetry") == set(keys)
    for second, key in enumerate(keys, start=1):
        metadata = location.metadata("run_files", key)
        assert metadata["dagster/row_count"].value == 1
        assert metadata["samples"].value == 400 + second
        assert len(metadata) <= 10


def test_a_current_product_is_kept_and_shown_all_the_same(location):
    key = write_run(location.runs, 1).stem
    location.materialize(*INGEST, keys=[key])
    path = location.folder.lake.path(QUALITY_METRICS, key)
    stamps, rows = set(), set()
    for kept in (False, True):
        assert location.materialize("quality_metrics", keys=[key]).success
        metadata = location.metadata("quality_metrics", key)
        assert ("kept" in metadata) is kept
        stamps.add(path.stat().st_mtime_ns)
        rows.add(metadata["dagster/row_count"].value)
    assert len(stamps) == 1
    assert rows == {location.folder.lake.read(QUALITY_METRICS, key).height}


def test_a_second_file_of_one_name_and_a_file_of_no_known_name(location):
    """Neither is a partition of its own: the key stays green, and both files are listed."""
    keys = [write_run(location.runs, second).stem for second in (1, 2, 3)]
    second = write_run(location.runs / "zcopy", 2, samples=150)
    (location.runs / "notes.txt").write_text("hello")
    assert location.materialize(*INGEST, keys=keys).success
    assert location.materialize("rejected_files").success
    assert location.materialized("telemetry") == set(keys)
    reasons = dict(location.folder.lake.read(REJECTED_FILES).select("path", "reason").iter_rows())
    assert set(reasons) == {str(second), str(location.runs / "notes.txt")}
    assert "duplicate run key" in reasons[str(second)]
    assert "unknown file name" in reasons[str(location.runs / "notes.txt")]
    event = location.instance.get_latest_materialization_event(dg.AssetKey("rejected_files"))
    assert event.asset_materialization.metadata["dagster/row_count"].value == 2


def products(location) -> list[str]:
    return [t.name for p in location.graph.order if p.scope is Scope.PER_RUN for t in p.tables]


def test_a_key_that_fails_costs_the_others_of_its_batch_nothing(location, monkeypatch):
    """What comes after a failed step is skipped by Dagster: the step makes it for the good keys."""
    keys = [write_run(location.runs, second).stem for second in (1, 2, 3)]
    assert location.materialize(*INGEST, keys=keys).success
    make = location.graph.make

    def fails(self, folder, table, key):
        if str(table) == "group_windows" and key == keys[1]:
            raise OSError("the disk is on fire")
        return make(folder, table, key)

    monkeypatch.setattr(type(location.graph), "make", fails)
    assert not location.materialize(*products(location), keys=keys).success
    for name in products(location):
        assert location.materialized(name) >= {keys[0], keys[2]}, name
    stale = GRAPH.stale(location.folder, keys)
    assert {key for keys in stale.values() for key in keys} == {keys[1]}
    assert "group_windows" in stale and not stale["curated_metrics"]
    assert location.metadata("anomaly_report", keys[0])["verdict"].value


def test_a_file_that_turns_bad_while_its_batch_is_made_stops_nobody(location, monkeypatch):
    paths = [write_run(location.runs, second) for second in (1, 2, 3)]
    keys = [path.stem for path in paths]
    assert location.materialize(*INGEST, keys=keys).success
    make = location.graph.make

    def turns_bad(self, folder, table, key):
        if str(table) == "group_windows" and key == keys[0]:
            paths[0].write_text("nothing")
            make(location.folder.fresh(), "run_files", key)
        return make(folder, table, key)

    monkeypatch.setattr(type(location.graph), "make", turns_bad)
    assert location.materialize(*products(location), keys=keys).success
    assert not set().union(*GRAPH.stale(location.folder, keys[1:]).values())
