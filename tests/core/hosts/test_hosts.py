"""Hosts of one job: which runs belong together, who departs, and what two hosts alone cannot tell."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.hosts.comparison import aligned, compare, deviations, window_means
from infrascope_core.hosts.jobs import JOBS, find_jobs
from infrascope_core.hosts.settings import HostSettings
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.hosts.verdict import judge

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


def test_windows_are_means_of_whole_seconds():
    telemetry = pl.DataFrame(
        {
            "ts": [START + timedelta(seconds=s) for s in (0.2, 0.7, 1.1, 3.0)],
            "m": [1.0, 3.0, None, np.inf],
        }
    )
    means = window_means(telemetry, ["m"], SETTINGS)
    second = int((START - datetime(1970, 1, 1)).total_seconds())
    assert means.rows() == [(second, 2.0), (second + 1, None), (second + 3, None)]


def test_hosts_are_aligned_by_time():
    first = pl.DataFrame({"sample": [1, 2], "m": [1.0, None], "only": [5.0, 6.0]})
    second = pl.DataFrame({"sample": [2, 3], "m": [7.0, 8.0]})
    values = aligned([first, second], ["m", "only"])
    nan = np.nan
    np.testing.assert_array_equal(values[..., 0], [[1, nan, nan], [nan, 7, 8]])
    np.testing.assert_array_equal(values[..., 1], [[5, 6, nan], [nan, nan, nan]])


def memory_of(hosts: int, windows: int = 60, noise: float = 1.0, extra: float = 40.0) -> np.ndarray:
    """Memory in use of hosts of one job, which rises with the work; the last host has more of it."""
    rng = np.random.default_rng(0)
    values = 100 + np.arange(windows) * 0.5 + rng.normal(0, noise, (hosts, windows)) + rng.normal(0, 2, (hosts, 1))
    values[-1] += extra
    return values[..., None]


def test_one_of_nine_hosts_with_more_memory():
    """The paper's case (section 6, HugePages)."""
    found = compare(memory_of(9), SETTINGS)
    assert found.hosts[:, 0].tolist() == [9] * 9
    assert found.value[8, 0] - found.expected[8, 0] == pytest.approx(40, abs=8)
    assert found.robust_z[8, 0] > 8
    assert found.persistence[8, 0] == 1.0
    assert np.abs(found.robust_z[:8, 0]).max() < 3.5


def test_what_does_not_move_is_compared_too_and_no_score_is_infinite():
    """Huge pages: 0 on eight hosts and 512 on one; the same on all hosts is no deviation."""
    values = np.zeros((9, 20, 2))
    values[4, :, 0] = 512
    values[..., 1] = 7
    found = compare(values, SETTINGS)
    assert found.robust_z[4].tolist() == [50.0, 0.0]  # at most the inverse of `least_scale`
    assert found.steady.all()
    assert found.persistence[4].tolist() == [1.0, 0.0]


def test_a_short_burst_is_not_persistent():
    values = memory_of(5, extra=0.0)
    values[4, :10] += 80
    found = compare(values, SETTINGS)
    assert found.persistence[4, 0] < 0.9


def test_the_work_all_hosts_share_is_no_wavering():
    """A common rise from 100 to 130 does not hide a host that is 40 above the others all the time."""
    assert compare(memory_of(4, noise=0.0), SETTINGS).robust_z[3, 0] > 8


def test_hosts_that_were_never_watched_at_the_same_time():
    values = np.full((3, 30, 1), np.nan)
    for host in range(3):
        values[host, 10 * host : 10 * host + 10] = 10 if host < 2 else 20
    found = compare(values, SETTINGS)
    assert found.expected[2, 0] == 10 and found.value[2, 0] == 20
    assert found.windows[:, 0].tolist() == [10, 10, 10]


def test_a_metric_of_one_host_alone_is_compared_with_nobody():
    values = np.full((2, 12, 1), np.nan)
    values[0] = 1
    found = compare(values, SETTINGS)
    assert found.windows[:, 0].tolist() == [0, 0] and np.isnan(found.robust_z).all()
    assert deviations(job("a", "h1 h2"), ["Memory:X[kB]"], found).is_empty()


def job(name: str, hosts: str) -> pl.DataFrame:
    return pl.DataFrame([(name, f"{name} {h}", h, "cpu") for h in hosts.split()], schema=JOBS, orient="row")


def judged(*levels: tuple[str, dict[str, float]]) -> pl.DataFrame:
    """Jobs in which hosts hold a level for 20 windows, judged together."""
    found, jobs = [], []
    for name, of_host in levels:
        own = job(name, " ".join(of_host))
        values = np.broadcast_to(np.array([*of_host.values()])[:, None, None], (len(of_host), 20, 1))
        found.append(deviations(own, ["Memory:HugePages_Total[count]"], compare(values, SETTINGS)))
        jobs.append(own)
    return judge(pl.concat(found), pl.concat(jobs), SETTINGS)


