"""Jobs: which runs belong together."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from infrascope_core.hosts.jobs import JOBS, find_jobs
from infrascope_core.hosts.settings import HostSettings

SETTINGS = HostSettings()
START = datetime(2026, 1, 1)


def runs(*rows: tuple[str, int, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs of one workload from (run_key, second, hosts)."""
    keys, seconds, names = zip(*rows, strict=True)
    frame = pl.DataFrame(
        {
            "run_key": keys,
            "started_at": [START + timedelta(seconds=s) for s in seconds],
            "platform": "cpu", "phase": "train", "model": "M", "task": "T", "dataset": "D",
        }
    )  # fmt: skip
    hosts = [(key, host) for key, own in zip(keys, names, strict=True) for host in own.split()]
    return frame, pl.DataFrame(hosts, schema=["run_key", "host"], orient="row")


def found_jobs(*rows: tuple[str, int, str]) -> set[tuple[str, str, str]]:
    return set(find_jobs(*runs(*rows), SETTINGS).select("job", "run_key", "host").iter_rows())


def test_runs_that_start_within_a_minute_on_different_hosts_are_one_job():
    found = found_jobs(("a", 0, "h1"), ("b", 60, "h2"), ("c", 61, "h3"))
    assert found == {("a", "a", "h1"), ("a", "b", "h2")}


def test_two_hosts_in_one_file_are_a_job():
    assert found_jobs(("a", 0, "h1 h2"), ("b", 500, "h1")) == {("a", "a", "h1"), ("a", "a", "h2")}


def test_short_runs_after_each_other_are_separate_jobs():
    """Inference every 15 s on two hosts, the first file of the second host lost."""
    found = found_jobs(("a0", 0, "h1"), ("a15", 15, "h1"), ("b16", 16, "h2"), ("a30", 30, "h1"), ("b31", 31, "h2"))
    assert found == {("a15", "a15", "h1"), ("a15", "b16", "h2"), ("a30", "a30", "h1"), ("a30", "b31", "h2")}


@pytest.mark.parametrize("column", ["platform", "phase", "model", "task", "dataset"])
def test_other_work_is_another_job(column):
    frame, hosts = runs(("a", 0, "h1"), ("b", 1, "h2"))
    other = pl.when(pl.col("run_key") == "b").then(pl.lit("other")).otherwise(pl.col(column)).alias(column)
    assert find_jobs(frame, hosts, SETTINGS).height == 2
    assert find_jobs(frame.with_columns(other), hosts, SETTINGS).is_empty()


def test_the_order_of_the_runs_does_not_matter():
    frame, hosts = runs(("a", 0, "h1"), ("b", 1, "h2"), ("c", 2, "h1"), ("d", 3, "h3"))
    assert find_jobs(frame, hosts, SETTINGS).equals(find_jobs(frame.reverse(), hosts.reverse(), SETTINGS))
    assert find_jobs(frame.head(0), hosts.head(0), SETTINGS).schema == JOBS
