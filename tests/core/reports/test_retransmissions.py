"""Retransmissions: the paper's injected losses, a workload's own bursts, and the rule's limits."""

from __future__ import annotations

from importlib import resources

import polars as pl
import pytest
import yaml

from infrascope_core.anomalies.tables import FEATURES
from infrascope_core.reports.retransmissions import FAULT_INDUCED, WORKLOAD_INTRINSIC, judge, metric_class

RETRANS = "NetworkTCPRetrans_diff:TcpRetransSegs[count]"
BYTES = "NetworkInterStat_diff:rx_bytes.ib0[Bytes]"
PACKETS = "NetworkInterStat_diff:tx_packets.ib0[count]"
UTILIZATION = "NetworkInterStat_diff:NetworkUtilization.ib0[%]"
CONNECTIONS = "NetworkProtocolCounts:TCP[count]"
IRQ = "Turbostat:IRQ.-[count]"
FREQUENCY = "Turbostat:Bzy_MHz.3[MHz]"
POWER = "GPU: power.draw.0[W]"


def verdicts(*evidence: tuple[int, str, str, float], episode: int = 0) -> list[tuple[int, str]]:
    rows = [("run", "h", episode, *row) for row in evidence]
    names = ["run_key", "host", "episode", "window", "metric", "feature", "weight"]
    return judge(pl.DataFrame(rows, schema=names, orient="row")).select("episode", "retransmissions").rows()


def verdict(*evidence: tuple[int, str, str, float]) -> str | None:
    found = verdicts(*evidence)
    return found[0][1] if found else None


def test_a_tenth_of_a_per_cent_loss_makes_the_link_jitter_at_unchanged_throughput():
    cause = verdict(
        (64, RETRANS, "sum_values", 0.4),
        (64, UTILIZATION, "standard_deviation", 0.3),
        (65, UTILIZATION, "mean_abs_change", 0.2),
        (65, BYTES, "mean", 0.1),
    )
    assert cause == FAULT_INDUCED


def test_two_tenths_make_connections_come_and_go():
    cause = verdict(
        (64, RETRANS, "sum_values", 0.5),
        (64, BYTES, "mean", 0.3),
        (64, CONNECTIONS, "variance", 0.2),
    )
    assert cause == FAULT_INDUCED


def test_one_per_cent_moves_interrupts_and_the_frequency():
    cause = verdict(
        (64, RETRANS, "sum_values", 0.5),
        (65, IRQ, "variance", 0.2),
        (65, FREQUENCY, "autocorrelation__lag_1", 0.2),
        (64, BYTES, "mean", 0.1),
    )
    assert cause == FAULT_INDUCED


def test_a_gpu_that_waits_for_its_data_is_a_side_effect():
    assert verdict((0, RETRANS, "sum_values", 0.6), (0, POWER, "mean", 0.2), (0, BYTES, "mean", 0.2)) == FAULT_INDUCED


def test_a_burst_of_the_workload_moves_bytes_packets_and_utilization_in_step():
    cause = verdict(
        (10, RETRANS, "sum_values", 0.3),
        (10, BYTES, "mean", 0.2),
        (10, BYTES, "variance", 0.1),
        (10, PACKETS, "sum_values", 0.2),
        (10, UTILIZATION, "maximum", 0.1),
        (10, UTILIZATION, "standard_deviation", 0.1),
    )
    assert cause == WORKLOAD_INTRINSIC


def test_sparse_spikes_alone_are_intrinsic_to_the_workload():
    assert verdict((3, RETRANS, "sum_values", 0.2)) == WORKLOAD_INTRINSIC


def test_storage_and_memory_are_not_side_effects():
    cause = verdict(
        (3, RETRANS, "sum_values", 0.2),
        (3, "Storage_diff:sectors_read[count]", "mean", 0.5),
        (3, "Memory:Dirty[kB]", "mean", 0.3),
    )
    assert cause == WORKLOAD_INTRINSIC


def test_what_moves_at_another_time_does_not_count():
    irq = ((0, RETRANS, "sum_values", 0.5), (0, BYTES, "mean", 0.3))
    assert verdict(*irq, (1, IRQ, "variance", 0.4)) == FAULT_INDUCED
    assert verdict(*irq, (2, IRQ, "variance", 0.4)) == WORKLOAD_INTRINSIC


@pytest.mark.parametrize(("irq", "cause"), [(0.09, WORKLOAD_INTRINSIC), (0.1, FAULT_INDUCED)])
def test_side_effects_need_a_tenth_of_the_evidence(irq, cause):
    assert verdict((0, RETRANS, "sum_values", 0.9 - irq), (0, BYTES, "mean", 0.1), (0, IRQ, "mean", irq)) == cause


@pytest.mark.parametrize(("share", "judged"), [(0.04, False), (0.05, True)])
def test_a_trace_of_retransmissions_is_not_judged(share, judged):
    assert (verdict((0, RETRANS, "sum_values", share), (0, IRQ, "mean", 1 - share)) is not None) == judged


def test_episodes_are_judged_each_by_itself():
    rows = [
        ("run", "h", 0, 0, RETRANS, "sum_values", 1.0),
        ("run", "h", 1, 1, IRQ, "mean", 1.0),
        ("run", "h", 2, 2, RETRANS, "sum_values", 0.5),
        ("run", "h", 2, 2, IRQ, "mean", 0.5),
    ]
    names = ["run_key", "host", "episode", "window", "metric", "feature", "weight"]
    found = judge(pl.DataFrame(rows, schema=names, orient="row"))
    assert found.rows() == [("run", "h", 0, WORKLOAD_INTRINSIC), ("run", "h", 2, FAULT_INDUCED)]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("NetworkTCPRetrans_diff:TcpExtTCPLostRetransmit[count]", "retransmissions"),
        (CONNECTIONS, "churn"),
        ("NetworkProtocolCounts:UNIX[count]", None),
        ("NetworkInterStat_diff:rx_errs.eth0[count]", "link_errors"),
        ("NetworkInterStat_diff:rx_drop.eth0[count]", "traffic"),
        (UTILIZATION, "traffic"),
        ("Interrupts_diff:total[count]", "interrupts"),
        ("Turbostat:Avg_MHz.-[MHz]", "frequency"),
        ("CPU:CPU25Utilization[%]", "busy"),
        ("AverageCPUUtilization[%]", "busy"),
        ("GPU: temperature.gpu.0[C]", None),
        ("Memory:Dirty[kB]", None),
    ],
)
def test_metrics_have_their_class(metric, expected):
    assert metric_class(metric) == expected


def test_the_rule_names_only_classes_and_features_that_there_are():
    house = resources.files("infrascope_core.reports") / "retransmissions.yaml"
    rule = yaml.safe_load(house.read_text(encoding="utf-8"))
    assert set(rule["side_effects"]) < set(rule["classes"])
    assert set(rule["volume_features"]) < set(FEATURES)
