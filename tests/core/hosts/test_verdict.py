"""The verdict on hosts: who departs in the light of all jobs, and what two hosts alone cannot show."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from infrascope_core.hosts.comparison import compare, deviations
from infrascope_core.hosts.settings import HostSettings
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.hosts.verdict import judge
from infrascope_core.run_files.jobs import JOBS

SETTINGS = HostSettings()


def job(name: str, hosts: str) -> pl.DataFrame:
    return pl.DataFrame([(name, f"{name} {h}", h, "cpu") for h in hosts.split()], schema=JOBS, orient="row")


def judged(*levels: tuple[str, dict[str, float]], metric: str = "Memory:HugePages_Total[count]") -> pl.DataFrame:
    """Jobs in which hosts hold a level for 20 windows, judged together."""
    found, jobs = [], []
    for name, of_host in levels:
        own = job(name, " ".join(of_host))
        values = np.broadcast_to(np.array([*of_host.values()])[:, None, None], (len(of_host), 20, 1))
        found.append(deviations(own, [metric], compare(values, SETTINGS)))
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


@pytest.mark.parametrize(
    ("metric", "usual", "unusual"),
    [
        ("Turbostat:CoreTmp.27[C]", 48.0, 60.0),
        ("GPU: temperature.gpu.0[C]", 32.0, 55.0),
        ("NetworkProtocolCounts:UNIX[count]", 60.0, 200.0),
        ("Memory:HugePages_Total[count]", 43.0, 60.0),
    ],
)
def test_what_hosts_of_one_kind_usually_differ_by_is_not_reported(metric, usual, unusual):
    alike = dict.fromkeys(["h1", "h2", "h3"], 40.0)
    assert reported(judged(("a", alike | {"h4": usual}), metric=metric)) == set()
    assert reported(judged(("a", alike | {"h4": unusual}), metric=metric)) == {("a", "h4", False)}


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


def test_of_two_hosts_the_other_jobs_identify_the_deviating_one():
    pair = ("a", {"h1": 100.0, "h2": 200.0})
    odd_elsewhere = ("b", {"h2": 200.0, "h3": 100.0, "h4": 100.0})
    like_others_elsewhere = ("c", {"h1": 100.0, "h3": 100.0, "h4": 100.0})
    assert ("a", "h2", False) in reported(judged(pair, odd_elsewhere))
    assert {row for row in reported(judged(pair, odd_elsewhere)) if row[0] == "a"} == {("a", "h2", False)}
    assert reported(judged(pair, like_others_elsewhere)) == {("a", "h2", False)}  # by elimination


def test_a_pair_that_meets_again_adds_no_evidence():
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
