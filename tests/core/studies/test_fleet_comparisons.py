"""Comparisons of a data folder: what is read, what is kept, and what is not read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.fleet_comparisons import (
    are_hosts_compared,
    compare_hosts,
    detector_latency,
    example_timelines,
    hit_rates,
    run_similarity,
    window_agreement,
    window_settings,
)
from infrascope_core.fleet_comparisons import jobs as jobs_of_hosts
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.pipeline import TABLES
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.studies.settings import AgreementSettings, LatencySettings
from infrascope_core.studies.tables import WINDOW_AGREEMENT
from tests.generated import write
from tests.runs import write_run

SAMPLES = 150
ONE_RUN = AgreementSettings(max_runs=1)
pytestmark = pytest.mark.xdist_group("fleet comparisons")  # share a folder


def metrics_of(host: str, memory: float = 100.0, uptime: float = 0.0) -> dict[str, np.ndarray]:
    """A host's columns: noise, a static metric, a cumulative counter, and one that is always missing."""
    rng = np.random.default_rng(sum(host.encode()))
    return {
        f"AverageCPUUtilization.{host}[%]": 50 + rng.normal(0, 2, SAMPLES),
        f"Memory:HugePages_Total.{host}[kB]": np.full(SAMPLES, memory),
        f"Interrupts:total.{host}[count]": uptime + np.arange(SAMPLES) * 10.0,
        f"Turbostat:CorWatt.0.{host}[W]": np.full(SAMPLES, np.nan),
    }


def write_host(folder, host: str, second: int = 0, hour: int = 10, *, model: str = "MLP", **levels: float) -> None:
    start = datetime(2026, 11, 1, hour, 0, second)
    frame = pl.DataFrame(metrics_of(host, **levels)).fill_nan(None)
    write(folder / f"train_{model}forTask_Data_{start:%Y-%m-%dT%H-%M-%S}_{host}.txt", frame, start)


def ingested(folder) -> DataFolder:
    folder = DataFolder(folder / "data", Settings(), (folder / "runs",))
    for key, paths in folder.find().items():
        folder.ingest(key, paths)
    assert folder.lake.read(REJECTED_FILES).is_empty()
    return folder


@pytest.fixture
def job(tmp_path):
    """Nine hosts of one job; one has preallocated pages, and another was booted long before the others."""
    for i in range(9):
        write_host(
            tmp_path / "runs", f"h{i}", second=i, memory=500.0 if i == 4 else 100.0, uptime=1e9 if i == 7 else 1e6
        )
    return ingested(tmp_path)


def reported(folder: DataFolder) -> set[tuple[str, str]]:
    return set(compare_hosts(folder).filter("deviates").select("host", "metric").iter_rows())


def test_the_host_with_more_memory(job):
    assert ("h4", "Memory:HugePages_Total[kB]") in reported(job)
    table = job.lake.read(HOST_DEVIATIONS)
    assert table.schema == TABLES["host_deviations"].schema
    assert set(table["job"]) == {"train_MLPforTask_Data_2026-11-01T10-00-00_h0"}
    assert "Turbostat:CorWatt.0[W]" not in table["metric"]
    assert set(table.filter(metric="Memory:HugePages_Total[kB]")["host"]) == {"h4"}
    assert "AverageCPUUtilization[%]" not in table.filter("deviates")["metric"]


def test_cumulative_counters_are_compared_as_rates(job):
    """As they stand, counters tell how long ago a host was booted."""
    assert {m for _, m in reported(job)} == {"Memory:HugePages_Total[kB]", "Interrupts:total[count]"}
    row = {"platform": "cpu", "metric": "Interrupts:total[count]", "treatment": "rate"}
    job.lake.write(pl.DataFrame([row], schema=METRIC_CATALOG.schema), METRIC_CATALOG)
    assert not are_hosts_compared(job)
    assert {m for _, m in reported(job)} == {"Memory:HugePages_Total[kB]"}