def reported(table: pl.DataFrame) -> set[tuple[str, str, bool]]:
    return set(table.filter("deviates").select("job", "host", "ambiguous").iter_rows())


def test_the_table_and_its_claim():
    table = judged(("a", dict.fromkeys(["h1", "h2", "h3"], 0.0) | {"h4": 512.0}))
    assert table.schema == HOST_DEVIATIONS.schema
    row = table.filter("deviates").row(0, named=True)
    assert (row["job"], row["host"], row["run_key"], row["hosts"]) == ("a", "h4", "a h4", 4)
    assert (row["value"], row["expected"], row["direction"], row["persistence"]) == (512, 0, "above", 1)
    assert (row["subsystem"], row["unit"]) == ("Memory", "count")
    assert row["claim"] == (
        "Memory:HugePages_Total[count]: 512 on h4 is above the 0 of the other 3 hosts, in 100% of the time; "
        "it does not move with the work, so compare the hosts' configuration."
    )


def test_a_host_equal_to_the_others_has_no_row():
    assert set(judged(("a", {"h1": 1.0, "h2": 1.0, "h3": 1.0, "h4": 9.0}))["host"]) == {"h4"}


def test_of_three_hosts_the_two_that_agree_are_not_blamed():
    """For each of them the others are one equal and one odd: their spread keeps the robust z low."""
    assert reported(judged(("a", {"h1": 1.0, "h2": 1.0, "h3": 9.0}))) == {("a", "h3", False)}


def test_in_how_many_of_its_jobs_a_host_deviates():
    same = dict.fromkeys(["h1", "h2", "h3"], 100.0)
    table = judged(("a", same | {"h4": 150.0}), ("b", same | {"h4": 150.0}), ("c", same | {"h4": 101.0}))
    of_host = table.filter("deviates").select("job", "host", "jobs", "jobs_deviating")
    assert of_host.rows() == [("a", "h4", 3, 2), ("b", "h4", 3, 2)]
    assert "so in 2 of its 3 jobs" in table.filter("deviates")["claim"][0]
    assert table.filter(~pl.col("deviates"))["claim"].null_count() == table.filter(~pl.col("deviates")).height


def test_of_two_hosts_alone_either_may_be_the_odd_one():
    table = judged(("a", {"h1": 100.0, "h2": 200.0}), ("b", {"h1": 100.0, "h2": 200.0}))
    assert reported(table) == {(j, h, True) for j in "ab" for h in ("h1", "h2")}
    assert "either may be the odd one" in table["claim"][0]


def test_of_two_hosts_the_other_jobs_tell_the_odd_one():
    pair = ("a", {"h1": 100.0, "h2": 200.0})
    odd_elsewhere = ("b", {"h2": 200.0, "h3": 100.0, "h4": 100.0})
    like_others_elsewhere = ("c", {"h1": 100.0, "h3": 100.0, "h4": 100.0})
    assert ("a", "h2", False) in reported(judged(pair, odd_elsewhere))
    assert {row for row in reported(judged(pair, odd_elsewhere)) if row[0] == "a"} == {("a", "h2", False)}
    assert reported(judged(pair, like_others_elsewhere)) == {("a", "h2", False)}  # by elimination


def test_a_pair_that_meets_again_tells_nothing_new():
    again = judged(*((name, {"h1": 100.0, "h2": 200.0}) for name in "abc"))
    assert again.filter("ambiguous").height == 6


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (lambda v: v[:, :9], "fewer than ten windows"),
        (lambda v: np.where(v == 40, 10.5, v), "a difference below a tenth"),
    ],
)
def test_what_is_too_little_to_report(values, why):
    levels = np.broadcast_to(np.array([10.0, 10.0, 10.0, 40.0])[:, None, None], (4, 20, 1))
    own = job("a", "h1 h2 h3 h4")
    assert judge(deviations(own, ["M[x]"], compare(levels, SETTINGS)), own, SETTINGS)["deviates"].sum() == 1
    assert judge(deviations(own, ["M[x]"], compare(values(levels), SETTINGS)), own, SETTINGS)["deviates"].sum() == 0, (
        why
    )


def test_no_jobs_give_an_empty_table():
    own = job("a", "h1 h2")
    nothing = deviations(own, [], compare(np.empty((2, 0, 0)), SETTINGS))
    assert judge(nothing, JOBS.to_frame(), SETTINGS).schema == HOST_DEVIATIONS.schema


def test_hosts_have_no_order_and_metrics_no_unit():
    values = memory_of(6)
    order = [3, 0, 5, 1, 4, 2]
    plain, turned = compare(values, SETTINGS), compare(1024 * values[order], SETTINGS)
    np.testing.assert_allclose(turned.robust_z, plain.robust_z[order], rtol=1e-12)
    np.testing.assert_array_equal(turned.persistence, plain.persistence[order])
