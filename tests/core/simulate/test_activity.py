"""The job's course: phases, steps, and what slows them down."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.simulate import Job
from infrascope_core.simulate.activity import PHASES, activity, delay, lag, phase_shares, schedule
from infrascope_core.simulate.disturbance import disturb
from infrascope_core.simulate.plan import Draws, Fault
from infrascope_core.simulate.workloads import profile

TIMES = np.arange(3000, dtype=float) * 0.1
ASKED = profile("gpu", "BERTLARGE", "TextClassification", "default", "train")


def course(*faults, host=0, hosts=1):
    job = Job("gpu", "BERTLARGE", hosts=hosts, faults=faults)
    phases = phase_shares(schedule(ASKED, ASKED, job.duration_s), TIMES)
    delays = [delay(disturb(job, h, TIMES), ASKED, np.ones(len(TIMES))) for h in range(hosts)]
    return activity(ASKED, phases, delays, host, dt=0.1, draws=Draws(("test",)))


def test_phases_follow_each_other_and_fill_the_time():
    act = course()
    np.testing.assert_allclose(sum(act.phases.values()), 1, atol=1e-9)
    first = {phase: int(np.argmax(act.phases[phase] > 0.5)) for phase in PHASES}
    order = ["startup", "loading", "warmup", "step", "evaluation", "checkpoint", "ending"]
    assert sorted(first, key=first.__getitem__) == order


def test_a_sample_across_a_boundary_belongs_to_both_phases():
    shares = phase_shares([("startup", 0.25), ("ending", 99.0)], np.array([0.0, 0.1, 0.2, 0.3]))
    np.testing.assert_allclose(shares["startup"], [1, 1, 1, 0.5])
    np.testing.assert_allclose(shares["ending"], [0, 0, 0, 0.5])


def test_a_short_run_has_short_preparations():
    phases = dict(schedule(ASKED, ASKED, 20.0))
    assert phases["warmup"] < 0.35 * 20


def test_a_run_is_whole_epochs_and_ends_with_a_checkpoint():
    plan = [(phase, end) for phase, end in schedule(ASKED, ASKED, 300.0) if end < np.inf]
    lengths = np.diff([end for _, end in plan], prepend=0)
    assert [phase for phase, _ in plan] == ["startup", "loading", "warmup"] + ["step", "evaluation", "checkpoint"] * 3
    steps = lengths[3::3]
    np.testing.assert_allclose(steps, steps[0])
    np.testing.assert_allclose(lengths[5::3], [0, ASKED.checkpoint_s, ASKED.checkpoint_s])


def test_within_the_steps_all_time_is_fetching_computing_or_exchanging():
    act = course()
    np.testing.assert_allclose(act.input + act.compute + act.sync, act.working, atol=1e-6)
    steady = act.phases["step"] == 1
    assert act.sync[steady].mean() == pytest.approx(ASKED.sync_share, rel=0.05)
    assert act.input[steady].mean() == pytest.approx(ASKED.input_share, rel=0.05)


def test_steps_recur_with_the_period_of_the_workload():
    sync = course().sync[400:900]
    spectrum = np.abs(np.fft.rfft(sync - sync.mean()))
    period_s = len(sync) * 0.1 / np.argmax(spectrum)
    assert period_s == pytest.approx(ASKED.period_s, rel=0.06)


def test_a_slow_host_makes_the_others_wait_at_the_exchange():
    fault = Fault("gpu_straggler", 1.0, 50, 100, host=1)
    inside = slice(520, 980)
    waiting = course(fault, host=0, hosts=2)
    healthy = course(hosts=2)
    assert waiting.sync[inside].mean() > 2 * healthy.sync[inside].mean()
    assert waiting.compute[inside].mean() < healthy.compute[inside].mean()
    assert waiting.exchange[inside].mean() < healthy.exchange[inside].mean()  # fewer steps, the same data in each


def test_hosts_whose_job_hangs_wait():
    waiting = course(Fault("gpu_held_idle", 1.0, 50, 100, host=1), host=0, hosts=2)
    np.testing.assert_allclose(waiting.sync[520:950], 1, atol=1e-9)
    assert waiting.exchange[520:950].max() == 0


def test_a_lag_covers_63_percent_of_a_step_in_its_time_constant():
    answer = lag(np.r_[0.0, np.ones(100)], tau_s=2.0, dt=0.1)
    assert answer[0] == 0
    assert answer[20] == pytest.approx(1 - np.exp(-1), rel=1e-9)
