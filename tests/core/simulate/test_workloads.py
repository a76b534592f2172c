"""Workloads: runs of one resemble each other, workloads differ, and values lie where the data set's lie."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from infrascope_core.simulate import Job, columns, known_workloads, simulate_job, task_of
from infrascope_core.simulate.workloads import profile

MODELS = ["DEEPSEEK", "BERTBASE", "BARTLARGE", "Resnet18", "VGG16", "Unheard"]


@lru_cache
def run(platform, model, seed, phase="train", minutes=2.0):
    job = Job(platform, model, task_of(model) or "TextClassification", seed=seed, phase=phase, minutes=minutes)
    times, (host,) = simulate_job(job)
    return {c.metric: np.broadcast_to(host.get(c.metric, 0.0), times.shape) for c in columns(platform)}


@pytest.mark.parametrize("platform", ["gpu", "cpu"])
def test_a_run_is_nearest_to_the_other_run_of_its_workload(platform):
    """Reveal, section 5.4: the runs of a workload follow one median trace; here by each metric's mean and spread."""

    def portrait(readings):
        steady = [values[450:1000] for name, values in readings.items() if not name.startswith("Storage:")]
        return np.array([f(v) for v in steady if not np.isnan(v).any() for f in (np.mean, np.std)])

    ours = np.array([portrait(run(platform, model, 1)) for model in MODELS])
    theirs = np.array([portrait(run(platform, model, 2)) for model in MODELS])
    spread = np.concatenate([ours, theirs]).std(axis=0)
    moving = spread > 1e-9
    gap = np.abs(ours[:, None] - theirs[None])[..., moving] / spread[moving]
    distance = np.median(gap, axis=2)
    assert (distance.argmin(axis=1) == np.arange(len(MODELS))).all()
    assert distance.diagonal().max() < 0.6 * (distance + 9 * np.eye(len(MODELS))).min()


def test_runs_of_one_workload_are_not_copies():
    a, b = run("gpu", "BERTBASE", 1), run("gpu", "BERTBASE", 2)
    assert not np.array_equal(a["GPU: power.draw.0[W]"], b["GPU: power.draw.0[W]"])
    means = [r["GPU: power.draw.0[W]"][450:1000].mean() for r in (a, b)]
    assert means[0] == pytest.approx(means[1], rel=0.1)
    assert means[0] != pytest.approx(means[1], rel=1e-4)


def test_an_unknown_workload_gets_its_own_profile_from_its_name_alone():
    asked = profile("gpu", "Unheard", "TextClassification", "default", "train")
    assert asked == profile("gpu", "Unheard", "TextClassification", "default", "train")
    other = profile("gpu", "Unread", "TextClassification", "default", "train")
    usual = profile("gpu", "BERTBASE", "TextClassification", "default", "train")
    assert asked.period_s != other.period_s
    assert 0.2 < asked.period_s / usual.period_s < 5


def test_every_known_workload_has_profiles_on_both_platforms_and_in_both_phases():
    assert len(known_workloads()) >= 6
    for model, task in known_workloads():
        for platform in ("gpu", "cpu"):
            train, infer = (profile(platform, model, task, "default", phase) for phase in ("train", "infer"))
            assert 0 < train.input_share + train.sync_share < 0.6
            assert infer.period_s < train.period_s
            assert infer.retransmissions_per_s < train.retransmissions_per_s


def quantiles(platform, metric, samples=slice(None)):
    values = np.concatenate([run(platform, model, 1, minutes=4.0)[metric][samples] for model in MODELS])
    return np.quantile(values, [0.33, 0.67])


def test_typical_values_lie_near_those_of_the_data_set():
    """docs/format.md, Typical values: the 0.33 and 0.67 quantiles of a mixed set; a made-up mix comes near."""
    assert quantiles("gpu", "GPU: utilization.gpu.0[%]").tolist() == [100, 100]
    low, high = quantiles("gpu", "GPU: power.draw.0[W]")
    assert 120 < low < high < 240
    low, high = quantiles("gpu", "GPU: temperature.gpu.0[C]")
    assert 50 < low < high < 75
    low, high = quantiles("gpu", "Turbostat:Busy%.-[%]")
    assert 8 < low < 12 < high < 16
    low, high = quantiles("cpu", "Turbostat:Busy%.-[%]")
    assert 50 < low < 70 < high < 80
    assert quantiles("gpu", "Perf:IPC[%]") == pytest.approx([97, 100], abs=4)
    assert quantiles("cpu", "Perf:IPC[-]") == pytest.approx([0.8, 0.9], abs=0.08)
    assert 5 < quantiles("gpu", "Perf:StallRatio[%]")[0] < 11
    assert quantiles("cpu", "NetworkInterStat_diff:rx_bytes.enp1s0f0np0[Bytes]").tolist() == [0, 0]
    assert quantiles("gpu", "NetworkInterStat_diff:rx_bytes.ens1f0[Bytes]")[1] < 3e4
    assert quantiles("gpu", "NetworkInterStat_diff:rx_bytes.ib0[Bytes]")[1] > 1e8


def test_couplings_hold_in_a_healthy_run():
    gpu = run("gpu", "DEEPSEEK", 1, minutes=4.0)
    saving = gpu["Memory:Dirty[kB]"] > 2e5
    assert saving.any()
    load = gpu["GPU: utilization.gpu.0[%]"]
    assert load[saving].mean() < 0.8 * load[~saving].mean()  # the GPU waits for the checkpoint
    power, heat = gpu["GPU: power.draw.0[W]"], gpu["GPU: temperature.gpu.0[C]"]
    first_load, first_heat = np.argmax(power > 150), np.argmax(heat > 60)
    assert 30 < first_heat - first_load  # heat lags power by seconds
    np.testing.assert_allclose(
        gpu["Perf:IPC[%]"], 100 * gpu["Perf:Instructions[count]"] / gpu["Perf:Cycles[count]"], rtol=1e-9
    )
    core = [gpu[f"Turbostat:{metric}.0[%]"] for metric in ("Busy%", "CPU%c1", "CPU%c6")]
    np.testing.assert_allclose(sum(core), 100, atol=1e-3)
    busy = np.array([gpu[f"Turbostat:Busy%.{core}[%]"][450:1000].mean() for core in range(6)])
    assert busy.max() > 1.5 * busy.min()  # the cores share the work unevenly
    total = sum(gpu[f"Turbostat:Busy%.{core}[%]"] for core in range(48))
    np.testing.assert_allclose(gpu["Turbostat:Busy%.-[%]"], total / 48, rtol=1e-5)


def test_checkpoints_build_up_dirty_pages_and_idle_the_gpu():
    gpu = run("gpu", "DEEPSEEK", 1, minutes=4.0)
    start = int(np.argmax(gpu["Memory:Dirty[kB]"] > 1e6))
    assert gpu["GPU: utilization.gpu.0[%]"][start] == 0
    assert gpu["Memory:Dirty[kB]"][start + 300] < 1e5
    written = np.diff(gpu["Storage:sectors_written[count]"])
    assert written[start : start + 100].mean() > 10 * np.median(written)


def test_inference_retransmits_sparsely_and_training_in_bursts():
    """Reveal, section 6: tens per inference run, thousands per fine-tuning run."""
    metric = "NetworkTCPRetrans_diff:TcpRetransSegs[count]"
    train = run("gpu", "DEEPSEEK", 1, minutes=4.0)[metric]
    infer = run("gpu", "DEEPSEEK", 1, phase="infer", minutes=4.0)[metric]
    assert infer.sum() < 0.1 * train.sum()
    assert train.sum() > 100
