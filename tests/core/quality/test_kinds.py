"""Counters and levels that are known by name."""

from __future__ import annotations

import re

import pytest

from infrascope_core.quality.kinds import known_kinds


def kind(metric: str) -> str | None:
    kinds = known_kinds()
    found = {
        name
        for name, pattern in (("counter", kinds.counters), ("level", kinds.levels))
        if re.fullmatch(pattern, metric, re.IGNORECASE)
    }
    assert len(found) <= 1, f"{metric} is both"
    return found.pop() if found else None


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("Storage:sectors_read[count]", "counter"),
        ("Storage:I/Os_currently_in_progress[count]", "level"),
        ("Storage:weighted_time_spent_doing_I/Os_(ms)[ms]", "counter"),
        ("Vmstat:pgfault[count]", "counter"),
        ("Vmstat:nr_free_pages[count]", "level"),
        ("Vmstat:nr_dirtied[count]", "counter"),
        ("Vmstat:workingset_nodes[count]", "level"),
        ("Vmstat:workingset_refault_anon[count]", "counter"),
        ("Procstat:user.7[count]", "counter"),
        ("Procstat:procs_running[count]", "level"),
        ("Meminfo:Cached[kB]", "level"),
        ("NetworkInterStat:rx_bytes.eth0[Bytes]", "counter"),
        ("Netstat:TcpRetransSegs[count]", "counter"),
        ("Snmp:TcpCurrEstab[count]", "level"),
        ("Infiniband:port_xmit_data.mlx5_0[count]", "counter"),
        ("GPU: ecc.errors.corrected.aggregate.total.0[count]", "counter"),
        ("GPU: clocks.sm.1[MHz]", "level"),
        ("Pressure:io_some_total[us]", "counter"),
        ("Pressure:io_some_avg10[%]", "level"),
        ("Storage_diff:sectors_read[count]", None),  # differenced by its collector
        ("Turbostat:Busy%.3[%]", None),
        ("Server:d04[-]", None),
    ],
)
def test_known_names(metric, expected):
    assert kind(metric) == expected
