"""The figures of a run, from tables that are written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
import yaml

from infrascope_core.comparing.figures import ANOMALOUS, RUN, SHARE, TIME, Figure, RunFigures, by_job, figures_of
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.runs import accepted, healthy_runs
from infrascope_core.store.folder import DataFolder
from tests.core.handmade import START, HandMade
from tests.runs import write_run


def fill(handmade: HandMade, key: str = "r", samples: int = 100, **run) -> None:
    """A run of 10 s without anything but its length."""
    handmade.run(key, samples=samples, **run)
    for table in ("anomaly_scores", "anomaly_reasons", "group_windows", "quality_metrics"):
        handmade.put(table, key)


def values(handmade: HandMade, key: str = "r") -> dict[str, float]:
    (found,) = figures_of(handmade.folder, [key])
    return {figure.name: value for figure, value in found.values.items()}


def judge(handmade: HandMade, alarms: str, reasons: list[dict]) -> None:
    """A window a letter: x is an alarm, - is none, ? was not judged."""
    told = {"x": True, "-": False, "?": None}
    rows = ({"host": "h", "window": i, "anomalous": told[a], "baseline_version": "v"} for i, a in enumerate(alarms))
    handmade.put("anomaly_scores", "r", *rows)
    handmade.put("anomaly_reasons", "r", *({"host": "h", **reason} for reason in reasons))


def test_run_time_is_samples_times_interval(handmade):
    fill(handmade)
    assert values(handmade) == {"run time": 10.0}


def test_a_run_of_unknown_interval_has_no_run_time(handmade):
    fill(handmade, interval_s=None)
    assert values(handmade) == {}


def test_anomalous_time_by_subsystem_and_by_family_of_the_first_reason(handmade):
    fill(handmade)
    cpu = {"subsystem": "CPU", "subsystem_share": 0.7, "rank": 1}
    judge(
        handmade,
        "xx-?x",
        [
            {"window": 0, "metric": "Turbostat:Busy%.1[%]", **cpu},
            {"window": 0, "metric": "m", "subsystem": "Memory", "subsystem_share": 0.3, "rank": 2},
            {"window": 1, "metric": "Turbostat:Busy%.7[%]", **cpu},
            # the first reason is of one subsystem, most of the evidence on another
            {"window": 4, "metric": "m", "subsystem": "Memory", "subsystem_share": 0.4, "rank": 1},
            {"window": 4, "metric": "d", "subsystem": "Storage", "subsystem_share": 0.6, "rank": 2},
        ],
    )
    found = values(handmade)
    assert found["anomalous time"] == 0.75
    shares = {name.removeprefix("anomalous time, "): v for name, v in found.items() if ", " in name and v}
    assert shares == {"CPU": 0.5, "Storage": 0.25, "Turbostat:Busy%.#[%]": 0.5, "m": 0.25}
    assert found["anomalous time, GPU"] == 0.0


def test_a_run_that_was_not_judged_has_no_anomalous_time(handmade):
    fill(handmade)
    judge(handmade, "??", [])
    assert values(handmade) == {"run time": 10.0}
    (found,) = figures_of(handmade.folder, ["r"])
    assert not found.judged


def power(handmade: HandMade, **groups: dict[str, list[float]]) -> None:
    rows = [
        {"host": host, "window": i, "metric_group": group, "value": value}
        for group, hosts in groups.items()
        for host, series in hosts.items()
        for i, value in enumerate(series)
    ]
    handmade.put("group_windows", "r", *rows)


def test_energy_is_mean_power_of_all_hosts_times_the_length(handmade):
    fill(handmade)
    power(handmade, GPU_power={"h1": [100.0, 300.0], "h2": [50.0]}, CPU_power={"h1": [40.0]}, GPU_temp={"h1": [60.0]})
    assert values(handmade)["energy (GPU power and CPU power)"] == (200 + 50 + 40) * 10


def test_a_recipe_that_does_not_sum_power_gives_no_energy(handmade):
    """The notebook's recipe takes the median over GPUs: not what all of them draw."""
    handmade.folder = replace(
        handmade.folder, settings=handmade.folder.settings.model_copy(update={"recipe": "infrascope"})
    )
    fill(handmade)
    power(handmade, GPU_power={"h1": [100.0]})
    assert not any(name.startswith("energy") for name in values(handmade))


def test_power_is_what_the_recipe_says(handmade, tmp_path):
    """A group of a user's own, by its unit and reducer alone."""
    group = {"name": "Rack", "unit": "W", "subsystem": "Other", "patterns": ["x"], "over_metrics": "sum"}
    recipe = {
        "name": "own", "names": "metric", "constancy": "pooled_cv", "near_constant": 0, "method": "terciles",
        "population": "windows", "quantiles": [0.3, 0.6], "groups": [group],
    }  # fmt: skip
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(recipe))))
    settings = handmade.folder.settings.model_copy(update={"recipe": str(file)})
    handmade.folder = replace(handmade.folder, settings=settings)
    fill(handmade)
    power(handmade, Rack={"h1": [500.0]}, GPU_power={"h1": [100.0]})
    assert values(handmade)["energy (Rack)"] == 5000.0


