"""Hosts of a data folder compared: what is read, what is kept, and what is not read again."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from infrascope_core.hosts import products
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.pipeline import GRAPH
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES, RUN_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from tests.generated import write

SAMPLES = 150


def compare_hosts(folder: DataFolder) -> pl.DataFrame:
    return GRAPH.make_pooled(folder, HOST_DEVIATIONS)


def are_hosts_compared(folder: DataFolder) -> bool:
    return GRAPH.is_current(folder, HOST_DEVIATIONS)


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
    for key in Inbox.of(folder).keys:
        GRAPH.make(folder, RUN_FILES, key)
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
    assert table.schema == HOST_DEVIATIONS.schema
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
    write_host(tmp_path / "runs", "h1", hour=11)
    assert are_hosts_compared(ingested(tmp_path))  # a run on one host is compared with none
    read = []
    compare_job = products._compare_job

    def spy(folder, job):
        read.append(job["job"][0])
        return compare_job(folder, job)

    monkeypatch.setattr(products, "_compare_job", spy)
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
    assert compare_hosts(folder).is_empty()
    assert are_hosts_compared(folder)
