"""Studies of a data folder: what they find in runs with a known burst, and that they leave nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.pipeline import GRAPH
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.studies.settings import AgreementSettings, LatencySettings
from infrascope_core.studies.tables import DETECTOR_LATENCY, RUN_SIMILARITY, WINDOW_AGREEMENT
from infrascope_core.studies.window_agreement import example_timelines, hit_rates, window_settings
from tests.runs import write_run

ONE_RUN = AgreementSettings(max_runs=1)


def test_a_folder_without_runs(tmp_path):
    folder = DataFolder(tmp_path)
    for table in (WINDOW_AGREEMENT, RUN_SIMILARITY, DETECTOR_LATENCY):
        assert GRAPH.make_pooled(folder, table).is_empty()


def test_window_lengths_keep_the_paper_s_ratios():
    cuts = [s.features for s in window_settings(Settings())]
    assert [(c.samples, c.stride) for c in cuts] == [(30, 10), (15, 5), (50, 20)]
    own = Settings(features=FeatureSettings(samples=4, stride=1))
    assert [(c.features.samples, c.features.stride) for c in window_settings(own)] == [(4, 1), (3, 1), (7, 2)]


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """Seven runs of a workload, one with a burst of 8 s at 20 s."""
    folder = tmp_path_factory.mktemp("workload")
    for second in range(7):
        write_run(folder / "runs", second, burst=(200, 280) if second == 2 else None)
    return folder


@pytest.fixture
def judged(workload, make_all):
    settings = Settings(latency=LatencySettings(batches=(1, 3), rounds=2))
    if (workload / "data").exists():
        return DataFolder(workload / "data", settings, (workload / "runs",))
    return make_all(workload / "data", workload / "runs", settings=settings)


def test_a_burst_is_found_at_every_window_length(judged):
    table = GRAPH.make_pooled(judged, WINDOW_AGREEMENT)
    assert table.height == 7 * 3
    key = "train_MLPforImageClassification_Digits_2026-11-01T10-00-02_h1"
    of_burst = table.filter(run_key=key)
    assert of_burst.select("setting_a", "setting_b").rows() == [
        ("3 s/1 s", "1.5 s/0.5 s"),
        ("3 s/1 s", "5 s/2 s"),
        ("1.5 s/0.5 s", "5 s/2 s"),
    ]
    assert of_burst["iou"].min() > 0.3
    assert judged.lake.read(WINDOW_AGREEMENT).equals(table)
    rates = hit_rates(table)
    assert rates.height == 3 and rates["hit_by_count mean"].is_between(0, 1).all()
    run_key, shown = example_timelines(judged, table)
    assert run_key in set(table["run_key"])
    assert list(shown) == ["3 s/1 s", "1.5 s/0.5 s", "5 s/2 s"]
    assert all(0 <= start < end <= 40 for intervals in shown.values() for start, end in intervals)


def test_nothing_is_left_in_the_lake_by_other_window_lengths(judged):
    before = {key: judged.lake.made_from(WINDOW_FEATURES, key) for key in judged.lake.keys(WINDOW_FEATURES)}
    one_run = replace(judged, settings=judged.settings.model_copy(update={"agreement": ONE_RUN}))
    GRAPH.make_pooled(one_run, WINDOW_AGREEMENT)
    assert before == {key: judged.lake.made_from(WINDOW_FEATURES, key) for key in before}


def test_likeness_of_the_runs(judged):
    table = GRAPH.make_pooled(judged, RUN_SIMILARITY)
    watched = set(judged.lake.read(WINDOW_FEATURES, judged.lake.keys(WINDOW_FEATURES)[0])["metric"])
    assert set(table["metric"]) == watched
    row = table.filter(metric="AverageCPUUtilization[%]").row(0, named=True)
    assert row["runs"] == 7 and row["p_value"] is not None
    assert row["farthest_run"].endswith("10-00-02_h1")  # the burst


def test_seconds_per_window(judged):
    table = GRAPH.make_pooled(judged, DETECTOR_LATENCY)
    stages = ["features", "deviations", *DETECTORS, "all_detectors", "reasons"]
    assert table.select("stage", "batch").rows() == [(stage, batch) for batch in (1, 3) for stage in stages]
    assert (table["seconds"] > 0).all()
    paper = dict(table.filter(batch=1).select("stage", "paper").iter_rows())
    assert (paper["features"], paper["mahalanobis"], paper["all_detectors"]) == (1.46, 0.015, None)
