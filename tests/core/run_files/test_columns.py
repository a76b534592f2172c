from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.columns import ColumnName, column_name, family, parse_columns, subsystem, unit
from tests.generated import cpu_columns, gpu_columns

FILE = Path("x.txt")


@pytest.mark.parametrize(
    ("column", "metric", "of", "where"),
    [
        ("Perf:Mem-loads.h1[count]", "Perf:Mem-loads[count]", "count", "Memory"),
        ("Perf:IPC.h1[-]", "Perf:IPC[-]", "-", "CPU"),
        ("Perf:Cache_Misses.h1[count]", "Perf:Cache_Misses[count]", "count", "Memory"),
        ("Perf:StallRatio.h1[%]", "Perf:StallRatio[%]", "%", "Memory"),
        ("Turbostat:Busy%.-.h1[%]", "Turbostat:Busy%.-[%]", "%", "CPU"),
        ("Turbostat:CPU%c6.11.h1[%]", "Turbostat:CPU%c6.11[%]", "%", "CPU"),
        ("AverageCPUUtilization.h1[%]", "AverageCPUUtilization[%]", "%", "CPU"),
        ("Meminfo_diff:MemAvailable.h1[kB]", "Meminfo_diff:MemAvailable[kB]", "kB", "Memory"),
        ("GPU: ecc.errors.corrected.volatile.dram.0.h1[count]",
         "GPU: ecc.errors.corrected.volatile.dram.0[count]", "count", "GPU"),
        ("Storage:time_spent_reading_(ms).h1[ms]", "Storage:time_spent_reading_(ms)[ms]", "ms", "Storage"),
        ("NetworkInterStat_diff:rx_bytes.ib0.h1[Bytes]", "NetworkInterStat_diff:rx_bytes.ib0[Bytes]",
         "Bytes", "Network"),
        ("Pressure_diff:io_some_total.h1[us]", "Pressure_diff:io_some_total[us]", "us", "Storage"),
        ("Server:d04.h1[-]", "Server:d04[-]", "-", "Other"),
        ("no_unit.h1", "no_unit", "", "Other"),
    ],
)  # fmt: skip
def test_splits_host_and_metric(column, metric, of, where):
    assert parse_columns(FILE, [column, "Perf:Other.h1[count]"], "h1")[0] == ColumnName("h1", metric)
    assert column_name(metric, "h1") == column
    assert unit(metric) == of
    assert subsystem(metric) == where


@pytest.mark.parametrize(
    ("metric", "of"),
    [
        ("Turbostat:Busy%.11[%]", "Turbostat:Busy%.#[%]"),
        ("Turbostat:Busy%.-[%]", "Turbostat:Busy%.#[%]"),  # the sum over all cores
        ("CPU:CPU3Utilization[%]", "CPU:CPU#Utilization[%]"),
        ("NetworkInterStat_diff:rx_bytes.ib0[Bytes]", "NetworkInterStat_diff:rx_bytes.#[Bytes]"),
        ("NetworkInterStat_diff:rx_bytes.enp1s0f0np0[Bytes]", "NetworkInterStat_diff:rx_bytes.#[Bytes]"),
        ("NetworkInterStat_diff:rx_bytes.lo[Bytes]", "NetworkInterStat_diff:rx_bytes.#[Bytes]"),
        ("GPU: power.draw.1[W]", "GPU: power.draw.#[W]"),
        ("GPU: memory.used.0.mig7[MiB]", "GPU: memory.used.#.#[MiB]"),  # an instance is not as large as a GPU
        ("Storage:sectors_read.nvme0n1p2[count]", "Storage:sectors_read.#[count]"),
        ("Turbostat:C1%.7[%]", "Turbostat:C1%.#[%]"),  # C1 is not C2
        ("Server:d04[-]", "Server:d04[-]"),  # nobody knows whether d04 and d05 are of one kind
        ("Pressure:io_some_avg10[%]", "Pressure:io_some_avg10[%]"),
        ("Perf:Mem-loads[count]", "Perf:Mem-loads[count]"),  # a hyphen in a name is not an instance
        ("Perf:IPC[-]", "Perf:IPC[-]"),  # nor is a unit
    ],
)
def test_instances_are_of_one_family(metric, of):
    assert family(metric) == of


def test_two_hosts_in_one_file():
    names = cpu_columns("nserver07") + cpu_columns("nserver08")
    parsed = parse_columns(FILE, names, "nserver07")
    assert {c.host for c in parsed} == {"nserver07", "nserver08"}
    assert [c.metric for c in parsed[:791]] == [c.metric for c in parsed[791:]]


def test_a_file_whose_name_has_another_host():
    assert {c.host for c in parse_columns(FILE, gpu_columns("htc-g004"), "renamed")} == {"htc-g004"}


def test_a_few_odd_columns_do_not_make_a_host():
    names = [*gpu_columns("h1"), "temperature.rack[C]", "humidity[%]"]
    parsed = parse_columns(FILE, names, "h1")
    assert parsed[-2:] == [ColumnName("h1", "temperature.rack[C]"), ColumnName("h1", "humidity[%]")]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["a.h1[x]", "b.h1[x]", "a.h1[x]"], "occurs 2 times"),
        (["a.h1[x]", "  "], "has no name"),
        (["ts.h1", "a.h1[x]"], "reserved"),
    ],
)
def test_rejects(names, fault):
    with pytest.raises(RunFileError, match=fault):
        parse_columns(FILE, names, "h1")


@given(st.text(st.characters(blacklist_characters="[]\t\n\r"), min_size=1).filter(str.strip))
def test_any_name_survives_the_round_trip(body):
    column = f"{body}.h1[kB]"
    parsed = parse_columns(FILE, [column, "Perf:Other.h1[count]"], "h1")[0]
    assert column_name(parsed.metric, parsed.host) == column
