"""`infrascope compare` on the sample: keys, patterns and folders, and what is refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from infrascope_core.cli.app import build_app
from infrascope_core.run_files.runs import accepted


def ask(*words: str):
    return CliRunner().invoke(build_app(), ["compare", *words])


def test_workloads_of_the_sample_differ_in_length(sample):
    answer = ask("train_MLP*", "--with", "train_HGB*", "--data", str(sample.root))
    assert answer.exit_code == 0
    first, *rest = answer.stdout.splitlines()
    assert first.startswith("The run is 3.74% shorter [2.7%, 4.2%].")
    assert any("The workloads differ" in line for line in rest)
    assert any(line.split()[:2] == ["run", "time"] for line in rest)


def test_all_figures_as_json(sample):
    keys = accepted(sample)["run_key"].sort().to_list()
    answer = ask(keys[0], "--with", keys[1], "--json", "--data", str(sample.root))
    found = json.loads(answer.stdout)
    assert found["judged"] is False
    assert {change["figure"]["name"] for change in found["changes"]} >= {"run time", "anomalous time", "page faults"}


def test_a_folder_of_run_files_stands_for_its_runs(sample, tmp_path):
    first, second, *_ = accepted(sample)["run_key"].sort().to_list()
    for side, key in (("before", first), ("after", second)):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{key}.txt.gz").touch()
    answer = ask(str(tmp_path / "before"), "--with", str(tmp_path / "after"), "--data", str(sample.root))
    assert answer.exit_code == 0
    assert "too few runs for a verdict" in answer.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nobody*", "--with", "train*"), "nobody*: no accepted run is named so"),
        (("train*", "--with", "train_MLP*"), "a run cannot be before and after the change"),
    ],
)
def test_what_cannot_be_compared_gets_one_sentence(sample, words, sentence):
    answer = ask(*words, "--data", str(sample.root))
    assert answer.exit_code == 1
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr
