"""Jobs: from sacct, from labels, by hand; host lists as Slurm writes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.jobs import (
    Job,
    by_hand,
    expand_hosts,
    host_name,
    jobs_of_sacct,
    moment,
    of_label,
    time_zone,
)
from infrascope_core.importers.writing import word

SACCT = """\
JobID|NodeList|Start|End|JobName
101|gpu[01-02]|2026-11-20T10:00:00|2026-11-20T12:30:00|train bert
101.batch|gpu01|2026-11-20T10:00:00|2026-11-20T12:30:00|batch
102_3|gpu07|2026-11-20T09:00:00|2026-11-20T09:10:00|a|b
103|None assigned|Unknown|Unknown|waiting
104|gpu09|2026-11-20T11:00:00|Unknown|runs
"""


def test_jobs_are_those_that_have_ended_without_their_steps():
    listing = jobs_of_sacct(SACCT)
    assert listing.jobs == (
        Job(datetime(2026, 11, 20, 9), datetime(2026, 11, 20, 9, 10), ("gpu07",), "102_3", "a|b"),
        Job(datetime(2026, 11, 20, 10), datetime(2026, 11, 20, 12, 30), ("gpu01", "gpu02"), "101", "train bert"),
    )
    assert listing.notes == (
        "1 of the jobs in the output of sacct never started",
        "1 of the jobs in the output of sacct have not ended yet, and are left for a later import",
    )


def test_a_name_can_hold_anything_and_stops_no_other_job():
    times = "2026-11-20T10:00:00|2026-11-20T11:00:00"
    text = f"JobID|NodeList|Start|End|JobName\n1|h1|{times}|a\nb|c\n2|h1|{times}|x\u2028y\x0cz\n3|h1|2026-11"
    listing = jobs_of_sacct(text)
    assert [(job.number, job.name) for job in listing.jobs] == [("1", "a"), ("2", "x\u2028y\x0cz")]
    assert listing.notes == ("2 lines of the output of sacct are no jobs, such as line 3: left out",)
    in_front = jobs_of_sacct(f"JobName|JobID|NodeList|Start|End\na|b|1|h1|{times}\na|2|h1|{times}\n")
    assert [job.number for job in in_front.jobs] == ["2"]


def test_jobs_without_length_are_left_out():
    """An hour that occurs twice, when the clock is put back, can end a job before it began."""
    text = "JobID|NodeList|Start|End\n1|h|2026-10-25T02:50:00|2026-10-25T02:10:00\n2|h|1795168800|1795168800\n"
    listing = jobs_of_sacct(text, ZoneInfo("Europe/Berlin"))
    assert listing.jobs == ()
    assert listing.notes[0].startswith("2 of the jobs in the output of sacct have no length; if the clock was put back")


def test_times_of_sacct_are_those_of_the_cluster_or_seconds():
    (_, job) = jobs_of_sacct(SACCT, ZoneInfo("Europe/Berlin")).jobs
    assert (job.start, job.end) == (datetime(2026, 11, 20, 9), datetime(2026, 11, 20, 11, 30))
    seconds = "JobID|NodeList|Start|End\n1|h|1795168800|1795172400\n"
    assert jobs_of_sacct(seconds, ZoneInfo("Europe/Berlin")).jobs[0].start == datetime(2026, 11, 20, 10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column JobID"),
        ("JobID|Start|End\n", "has no column NodeList"),
        (
            "JobID|NodeList|Start|End\n1|h|yesterday|2026-11-20T10:00:00\n",
            "line 2 of the output of sacct: expected a time as .*, found 'yesterday'",
        ),
        ("JobID|NodeList|Start|End\n1|h[1-|2026-11-20T10:00:00|2026-11-20T11:00:00\n", "expected a host list"),
    ],
)
def test_what_cannot_be_read_is_said(text, said):
    with pytest.raises(ImportSourceError, match=said):
        jobs_of_sacct(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login1", ("login1",)),
        ("gpu[01-03,07],login1", ("gpu01", "gpu02", "gpu03", "gpu07", "login1")),
        ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
        ("a[1]-ib.cluster", ("a1-ib.cluster",)),
        ("a,a", ("a",)),
    ],
)
def test_host_lists(text, hosts):
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        "n[0-999999999]",
        "n[0-999][0-999]",
        "n[a-b]",
        "n[1-2",
        "n1]",
        "n[[1]]",
        "n[-1]",
        "n[5-1]",
        "n[" + "9" * 5000 + "]",
    ],
)
def test_hostile_host_lists_are_refused(text):
    with pytest.raises(ImportSourceError, match="host list"):
        expand_hosts(text)


@given(st.integers(0, 90), st.integers(0, 99), st.integers(1, 4))
def test_a_range_keeps_its_leading_zeros(first, length, width):
    last = first + length
    hosts = expand_hosts(f"n[{first:0{width}}-{last:0{width}}]")
    assert hosts == tuple(f"n{i:0{width}}" for i in range(first, last + 1))


@pytest.mark.parametrize(
    ("text", "short", "full"),
    [
        ("gpu01.cluster.lab:9100", "gpu01", "gpu01.cluster.lab"),
        ("gpu01", "gpu01", "gpu01"),
        ("10.0.0.7:9100", "10.0.0.7", "10.0.0.7"),
        ("[fe80::1]:9100", "fe80--1", "fe80--1"),
    ],
)
def test_hosts_lose_port_and_domain(text, short, full):
    assert (host_name(text), host_name(text, full=True)) == (short, full)


def test_addresses_of_ipv6_stay_distinct_and_can_be_names():
    texts = ["::1", "::2", "[::1]:9100", "fd00::", "fd00::1", "fd00::9100", "[FD00::1]", "fe80::1%eth0"]
    hosts = [host_name(text) for text in texts]
    assert hosts == ["0--1", "0--2", "0--1", "fd00--0", "fd00--1", "fd00--9100", "fd00--1", "fe80--1-eth0"]
    assert [word(host) for host in hosts] == hosts


def test_a_label_names_a_job_from_its_first_to_its_last_sample():
    start, gap = datetime(2026, 11, 20, 10), timedelta(seconds=15)
    spans = [
        ("7", "b", start + gap, start + 9 * gap),
        ("7", "a", start, start + 8 * gap),
        ("8", "a", start + 9 * gap, start + 20 * gap),
    ]
    assert of_label(spans, gap).jobs == (
        Job(start, start + 10 * gap, ("a", "b"), "7"),
        Job(start + 9 * gap, start + 21 * gap, ("a",), "8"),
    )


def test_by_hand():
    start = datetime(2026, 11, 20, 10)
    (job,) = by_hand(start, start + timedelta(hours=1), ["a", "a"]).jobs
    assert (job.hosts, str(job)) == (("a",), "2026-11-20 10:00:00 to 2026-11-20 11:00:00")
    with pytest.raises(ImportSourceError, match="is not after the start"):
        by_hand(start, start)


def test_times_with_an_offset_are_no_other_zones():
    berlin = time_zone("Europe/Berlin")
    assert moment("2026-07-01T12:00:00", berlin) == datetime(2026, 7, 1, 10)
    assert moment("2026-07-01T12:00:00Z", berlin) == datetime(2026, 7, 1, 12)
    with pytest.raises(ImportSourceError, match="no such time zone"):
        time_zone("../../etc/passwd")
