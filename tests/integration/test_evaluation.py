"""`infrascope evaluate` on whole files, through the real graph; the suite's plan and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.evaluation import simulated
from benchmarks.evaluation.__main__ import SUITE
from infrascope_core.cli import build_app
from infrascope_core.evaluation.data_set import DataSet, Reference, evaluate
from infrascope_core.evaluation.judged_run import OURS
from infrascope_core.run_files.name import labels_path
from infrascope_core.settings import Settings
from infrascope_core.simulate import FAULTS
from tests.runs import write_run

app = build_app()
HEADER = "start,end,fault,subsystem,metrics\n"
BUSY = "AverageCPUUtilization[%]"
PLAN = yaml.safe_load(SUITE.read_text())["simulated"]


def label(path: Path, *rows: str) -> Path:
    labels_path(path).write_text(HEADER + "".join(row + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> Path:
    """Four healthy runs, one with a burst of processor use from 20 s to 30 s, and two with unusable labels."""
    folder = tmp_path_factory.mktemp("labelled")
    for second in (1, 2, 3, 4):
        label(write_run(folder, second))
    burst = f"2026-11-01 10:00:25.000,2026-11-01 10:00:34.900,burst,CPU,{BUSY}"
    label(write_run(folder, 5, burst=(200, 300)), burst)
    label(write_run(folder, 6), "2026-11-01 11:00:00.000,2026-11-01 11:00:01.000,late,CPU,")
    write_run(folder, 7)
    return folder


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def evaluated(labelled, tmp_path_factory):
    """The output of the command on them, and its file of figures."""
    figures = tmp_path_factory.mktemp("evaluated") / "figures.json"
    return infrascope("evaluate", labelled, "--json", figures), figures


def test_a_labelled_folder_is_judged_by_its_earlier_healthy_runs(evaluated):
    result, figures = evaluated
    assert result.exit_code == 0, result.output
    message = result.output.replace("\n", " ")
    assert "3 runs judged by 2 reference runs, 1 fault," in message
    assert "lies outside the run" in message
    assert "has no labels; expected" in message
    content = json.loads(figures.read_text())
    (data_set,) = content["data_sets"].values()
    assert [run["healthy"] for run in data_set["runs"]] == [True, True, False]
    # the burst lifts the mean by twenty standard deviations: whatever tells windows apart must see it
    areas = {row["method"]: row["roc_auc"] for row in data_set["separation"] if row["fault"] == "burst"}
    assert areas["zscore"] > 0.9
    assert areas["pca_reconstruction (raw)"] > 0.9
    assert {row["figure"] for row in content["figures"]} >= {"roc_auc", "average_precision", "vus_pr"}


@pytest.mark.parametrize("mode", ["others", "alone"])
def test_runs_can_be_judged_as_if_nobody_knew_of_a_healthy_one(labelled, tmp_path, mode):
    data_set = DataSet(name="blind", paths=(labelled,), reference=Reference(mode=mode))
    result = evaluate([data_set], tmp_path, Settings())
    judged = result.judgements["blind"]
    assert result.splits["blind"].reference == ()
    assert judged.runs.height == 5  # the two with unusable labels are left out
    assert set(judged.separation["method"]) == set(OURS)  # peers have nothing to learn from
    assert [path.name for path, _ in judged.problems] != []
    (fault,) = judged.events.to_dicts()
    assert fault["detected"] is (mode == "others")  # ten of forty seconds are too much for a run alone


def test_the_hosts_of_a_job_are_judged_by_each_other(tmp_path):
    """A job of four hosts, the second of which has a burst, another of three that are well, and a host by itself."""
    burst = f"2026-11-01 10:00:25.000,2026-11-01 10:00:34.900,burst,CPU,{BUSY}"
    for second, host in ((4, "h1"), (5, "h2"), (6, "h3"), (7, "h4")):
        path = write_run(tmp_path / "middle", second, host=host, burst=(200, 300) if second == 5 else None)
        label(path, *([burst] if second == 5 else []))
    for second, host in ((24, "h1"), (25, "h2"), (26, "h3")):
        label(write_run(tmp_path / "healthy", second, host=host, model="SGD"))
    label(write_run(tmp_path / "healthy", 40, host="h1", model="OTHER"))
    paths = (tmp_path / "middle", tmp_path / "healthy")
    data_set = DataSet(name="jobs", paths=paths, reference=Reference(mode="job"))
    judged = evaluate([data_set], tmp_path / "data", Settings()).judgements["jobs"]
    assert judged.runs.height == 7
    assert judged.runs["false_episodes"].to_list() == [0] * 7
    assert judged.notes == ("1 runs are left out, because no other host ran their job",)
    (fault,) = judged.events.to_dicts()
    assert fault["detected"] and fault["host_first"]


def test_the_same_runs_give_the_same_figures(labelled, evaluated, tmp_path):
    assert infrascope("evaluate", labelled, "--json", tmp_path / "again").exit_code == 0
    assert (tmp_path / "again").read_bytes() == evaluated[1].read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere: no such file or folder"),
        ((".", "--reference", "a", "--reference-phase", "train"), "cannot be used together"),
        ((".", "--json", "no/such/figures.json"), "its folder does not exist"),
        ((".",), "no run can be judged"),
        ((".", "../empty"), "is a data set of the same name"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_one_sentence(tmp_path, monkeypatch, words, message):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    result = infrascope("evaluate", *words)
    assert result.exit_code == 1
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_runs_with_only_bad_labels_are_reported(tmp_path):
    path = write_run(tmp_path / "runs", 1)
    result = infrascope("evaluate", tmp_path / "runs")
    assert result.exit_code == 1
    assert f"expected {labels_path(path).name} beside it" in result.output.replace("\n", "")


def test_the_suite_covers_every_fault_at_every_intensity_on_every_platform_and_workload():
    runs = list(simulated.planned(PLAN, "evaluation"))
    seen = {
        (run.job.workload, run.job.platform, fault.name, Path(run.folder).name)
        for run in runs
        if run.truthful
        for fault in run.job.faults
    }
    expected = {
        (f"{w['model']}__{w['task']}__{w.get('dataset', 'default')}", platform, kind.name, level)
        for w in PLAN["workloads"]
        for platform in ("gpu", "cpu")
        for kind in FAULTS.values()
        if platform in kind.platforms
        for level in PLAN["intensities"]
    }
    assert seen == expected
    assert len(PLAN["workloads"]) >= 5
    assert len({fault for _, _, fault, _ in seen}) >= 12
    assert len(PLAN["intensities"]) == 3


def test_the_parts_of_the_simulated_set_are_the_intensities_and_the_healthy_runs():
    (whole,) = (entry for entry in yaml.safe_load(SUITE.read_text())["data_sets"] if entry["name"] == PLAN["name"])
    (judged,) = whole["paths"]
    folders = {Path(run.folder) for run in simulated.planned(PLAN, "evaluation")}
    parts = {str(folder.relative_to(judged)) for folder in folders if folder.is_relative_to(judged)}
    assert parts == {*PLAN["intensities"], "healthy", "more-healthy"}


def test_no_run_of_the_evaluation_shares_a_seed_with_development():
    seeds = {kind: [run.job.seed for run in simulated.planned(PLAN, kind)] for kind in ("development", "evaluation")}
    assert len(set(seeds["evaluation"])) == len(seeds["evaluation"])
    assert not set(seeds["evaluation"]) & set(seeds["development"])


def test_every_simulated_fault_leaves_healthy_time_around_it():
    for run in simulated.planned(PLAN, "evaluation"):
        passing = [fault for fault in run.job.faults if not FAULTS[fault.name].whole_run]
        times = [0.0, *(t for fault in passing for t in (fault.start_s, fault.end_s)), run.job.duration_s]
        gaps = [end - start for start, end in zip(times[::2], times[1::2], strict=True)]
        assert min(gaps) >= 25


@pytest.mark.slow
def test_the_page_is_the_same_each_time(tmp_path):
    from benchmarks.evaluation.__main__ import main

    for name in ("once", "twice"):
        assert main(["--only", "sample", "--docs", str(tmp_path / name)]) == 0
    files = sorted(path.relative_to(tmp_path / "once") for path in (tmp_path / "once").rglob("*.*"))
    assert [str(file) for file in files] == ["evaluation/average_precision.svg", "evaluation.md"]
    for file in files:
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()
