"""Automation by ticks on an ephemeral instance: who is asked for, when, and who is left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

import dagster as dg
import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.runs import run_file
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_dagster.defs.sensors import run_file_sensor
from infrascope_dagster.partitions import BATCH, RUN_FILES, RUNS, keys_of, stretches
from tests.runs import write_run

Requested = set[str] | Literal[True]
"""Requested partitions of an asset; True for an asset without partitions."""


class Clock:
    """Sensor and conditions, tick by tick, with the asked-for assets materialized in between."""

    def __init__(self, location) -> None:
        self.location = location
        self.cursor: str | None = None
        self.automation: Any = None  # a cursor, of a class that Dagster does not export
        # a second a tick, from a minute after which no cron expression is due for long
        self.now = datetime.now(UTC).replace(minute=1)

    def sense(self):
        context = dg.build_sensor_context(
            instance=self.location.instance,
            cursor=self.cursor,
            resources={"infrascope": self.location.resource},
        )
        result = run_file_sensor(self.location.graph)(context)
        if isinstance(result, dg.SkipReason):
            return []
        self.cursor = result.cursor
        instance = self.location.instance
        for request in result.dynamic_partitions_requests:
            if isinstance(request, dg.DeleteDynamicPartitionsRequest):
                for key in request.partition_keys:
                    instance.delete_dynamic_partition(request.partitions_def_name, key)
            else:
                instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
        return [event.partition for event in result.asset_events if event.asset_key == dg.AssetKey("source_files")]

    def tick(self, at: datetime | None = None) -> dict[str, Requested]:
        """What the conditions ask for now, or at another time."""
        instance = self.location.instance
        self.now += timedelta(seconds=1)
        with pytest.MonkeyPatch.context() as patch:
            # as in the daemon, which looks them up once a tick; here they are asked for by every node of a condition
            patch.setattr(instance, "get_dynamic_partitions", cache(instance.get_dynamic_partitions))
            result = dg.evaluate_automation_conditions(
                self.location.defs, instance, cursor=self.automation, evaluation_time=at or self.now
            )
        self.automation = result.cursor
        asked: dict[str, Requested] = {}
        for key in self.location.defs.get_repository_def().asset_graph.materializable_asset_keys:
            name = key.to_user_string()
            keys = result.get_requested_partitions(key)
            if keys and keys != {None}:
                asked[name] = {key for key in keys if key is not None}
            elif keys:
                asked[name] = True
        return asked

    def settle(self, ticks: int = 12) -> list[dict[str, Requested]]:
        """Tick and materialize until nothing is asked for twice in a row."""
        history = []
        for _ in range(ticks):
            asked = self.tick()
            history.append(asked)
            if len(history) > 1 and not asked and not history[-2]:
                return history
            pooled = [name for name, keys in asked.items() if keys is True]
            if pooled:
                self.location.materialize(*pooled)
            batches: dict[frozenset[str], list[str]] = {}
            for name, keys in asked.items():
                if keys is not True:
                    batches.setdefault(frozenset(keys), []).append(name)
            for batch, names in batches.items():
                for stretch in stretches(keys_of(self.location.instance, RUN_FILES), batch, BATCH):
                    self.location.materialize(*names, keys=stretch)
        raise AssertionError(f"automation does not come to rest: {history}")


@pytest.fixture
def clock(location, monkeypatch):
    """Without what takes longest and does not matter here: pictures, and fits of detectors."""
    monkeypatch.setattr("infrascope_dagster.presentation._MOST_PICTURES", 0)
    monkeypatch.setattr("infrascope_core.anomalies.products.fit_baseline", lambda *_, **__: None)
    return Clock(location)


ARRIVING = {"run_files", "telemetry", "faults", "metric_types"}
GATHERED = {"rejected_files", "run_inventory", "anomaly_patterns", "fleet_page"}
MODELS = {"metric_catalog", "thresholds", "baselines"}
PRODUCTS = ("quality_metrics", "curated_metrics", "group_windows", "baskets", "window_features",
            "structural_changes", "anomaly_scores", "anomaly_reasons", "level_offsets", "metric_deviations",
            "anomaly_episodes", "anomaly_report", "phase_changes", "run_page")  # fmt: skip


def test_new_files_arrive_at_anomaly_reasons(clock):
    def put(second: int) -> str:
        """A run whose groups rise together at a time of its own, so that there is a rule."""
        return write_run(clock.location.runs, second, samples=600, burst=(60 * second, 60 * second + 100)).stem

    keys = [put(second) for second in (1, 2, 3)]
    assert clock.sense() == keys
    assert clock.sense() == []
    clock.settle()
    for name in ("telemetry", *PRODUCTS):
        assert clock.location.materialized(name) == set(keys), name

    late = put(4)
    assert clock.sense() == [late]
    history = clock.settle()
    asked = {(name, key) for tick in history for name, keys in tick.items() if keys is not True for key in keys}
    assert asked == {(name, late) for name in ("run_files", "telemetry", "faults", "metric_types", *PRODUCTS)}

    assert {name for name, _ in clock.location.unsynced()} <= MODELS  # fitted before the late run was there
    # episodes quote rules and reports quote other hosts: made anew when there are any for the first time, never again
    pooled = ("group_aliases", "frequent_itemsets", "association_rules", "mined_scopes", "host_deviations")
    clock.location.materialize(*pooled)
    history = clock.settle()
    assert {name for tick in history for name in tick} == {
        "anomaly_episodes",
        "anomaly_report",
        "run_page",
        "fleet_page",
    }
    assert {name for name, _ in clock.location.unsynced()} <= MODELS
    clock.location.materialize(*pooled, ops={name: {"config": {"refit": True}} for name in pooled})
    assert not [name for tick in clock.settle() for name in tick]


def test_what_is_gathered_is_made_once_from_all_runs_that_are_on_their_way(clock):
    clock.settle()  # an empty folder
    write_run(clock.location.runs, 1)
    clock.sense()
    assert [set(tick) for tick in clock.settle() if tick] == [ARRIVING, set(PRODUCTS), GATHERED]

    first, second = (write_run(clock.location.runs, second).stem for second in (2, 3))
    clock.sense()
    clock.location.materialize(*clock.tick(), keys=[first])
    assert set(clock.tick()) == {*ARRIVING, *PRODUCTS}  # the second is yet to be read, and the first to be made
    clock.location.materialize(*PRODUCTS, keys=[first])
    # files that keep coming hold up nothing for longer than that
    quarter = clock.now.replace(minute=15, second=0)
    assert set(clock.tick(quarter)) & GATHERED == GATHERED
    assert not set(clock.tick(quarter + timedelta(seconds=1))) & GATHERED
    clock.location.materialize(*ARRIVING, keys=[second])
    clock.location.materialize(*PRODUCTS, keys=[second])
    assert set(clock.tick(quarter + timedelta(seconds=2))) == GATHERED


@pytest.mark.slow
def test_a_run_that_failed_holds_up_nothing(clock, monkeypatch):
    first, second = (write_run(clock.location.runs, second).stem for second in (1, 2))
    with monkeypatch.context() as patch:
        judge = "infrascope_core.anomalies.products.baseline_of"
        patch.setattr(judge, lambda folder, key: 1 / 0 if key == first else None)
        clock.sense()
        assert [set(tick) for tick in clock.settle() if tick] == [ARRIVING, set(PRODUCTS), GATHERED]
    stale = GRAPH.stale(clock.location.folder, [first, second])
    assert stale["anomaly_report"] == {first}
    write_run(clock.location.runs, 3)
    clock.sense()
    assert [set(tick) for tick in clock.settle() if tick] == [ARRIVING, set(PRODUCTS), GATHERED]


@pytest.mark.slow
def test_what_is_quoted_marks_nothing_as_unsynced_when_it_is_made_for_the_first_time(clock):
    write_run(clock.location.runs, 1)  # in which no rule is found
    clock.sense()
    clock.settle()
    clock.location.materialize("group_aliases", "association_rules", "host_deviations")
    assert clock.location.folder.lake.read("association_rules").is_empty()
    assert clock.settle() == [{}, {}]
    assert clock.location.unsynced() == {}


def test_a_bad_file_is_asked_for_once_and_again_when_it_changes(clock):
    write_run(clock.location.runs, 1)
    bad = write_run(clock.location.runs, 2)
    bad.write_text("nothing")
    clock.sense()
    history = clock.settle()
    assert sum(bad.stem in tick.get("telemetry", ()) for tick in history) == 1
    assert bad.stem not in clock.location.materialized("anomaly_reasons")
    assert clock.location.folder.lake.read(REJECTED_FILES)["run_key"].to_list() == [bad.stem]
    clock.sense()
    assert bad.stem in keys_of(clock.location.instance, RUN_FILES)
    assert bad.stem not in keys_of(clock.location.instance, RUNS)  # nothing behind it waits for it
    write_run(clock.location.runs, 2)
    assert clock.sense() == [bad.stem]
    assert bad.stem in keys_of(clock.location.instance, RUNS)
    clock.settle()
    assert bad.stem in clock.location.materialized("anomaly_reasons")


def test_a_changed_file_is_made_again_and_no_other(clock):
    first, second = (write_run(clock.location.runs, s) for s in (1, 2))
    clock.sense()
    clock.settle()
    assert clock.location.unsynced() == {}
    write_run(clock.location.runs, 2, samples=500)
    assert clock.sense() == [second.stem]
    history = clock.settle()
    asked = {key for tick in history for keys in tick.values() if keys is not True for key in keys}
    assert asked == {second.stem}
    assert first.stem not in asked
    assert run_file(clock.location.folder, second.stem)["samples"] == 500


@pytest.mark.slow
def test_nothing_is_forgotten_when_runs_that_were_asked_for_never_start(clock):
    """Many files replaced at once, and requests that come to nothing: what is stale is asked for until it is made."""
    keys = {write_run(clock.location.runs, second).stem for second in range(1, 5)}
    clock.sense()
    clock.settle()
    for second in range(1, 5):
        write_run(clock.location.runs, second, samples=500)
    clock.sense()
    assert clock.tick()["telemetry"] == keys
    assert clock.tick()["telemetry"] == keys
    first, *others = sorted(keys)
    clock.location.materialize("run_files", "telemetry", "faults", "metric_types", keys=[first])
    asked = clock.tick()
    assert asked["telemetry"] == set(others)
    assert all(asked[name] == {first} for name in PRODUCTS)
    clock.location.materialize("run_files", "telemetry", "faults", "metric_types", keys=others)
    clock.location.materialize("quality_metrics", keys=[first])
    asked = clock.tick()
    assert asked["quality_metrics"] == set(others)
    assert asked["anomaly_report"] == keys
    clock.settle()
    assert set().union(*GRAPH.stale(clock.location.folder, keys).values()) == set()


@pytest.mark.slow
def test_what_failed_waits_for_the_hour(clock, monkeypatch):
    """And what is made from it waits with it: no report is made of new features and old scores."""
    key = write_run(clock.location.runs, 1).stem
    clock.sense()
    clock.settle()
    write_run(clock.location.runs, 1, samples=500)
    clock.sense()
    report = clock.location.folder.root / "reports" / f"{key}.md"
    before = report.read_text()
    with monkeypatch.context() as patch:
        patch.setattr("infrascope_core.anomalies.products.baseline_of", lambda *_: 1 / 0)
        history = clock.settle()
    asked = [set(tick) for tick in history if tick]
    assert asked.pop(0) == ARRIVING
    assert asked.pop(0) == set(PRODUCTS)
    assert asked.pop(0) == {"rejected_files", "run_inventory"}
    assert asked == []
    stale = {name for name, keys in GRAPH.stale(clock.location.folder, [key]).items() if keys}
    assert stale == {"anomaly_scores", "anomaly_episodes", "anomaly_report", "run_page"}
    assert report.read_text() == before

    assert clock.tick() == {}
    assert {"anomaly_scores", "anomaly_report"} <= set(clock.tick(clock.now + timedelta(hours=1)))


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["quality.products.quality_metrics", "anomalies.products.baseline_of"])
def test_what_failed_is_tried_again_when_its_run_file_was_replaced(clock, monkeypatch, broken):
    write_run(clock.location.runs, 1)
    clock.sense()
    with monkeypatch.context() as patch:
        patch.setattr(f"infrascope_core.{broken}", lambda *_: 1 / 0)
        clock.settle()
    assert clock.tick() == {}
    write_run(clock.location.runs, 1, samples=500)
    clock.sense()
    first, second, *_ = clock.settle()
    assert set(first) == ARRIVING
    assert set(PRODUCTS) <= set(second)


def test_no_two_nodes_of_a_condition_share_their_memory(location):
    graph = location.defs.get_repository_def().asset_graph
    for key in graph.materializable_asset_keys:
        ids = list(node_ids(graph.get(key).automation_condition.get_snapshot()))
        assert len(ids) == len(set(ids)), key


def node_ids(snapshot):
    yield snapshot.node_snapshot.unique_id
    for child in snapshot.children:
        yield from node_ids(child)


@pytest.mark.slow
def test_a_model_that_did_not_change_moves_nothing_and_a_refit_moves_all(clock):
    keys = {write_run(clock.location.runs, s).stem for s in (1, 2)}
    clock.sense()
    clock.settle()
    clock.location.materialize("thresholds")
    assert "baskets" not in {name for tick in clock.settle() for name in tick}
    third = write_run(clock.location.runs, 3, burst=(0, 300)).stem
    clock.sense()
    clock.settle()
    config = {"ops": {"thresholds": {"config": {"refit": True}}}}
    clock.location.materialize("thresholds", **config)
    history = clock.settle()
    assert {key for tick in history for key in tick.get("baskets", ())} == keys | {third}


def test_the_sensor_is_capped_and_survives_a_missing_folder(clock, monkeypatch):
    monkeypatch.setattr("infrascope_dagster.defs.sensors.PER_TICK", 2)
    keys = [write_run(clock.location.runs, second).stem for second in range(1, 6)]
    assert [clock.sense() for _ in range(4)] == [keys[:2], keys[2:4], keys[4:], []]
    clock.location.runs.rename(clock.location.runs.with_name("away"))
    assert clock.sense() == []


@pytest.mark.slow
def test_while_a_source_is_missing_what_was_read_is_made(clock):
    clock.settle()  # an empty folder
    key = write_run(clock.location.runs, 1).stem
    clock.sense()
    clock.location.materialize(*clock.tick(), keys=[key])
    clock.location.runs.rename(clock.location.runs.with_name("away"))
    assert clock.sense() == []
    assert [set(tick) for tick in clock.settle() if tick] == [set(PRODUCTS), {"anomaly_patterns", "fleet_page"}]
    clock.location.runs.with_name("away").rename(clock.location.runs)
    assert [set(tick) for tick in clock.settle() if tick] == [{"rejected_files", "run_inventory"}]


@pytest.mark.slow
def test_a_source_that_is_missing_at_first_delays_nothing_when_it_comes(clock):
    clock.location.runs.rmdir()
    assert [set(tick) for tick in clock.settle() if tick] == [{"anomaly_patterns", "fleet_page"}]
    write_run(clock.location.runs, 1)
    clock.sense()
    assert [set(tick) for tick in clock.settle() if tick] == [ARRIVING, set(PRODUCTS), GATHERED]


@pytest.mark.slow
def test_what_is_gathered_and_failed_is_tried_again_with_the_next_run(clock, monkeypatch):
    write_run(clock.location.runs, 1)
    clock.sense()
    with monkeypatch.context() as patch:
        patch.setattr("infrascope_core.pages.products.fleet_content", lambda *_: 1 / 0)
        clock.settle()
    assert "fleet_page" not in clock.tick()
    write_run(clock.location.runs, 2)
    clock.sense()
    assert [set(tick) for tick in clock.settle() if tick] == [ARRIVING, set(PRODUCTS), GATHERED]


def test_a_deleted_bad_file_is_withdrawn_and_a_deleted_good_one_is_marked_and_kept(clock):
    good = write_run(clock.location.runs, 1)
    bad = write_run(clock.location.runs, 2)
    bad.write_text("nothing")
    clock.sense()
    clock.settle()
    good.unlink()
    bad.unlink()
    assert clock.sense() == [good.stem]
    assert keys_of(clock.location.instance, RUN_FILES) == keys_of(clock.location.instance, RUNS) == [good.stem]
    record = clock.location.instance.fetch_observations(dg.AssetKey("source_files"), limit=1).records[0]
    assert record.partition_key == good.stem
    assert record.event_log_entry.asset_observation.metadata["deleted"].value is True
    assert clock.sense() == []
    history = clock.settle()
    assert {name for tick in history for name in tick} == {"rejected_files", "run_inventory", "fleet_page"}
    assert clock.location.folder.lake.read(REJECTED_FILES).is_empty()
    # it may come back
    write_run(clock.location.runs, 1)
    assert clock.sense() == [good.stem]


def test_no_partition_goes_under_a_backfill(clock, monkeypatch):
    bad = write_run(clock.location.runs, 1)
    bad.write_text("nothing")
    clock.sense()
    clock.settle()
    instance = clock.location.instance
    with monkeypatch.context() as patch:
        at_work = [SimpleNamespace(status=SimpleNamespace(name="REQUESTED"))]
        patch.setattr(instance, "get_backfills", lambda **_: at_work)
        clock.sense()
        assert keys_of(instance, RUNS) == [bad.stem]
    clock.sense()
    assert keys_of(instance, RUNS) == []
    assert keys_of(instance, RUN_FILES) == [bad.stem]


def test_a_folder_that_the_command_line_filled_is_adopted_and_not_made_again(clock):
    keys = [write_run(clock.location.runs, second).stem for second in (1, 2)]
    away = write_run(clock.location.runs.with_name("away"), 3).stem
    keys.append(away)
    bad = write_run(clock.location.runs, 4)
    bad.write_text("nothing")
    refresh(replace(clock.location.folder, sources=(clock.location.runs, clock.location.runs.with_name("away"))))
    assert clock.sense() == [*keys[:2], bad.stem]
    clock.sense()
    assert [name for tick in clock.settle() for name in tick] == []
    for name in ("run_files", "telemetry", "faults", "metric_types", *PRODUCTS):
        assert clock.location.materialized(name) - {bad.stem} == set(keys), name
        assert clock.location.metadata(name, keys[0])["kept"].value is True
    rows = clock.location.metadata("baskets", keys[1])["dagster/row_count"].value
    assert rows == clock.location.folder.lake.read("baskets", keys[1]).height > 0
    assert clock.location.metadata("thresholds")["dagster/row_count"].value > 0
    assert clock.location.unsynced() == {}
    (record,) = clock.location.instance.fetch_observations(dg.AssetKey("telemetry"), limit=10).records
    assert record.partition_key == bad.stem
    assert record.event_log_entry.asset_observation.metadata["reason"].value.startswith("not a table: ")
    assert clock.location.metadata("run_files", bad.stem)["status"].value == "rejected"
    assert clock.sense() == []


@pytest.mark.slow
def test_what_the_command_line_healed_or_renewed_is_adopted_with_its_own_figures(clock):
    paths = [write_run(clock.location.runs, second) for second in (1, 2, 3)]
    clock.sense()
    clock.settle()
    paths[0].write_text("nothing")
    clock.sense()
    clock.settle()
    first, third = (write_run(clock.location.runs, second, samples=450).stem for second in (1, 3))
    refresh(clock.location.folder)
    for _ in range(3):
        clock.sense()
    states = clock.location.instance.get_status_by_partition(dg.AssetKey("telemetry"), [first, third], RUN_FILES)
    assert set(states.values()) == {dg.AssetPartitionStatus.MATERIALIZED}
    for key in (first, third):
        assert clock.location.metadata("run_files", key)["samples"].value == 450
        assert clock.location.metadata("baskets", key)["kept"].value is True
    assert [name for tick in clock.settle() for name in tick if name in PRODUCTS] == []