def test_levels_are_medians_in_the_words_of_the_recipe(handmade):
    fill(handmade)
    power(handmade, CPU_busy={"h1": [1.0, 2.0, 90.0]}, unknown={"h1": [7.0]}, IO_wait={"h1": [float("inf")]})
    (found,) = figures_of(handmade.folder, ["r"])
    levels = {figure: value for figure, value in found.values.items() if figure.kind == "level"}
    assert levels == {Figure("CPU utilization", "%", "level"): 2.0, Figure("unknown", "", "level"): 7.0}


def test_throughput_is_read_off_the_telemetry(handmade):
    fill(handmade)
    times = [START + timedelta(seconds=i) for i in range(3)]
    telemetry = {"run_key": "r", "host": "h", "sample": [0, 1, 2], "ts": times, "Job:tokens_total[count]": [0, 10, 40]}
    handmade.folder.lake.write(pl.DataFrame(telemetry), "telemetry", "r", "1")
    (found,) = figures_of(handmade.folder, ["r"])
    assert found.values[Figure("throughput, tokens", "tokens/s", "run")] == 20.0


@pytest.mark.parametrize(
    ("metric", "hosts", "steady"),
    [
        ("Memory:HugePages_Total[count]", {"h1": (8, 8), "h2": (8, 8)}, {"Memory:HugePages_Total[count]": 8.0}),
        ("Memory:HugePages_Total[count]", {"h1": (8, 8), "h2": (9, 9)}, {}),
        ("Memory:Cached[kB]", {"h1": (8, 9)}, {}),
        ("Vmstat:oom_kill[count]", {"h1": (3, 3)}, {}),  # a counter that stood still says nothing of a setting
        ("NetworkTCPRetrans_diff:x[count]", {"h1": (0, 0)}, {}),
        ("interval[s]", {"h1": (0.1, 0.1)}, {}),
        ("Memory:gone[kB]", {"h1": (None, None)}, {}),
    ],
)
def test_what_never_moves_and_is_no_counter_is_steady(handmade, metric, hosts, steady):
    fill(handmade)
    rows = ({"host": h, "metric": metric, "samples": 9, "min": low, "max": top} for h, (low, top) in hosts.items())
    handmade.put("quality_metrics", "r", *rows)
    (found,) = figures_of(handmade.folder, ["r"])
    assert found.steady == steady


def test_runs_that_normal_was_learnt_from_are_references(sample):
    found = figures_of(sample, accepted(sample)["run_key"])
    assert {run.run_key for run in found if run.reference} == healthy_runs(sample)


def test_a_run_whose_baseline_is_gone_is_no_reference(handmade):
    fill(handmade)
    judge(handmade, "x-", [])
    (found,) = figures_of(handmade.folder, ["r"])
    assert (found.judged, found.baseline, found.reference) == (True, "v", False)


def test_figures_are_taken_anew_when_a_table_changes(handmade):
    fill(handmade)
    power(handmade, CPU_busy={"h1": [1.0]})
    assert values(handmade)["CPU utilization"] == 1.0
    power(handmade, CPU_busy={"h1": [2.0]})
    assert values(handmade)["CPU utilization"] == 2.0


def host(key: str, job: str, **changed) -> RunFigures:
    """A host of a job."""
    usual: dict[str, Any] = {
        "workload": "W", "host": f"h{key}", "interval_s": 0.1, "baseline": "v", "values": {Figure(TIME, "s", RUN): 1.0},
        "job": job,
    }  # fmt: skip
    return RunFigures(run_key=key, **(usual | changed))


def test_hosts_of_one_job_are_one_run():
    share, energy, time = Figure(ANOMALOUS, SHARE, RUN), Figure("energy (GPU power)", "J", RUN), Figure(TIME, "s", RUN)
    first = host("a", "a", values={time: 10.0, share: 0.2, energy: 5.0}, steady={"x": 1.0, "y": 2.0})
    second = host("b", "a", values={time: 11.0, share: 0.4, energy: 7.0}, steady={"x": 1.0, "y": 3.0}, reference=True)
    (job,) = by_job([second, first])
    assert job.values == {time: 11.0, share: pytest.approx(0.3), energy: 12.0}
    assert (job.host, job.baseline, job.steady, job.reference) == ("ha, hb", "v", {"x": 1.0}, True)


def test_runs_of_other_jobs_stay_apart():
    assert [run.run_key for run in by_job([host("b", "b"), host("a", "a"), host("c", "")])] == ["a", "b", "c"]


def test_which_runs_are_one_job_no_other_run_has_a_say_in(tmp_path):
    """The first host of a job is not among those that are compared."""
    keys = [write_run(tmp_path / "runs", second, host=f"h{second}").stem for second in (1, 2, 3)]
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    assert [run.job for run in figures_of(folder, keys)] == [keys[0]] * 3
    assert [run.job for run in figures_of(folder, keys[1:])] == [keys[1]] * 2


def test_a_run_takes_as_long_as_the_clock_says_samples_lost_or_not(tmp_path):
    write_run(tmp_path / "runs", 1, samples=600)
    lost = write_run(tmp_path / "runs", 2, samples=600)
    of_lost = lost.read_text().splitlines()
    lost.write_text("\n".join([*of_lost[:200], *of_lost[400:]]) + "\n")
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    found = figures_of(folder.fresh(), accepted(folder.fresh())["run_key"])
    times = [run.values[Figure(TIME, "s", RUN)] for run in found]
    assert times == [pytest.approx(60.0), pytest.approx(60.0)]
