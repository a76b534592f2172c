"""What is asked of the simulator: faults in words, jobs, file names, and what cannot be had."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from infrascope_core.errors import SimulationError
from infrascope_core.simulate import FAULTS, Fault, Job, columns, parse_fault
from infrascope_core.simulate.disturbance import culprits


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("memory_leak", Fault("memory_leak", 0.5, 0, None, 0)),
        ("memory_leak:high", Fault("memory_leak", 1.0, 0, None, 0)),
        ("memory_leak:0.35@10-20", Fault("memory_leak", 0.35, 10, 20, 0)),
        ("memory_leak@1:30-2:00.5", Fault("memory_leak", 0.5, 90, 120.5, 0)),
        ("memory_leak:low@1:00:00-1:00:01#2", Fault("memory_leak", 0.2, 3600, 3601, 2)),
    ],
)
def test_a_fault_is_name_intensity_interval_and_host(text, fault):
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory leak", "expected NAME[:INTENSITY][@START-END][#HOST]"),
        ("memory_leak@10", "expected NAME"),
        ("memory_leak:gross", "the intensity 'gross' is neither low, middle, high nor a number from 0 to 1"),
        ("memory_leak@a-b", "the time 'a' is neither seconds nor mm:ss"),
        ("memory_leak@1-2#first", "the host 'first' is no number from 0"),
    ],
)
def test_malformed_fault_text_is_refused(text, message):
    with pytest.raises(SimulationError) as error:
        parse_fault(text)
    assert message in str(error.value)


def faulty(*faults, **job):
    chosen: dict[str, Any] = {"platform": "gpu", "minutes": 2, "faults": faults} | job
    return Job(**chosen)


@pytest.mark.parametrize(
    ("fault", "job", "message"),
    [
        (Fault("gremlins"), {}, "unknown fault 'gremlins'; known are numa_misplacement, single_queue_pair,"),
        (Fault("gpu_straggler"), {"platform": "cpu"}, "gpu_straggler strikes GPU hosts only, and the platform is cpu"),
        (Fault("memory_leak", 0.0), {}, "an intensity of 0 is out of the range"),
        (Fault("memory_leak", 1.5), {}, "an intensity of 1.5 is out of the range"),
        (Fault("memory_leak", float("nan")), {}, "an intensity of nan is out of the range"),
        (Fault("memory_leak", 0.5, 60, 50), {}, "its start 60 s does not lie before its end 50 s"),
        (Fault("memory_leak", 0.5, 60, 300), {}, "from 60 to 300 s does not lie within the run of 119.9 s"),
        (Fault("memory_leak", 0.5, 130), {}, "does not lie within the run"),
        (Fault("memory_leak", 0.5, 60, 60.05), {}, "shorter than that of the samples, 0.1 s"),
        (Fault("memory_leak", 0.5, 10, 20, 1), {}, "there is no host 1 among 1"),
        (Fault("huge_pages_1g", 0.5, 10, 20), {}, "for the whole run; leave out its interval"),
    ],
)
def test_an_impossible_fault_is_refused_in_one_sentence(fault, job, message):
    with pytest.raises(SimulationError) as error:
        faulty(fault, **job)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_fault_cannot_overlap_itself_on_a_host_but_others_and_other_hosts():
    one = Fault("memory_leak", 0.5, 10, 30)
    with pytest.raises(SimulationError, match="overlap"):
        faulty(one, Fault("memory_leak", 0.2, 30, 40))
    faulty(one, Fault("packet_loss", 0.2, 20, 40), Fault("memory_leak", 0.2, 20, 40, host=1), hosts=2)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"platform": "tpu"}, "neither gpu nor cpu"),
        ({"phase": "dream"}, "neither train nor infer"),
        ({"minutes": 0}, "fewer than the 3 samples"),
        ({"minutes": float("nan")}, "fewer than the 3 samples"),
        ({"minutes": float("inf")}, "more than 200,000 samples"),
        ({"interval_s": 0}, "an interval of 0 s is out of the range"),
        ({"hosts": 0}, "0 hosts are out of the range"),
        ({"one_file": True}, "needs at least two hosts"),
        ({"model": "../x"}, "makes no file name"),
        ({"task": "lower"}, "makes no file name"),
    ],
)
def test_an_impossible_job_is_refused(job, message):
    with pytest.raises(SimulationError) as error:
        Job(**{"platform": "gpu"} | job)
    assert message in str(error.value)


def test_files_bear_the_names_of_the_data_set():
    at = datetime(2025, 4, 26, 13, 38, 18)
    job = Job("gpu", "BARTBASE", "TableQuestionAnswering", started_at=at)
    (name,) = job.run_names()
    assert str(job.path(name)) == "train_BARTBASEforTableQuestionAnswering_default_2025-04-26T13-38-18_htc-g003.txt"
    job = Job("cpu", "LLAMA", "TextClassification", phase="infer", started_at=at)
    (name,) = job.run_names()
    stem = "data_LLAMAforTextClassification_default_2025-04-26T13-38-18_nserver01"
    assert str(job.path(name)) == f"infer_separated/{stem}.txt"
    assert (name.phase, name.mode) == ("infer", "llm")


def test_hosts_of_a_job_differ_in_name_and_start_within_a_minute():
    names = Job("cpu", hosts=4, seed=3).run_names()
    assert len({name.host for name in names}) == 4
    starts = [name.started_at for name in names]
    assert (max(starts) - min(starts)).total_seconds() < 60
    assert len({name.workload for name in names}) == 1


def test_jobs_that_differ_get_different_files():
    jobs = [Job("gpu"), Job("gpu", seed=1), Job("gpu", phase="infer"), faulty(Fault("memory_leak"), minutes=5)]
    assert len({job.run_names()[0].run_key for job in jobs}) == 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("platform", ["gpu", "cpu"])
def test_culprits_are_columns_of_the_platform_and_lie_on_what_turbostat_shows(platform, seed):
    job = Job(platform, seed=seed, hosts=2)
    shape = {column.metric for column in columns(platform)}
    visible = {str(core) for core in job.machine.visible} | {"-"}
    for kind in FAULTS.values():
        if platform in kind.platforms:
            for metric in culprits(job, kind.name, host=1):
                assert metric in shape
                if metric.startswith(("Turbostat:Busy", "Turbostat:IRQ")):
                    assert metric.split(".")[1].split("[")[0] in visible


def test_faults_of_the_paper_lie_where_the_paper_finds_them():
    """Reveal, section 6: the subsystem in the heading of each case study."""
    found = {name: FAULTS[name].subsystem["gpu"] for name in list(FAULTS)[:5]}
    assert found == {
        "numa_misplacement": "Memory",
        "single_queue_pair": "Network",
        "irq_imbalance": "CPU",
        "huge_pages_1g": "Memory",
        "packet_loss": "Network",
    }