def test_two_hosts_in_one_file(tmp_path):
    start = datetime(2026, 11, 1, 10)
    both = pl.DataFrame(metrics_of("ha") | metrics_of("hb", memory=500.0)).fill_nan(None)
    write(tmp_path / "runs" / "train_MLPforTask_Data_2026-11-01T10-00-00_ha.txt", both, start)
    table = compare_hosts(ingested(tmp_path)).filter("deviates")
    assert table.select("host", "metric", "hosts", "ambiguous", "direction").rows() == [
        ("ha", "Memory:HugePages_Total[kB]", 2, True, "below"),
        ("hb", "Memory:HugePages_Total[kB]", 2, True, "above"),
    ]


def test_only_jobs_that_changed_are_read_again(job, tmp_path, monkeypatch):
    compare_hosts(job)
    assert are_hosts_compared(job)
    read = []
    compare_job = jobs_of_hosts._compare_job
    monkeypatch.setattr(jobs_of_hosts, "_compare_job", lambda p, j: read.append(j["job"][0]) or compare_job(p, j))
    for host in ("h4", "h1", "h2"):
        write_host(tmp_path / "runs", host, hour=12, memory=500.0 if host == "h4" else 100.0)
    folder = ingested(tmp_path)
    assert not are_hosts_compared(folder)
    table = compare_hosts(folder)
    assert read == ["train_MLPforTask_Data_2026-11-01T12-00-00_h1"]
    pages = table.filter(metric="Memory:HugePages_Total[kB]", host="h4")
    assert pages.select("jobs", "jobs_deviating").rows() == [(2, 2), (2, 2)]  # in the light of both
    assert table.equals(compare_hosts(DataFolder(tmp_path / "data", Settings(), (tmp_path / "runs",))))


def test_the_same_table_whether_or_not_parts_were_kept(job, tmp_path):
    compare_hosts(job)
    write_host(tmp_path / "runs", "h4", hour=12, memory=500.0)
    write_host(tmp_path / "runs", "h1", hour=12)
    folder = ingested(tmp_path)
    in_two = compare_hosts(folder)
    folder.lake.drop(HOST_DEVIATIONS)
    assert in_two.equals(compare_hosts(folder))


def test_a_job_that_is_gone_leaves_the_table(job):
    compare_hosts(job)
    for key in accepted(job)["run_key"]:
        if "h4" not in key:
            for table in ("run_files", "telemetry"):
                job.lake.drop(table, key)
    assert compare_hosts(job).is_empty()


def test_a_folder_without_runs(tmp_path):
    folder = DataFolder(tmp_path)
    for compare in (compare_hosts, window_agreement, run_similarity, detector_latency):
        assert compare(folder).is_empty()
    assert are_hosts_compared(folder)


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
    table = window_agreement(judged)
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
    shown = example_timelines(judged, table)
    assert list(shown) == ["3 s/1 s", "1.5 s/0.5 s", "5 s/2 s"]
    assert all(0 <= start < end <= 40 for intervals in shown.values() for start, end in intervals)


def test_nothing_is_left_in_the_lake_by_other_window_lengths(judged):
    before = {key: judged.lake.made_from(WINDOW_FEATURES, key) for key in judged.lake.keys(WINDOW_FEATURES)}
    window_agreement(replace(judged, settings=judged.settings.model_copy(update={"agreement": ONE_RUN})))
    assert before == {key: judged.lake.made_from(WINDOW_FEATURES, key) for key in before}


def test_likeness_of_the_runs(judged):
    table = run_similarity(judged)
    watched = set(judged.lake.read(WINDOW_FEATURES, judged.lake.keys(WINDOW_FEATURES)[0])["metric"])
    assert set(table["metric"]) == watched
    row = table.filter(metric="AverageCPUUtilization[%]").row(0, named=True)
    assert row["runs"] == 7 and row["p_value"] is not None
    assert row["farthest_run"].endswith("10-00-02_h1")  # the burst


def test_seconds_per_window(judged):
    table = detector_latency(judged)
    stages = ["features", "deviations", *DETECTORS, "all_detectors", "reasons"]
    assert table.select("stage", "batch").rows() == [(stage, batch) for batch in (1, 3) for stage in stages]
    assert (table["seconds"] > 0).all()
    paper = dict(table.filter(batch=1).select("stage", "paper").iter_rows())
    assert (paper["features"], paper["mahalanobis"], paper["all_detectors"]) == (1.46, 0.015, None)
