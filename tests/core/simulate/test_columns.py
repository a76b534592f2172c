"""The shape of a simulated file: families, counts, order and units of the public data set."""

from __future__ import annotations

from itertools import groupby

import pytest

from infrascope_core.run_files.columns import column_name, parse_columns, subsystem
from infrascope_core.simulate import columns


def test_a_gpu_file_has_764_columns_in_the_order_of_the_data_set():
    names = [column.metric for column in columns("gpu")]
    assert len(names) == len(set(names)) == 764
    runs = [(source, len(list(group))) for source, group in groupby(names, key=lambda name: name.split(":")[0])]
    assert runs == [
        ("Perf", 19),
        ("Memory", 40),
        ("Turbostat", 9 * 49 + 21),
        ("CPU", 48),
        ("AverageCPUUtilization[%]", 1),
        ("GPU", 132),
        ("Storage", 16),
        ("NetworkInterStat_diff", 34),
        ("NetworkProtocolCounts", 9),
        ("NetworkTCPRetrans_diff", 3),
    ]


def test_a_cpu_file_has_791_columns_in_the_order_of_the_data_set():
    names = [column.metric for column in columns("cpu")]
    assert len(names) == len(set(names)) == 791
    runs = [(source, len(list(group))) for source, group in groupby(names, key=lambda name: name.split(":")[0])]
    assert runs == [
        ("Perf", 12),
        ("Memory", 8),
        ("Meminfo_diff", 38),
        ("Turbostat", 13 * 49 + 1),
        ("CPU", 48),
        ("AverageCPUUtilization[%]", 1),
        ("Storage_diff", 17),
        ("NetworkInterStat_diff", 17),
        ("NetworkProtocolCounts", 9),
        ("NetworkTCPRetrans_diff", 3),
    ]


@pytest.mark.parametrize(
    ("platform", "host", "name"),
    [
        ("gpu", "htc-g004", "Perf:IPC.htc-g004[%]"),
        ("gpu", "htc-g004", "Perf:StallRatio.htc-g004[%]"),
        ("gpu", "htc-g004", "Perf:Mem-loads.htc-g004[count]"),
        ("gpu", "htc-g004", "Turbostat:Busy%.11.htc-g004[%]"),
        ("gpu", "htc-g004", "Turbostat:Busy%.-.htc-g004[%]"),
        ("gpu", "htc-g004", "Turbostat:PkgWatt.0.htc-g004[W]"),
        ("gpu", "htc-g004", "CPU:CPU25Utilization.htc-g004[%]"),
        ("gpu", "htc-g004", "AverageCPUUtilization.htc-g004[%]"),
        ("gpu", "htc-g004", "Memory:MemAvailable.htc-g004[kB]"),
        ("cpu", "nserver07", "Meminfo_diff:MemAvailable.nserver07[kB]"),
        ("gpu", "htc-g004", "GPU: utilization.gpu.0.htc-g004[%]"),
        ("gpu", "htc-g003", "GPU: ecc.errors.corrected.volatile.dram.0.htc-g003[count]"),
        ("gpu", "htc-g003", "Storage:time_spent_reading_(ms).htc-g003[ms]"),
        ("cpu", "nserver07", "Storage_diff:writes_merged.nserver07[count]"),
        ("gpu", "htc-g004", "NetworkInterStat_diff:rx_bytes.ib0.htc-g004[Bytes]"),
        ("gpu", "htc-g004", "NetworkInterStat_diff:NetworkUtilization.ens1f0.htc-g004[%]"),
        ("gpu", "htc-g004", "NetworkProtocolCounts:TCP.htc-g004[count]"),
        ("gpu", "htc-g004", "NetworkTCPRetrans_diff:TcpRetransSegs.htc-g004[count]"),
        ("cpu", "nserver07", "Perf:IPC.nserver07[-]"),
        ("cpu", "nserver07", "Turbostat:CorWatt.3.nserver07[W]"),
    ],
)
def test_the_examples_of_the_data_set_are_among_the_names(platform, host, name):
    assert name in [column_name(column.metric, host) for column in columns(platform)]


def test_blocks_run_over_their_instances_and_cores_stand_in_text_order():
    names = [column.metric for column in columns("gpu")]
    busy = names.index("Turbostat:Busy%.0[%]")
    assert names[busy : busy + 49] == [f"Turbostat:Busy%.{core}[%]" for core in (*range(48), "-")]
    first = names.index("CPU:CPU0Utilization[%]")
    assert names[first : first + 4] == [f"CPU:CPU{core}Utilization[%]" for core in (0, 10, 11, 12)]


@pytest.mark.parametrize("platform", ["gpu", "cpu"])
def test_every_column_has_a_place_in_the_grammar_and_a_subsystem(tmp_path, platform):
    metrics = [column.metric for column in columns(platform)]
    parsed = parse_columns(tmp_path, [column_name(metric, "host-1") for metric in metrics], "host-1")
    assert [column.metric for column in parsed] == metrics
    assert {subsystem(metric) for metric in metrics} == {"CPU", "Memory", "Storage", "Network"} | (
        {"GPU"} if platform == "gpu" else set()
    )
