"""`infrascope simulate` as a person meets it: files, labels, one sentence for what cannot be had."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.run_files.ingestion import ingest
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.name import labels_path
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.simulate import FAULTS
from infrascope_core.store.lake import Lake

app = build_app()


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_job_on_two_hosts_with_two_faults(tmp_path):
    result = infrascope(
        "simulate", "--platform", "gpu", "--workload", "DEEPSEEK", "--hosts", 2, "--minutes", 0.5, "--seed", 7,
        "--no-twin", "--fault", "packet_loss:high@10-0:20", "--fault", "memory_leak@5-15#1", "--out", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    first, second = sorted(tmp_path.rglob("*.txt"))
    assert first.parent.name == "train_separated"
    run = read_run_file(first)
    assert (run.name.workload, run.samples) == ("DEEPSEEK__TextClassification__default", 300)
    assert read_labels(labels_path(first), "x")["fault"].to_list() == ["packet_loss"]
    assert read_labels(labels_path(second), "x")["fault"].to_list() == ["memory_leak"]


def test_what_is_simulated_can_be_ingested_with_its_labels(tmp_path):
    result = infrascope(
        "simulate", "--platform", "cpu", "--workload", "Unheard__ImageClassification__CIFAR10", "--phase", "infer",
        "--no-twin", "--minutes", 0.3, "--interval", 0.2, "--fault", "noisy_neighbour:0.7@5-9",
        "--out", tmp_path / "runs",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "runs").glob("infer_UnheardforImageClassification_CIFAR10_*.txt")
    ingested = ingest(path.stem, [LocalFile(path)], Lake(tmp_path / "data" / "lake"), ReaderSettings())
    assert ingested.run_file["samples"][0] == 90
    assert ingested.faults["subsystem"].to_list() == ["CPU"]


def test_all_hosts_in_one_file(tmp_path):
    result = infrascope(
        "simulate", "--platform", "cpu", "--hosts", 2, "--one-file", "--minutes", 0.1, "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("*.txt")
    assert read_run_file(path).metrics == 1582


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fault", "gremlins@1-2"), "unknown fault 'gremlins'"),
        (("--fault", "gpu_straggler@1-2"), "strikes GPU hosts only"),
        (("--fault", "memory_leak@4:00-6:00"), "does not lie within the run"),
        (("--fault", "memory_leak@6-5"), "does not lie before its end"),
        (("--workload", "A__B__C__D"), "more than a model, a task and a dataset"),
        (("--workload", "../../x"), "makes no file name"),
        (("--minutes", "0"), "fewer than the 3 samples"),
    ],
)
def test_an_impossible_request_is_refused_in_one_sentence(tmp_path, words, message):
    result = infrascope("simulate", "--platform", "cpu", "--out", tmp_path / "runs", "--minutes", 1, *words)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_help_lists_every_fault():
    page = re.sub(r"\s+", " ", infrascope("simulate", "--help").output)
    for name, kind in FAULTS.items():
        assert f"{name} (gpu)" in page if kind.platforms == ("gpu",) else name in page


@pytest.mark.slow
def test_a_job_with_faults_has_a_healthy_twin_to_be_compared_with(tmp_path):
    words = ["--platform", "cpu", "--minutes", 1.5, "--out", tmp_path / "runs"]
    assert infrascope("simulate", *words, "--fault", "noisy_neighbour:high@0:40-1:10").exit_code == 0
    healthy, faulty = sorted((tmp_path / "runs").rglob("*.faults.csv"), key=lambda path: path.stat().st_size)
    assert len(healthy.read_text().splitlines()) == 1 and "noisy_neighbour" in faulty.read_text()
    result = infrascope("evaluate", tmp_path / "runs")
    assert result.exit_code == 0 and "1 run judged by 1 reference run, 1 fault" in result.output
    # one without faults is one file
    assert infrascope("simulate", *words[:-1], tmp_path / "one").exit_code == 0
    assert len(list((tmp_path / "one").rglob("*.txt"))) == 1
