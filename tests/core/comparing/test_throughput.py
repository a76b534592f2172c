"""Work per second, by hand; and which metrics tell it, and which do not."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from infrascope_core.comparing.throughput import telling_metrics, throughputs
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import PLATFORMS, TELEMETRY
from infrascope_core.simulate.columns import columns


def host(*values: tuple[float | None, ...], names: tuple[str, ...], seconds: float = 1.0) -> pl.DataFrame:
    """Telemetry of a host: a row a sample, so many seconds apart."""
    start = datetime(2026, 1, 1)
    times = [start + timedelta(seconds=seconds * i) for i in range(len(values))]
    return pl.DataFrame(values, schema=dict.fromkeys(names, pl.Float64), orient="row").with_columns(ts=pl.Series(times))


@pytest.mark.parametrize(
    ("metric", "work"),
    [
        ("Trainer:train_samples_per_second[1/s]", "samples"),
        ("train_samples_per_second[1/s]", "samples"),
        ("Lightning:device/batches_per_sec[1/s]", "steps"),
        ("vllm:generation_tokens_total[count]", "tokens"),
        ("vllm:request_success_total[count]", "requests"),
        ("Triton:nv_inference_count.0[count]", "inferences"),
        ("Job:IMAGES_PER_S[1/s]", "samples"),
    ],
)
def test_metrics_of_trainers_and_servers_tell_throughput(metric, work):
    assert list(telling_metrics([metric])) == [work]


@pytest.mark.parametrize(
    "metric",
    [
        "Trainer:eval_samples_per_second[1/s]", "vllm:prompt_tokens_total[count]", "Perf:Instructions[count]",
        "Storage_diff:reads_completed[count]", "NetworkInterStat_diff:rx_bytes.eth0[Bytes]",
        "GPU: encoder.stats.averageFps.0[fps]", "Diskstats:flush_requests_completed[count]",
    ],
)  # fmt: skip
def test_others_do_not(metric):
    assert telling_metrics([metric]) == {}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_column_of_hardware_does(platform):
    names = [column.metric for column in columns(platform)]
    assert len(names) > 700
    assert telling_metrics(names) == {}


def test_no_column_that_is_recorded_does(sample):
    names = {name for key in accepted(sample)["run_key"] for name in sample.lake.columns(TELEMETRY, key)}
    assert len(names) > 100
    assert telling_metrics(sorted(names)) == {}


def test_a_counter_that_began_again_goes_on_from_0():
    """40 from 100 to 140, then 30 since it began again: 70 in 3 s."""
    part = host((100,), (140,), (10,), (30,), names=("Job:tokens_total[count]",))
    assert dict(throughputs([part])) == {"tokens": pytest.approx(70 / 3)}


def test_of_differences_the_first_is_of_the_time_before_the_run():
    part = host((500,), (10,), (20,), names=("Job_diff:tokens_total[count]",), seconds=0.5)
    assert dict(throughputs([part])) == {"tokens": pytest.approx(30.0)}


def test_a_rate_is_its_mean_where_it_is_known_over_hosts_and_devices():
    names = ("Job:samples_per_second.0[1/s]", "Job:samples_per_second.1[1/s]")
    hosts = [host((10, 1), (None, 3), (20, float("inf")), names=names), host((5, None), names=names)]
    assert dict(throughputs(hosts)) == {"samples": pytest.approx(15 + 2 + 5)}


def test_the_first_pattern_decides():
    part = host((10, 0), (10, 90), names=("Job:tokens_per_second[1/s]", "Job:tokens_total[count]"))
    assert dict(throughputs([part])) == {"tokens": 10.0}


def test_what_has_no_value_or_no_duration_is_left_out():
    names = ("Job:tokens_total[count]", "Job:samples_per_second[1/s]")
    assert dict(throughputs([host((5, None), (None, None), names=names)])) == {}
    assert dict(throughputs([host((5, None), names=names)])) == {}
