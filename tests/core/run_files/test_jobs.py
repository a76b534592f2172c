"""Jobs: which runs belong together."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from infrascope_core.run_files.jobs import JOBS, find_jobs, job_of_run, on_several_hosts

WITHIN_S = 60.0
START = datetime(2026, 1, 1)


def runs(*rows: tuple[str, int, str]) -> pl.DataFrame:
    """Runs of one workload from (run_key, second, hosts)."""
    keys, seconds, names = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "run_key": keys,
            "started_at": [START + timedelta(seconds=s) for s in seconds],
            "hosts": [own.split() for own in names],
            "platform": "cpu", "phase": "train", "model": "M", "task": "T", "dataset": "D",
        }
    )  # fmt: skip


def found_jobs(*rows: tuple[str, int, str]) -> set[tuple[str, str, str]]:
    found = on_several_hosts(find_jobs(runs(*rows), WITHIN_S))
    return set(found.select("job", "run_key", "host").iter_rows())


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
    frame = runs(("a", 0, "h1"), ("b", 1, "h2"))
    other = pl.when(pl.col("run_key") == "b").then(pl.lit("other")).otherwise(pl.col(column)).alias(column)
    assert job_of_run(find_jobs(frame, WITHIN_S)) == {"a": "a", "b": "a"}
    assert job_of_run(find_jobs(frame.with_columns(other), WITHIN_S)) == {"a": "a", "b": "b"}


def test_the_order_of_the_runs_does_not_matter():
    frame = runs(("a", 0, "h1"), ("b", 1, "h2"), ("c", 2, "h1"), ("d", 3, "h3"))
    assert find_jobs(frame, WITHIN_S).equals(find_jobs(frame.reverse(), WITHIN_S))
    assert find_jobs(frame.head(0), WITHIN_S).schema == JOBS
