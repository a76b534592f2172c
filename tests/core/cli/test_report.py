"""`infrascope report`: the forms of a report, runs by a prefix of their name, and refusals in one sentence."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from infrascope_core.cli.report import report
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.products import report_files
from infrascope_core.reports.rendering import as_text
from infrascope_core.store.folder import DataFolder
from tests.core.handmade import CALM, KEY, fill_with_two_runs, make_reports


@pytest.fixture
def folder(handmade) -> DataFolder:
    folder = fill_with_two_runs(handmade)
    make_reports(folder)
    return folder


def call(folder: DataFolder, *arguments: str):
    app = typer.Typer()
    app.command()(report)
    return CliRunner().invoke(app, [*arguments, "--data", str(folder.root)])


def stored(folder: DataFolder) -> tuple[str, str]:
    markdown, as_json = (file.read_text() for file in report_files(folder, KEY))
    return markdown, as_json


def test_a_pipe_gets_plain_text_without_backslashes(folder):
    result = call(folder, KEY)
    assert result.stdout == as_text(RunReport.model_validate_json(stored(folder)[1]))
    assert result.stdout.startswith(f"{KEY}\n  Anomalous. 1 of 20 windows is anomalous, in one episode;")
    assert "\\" not in result.stdout
    both = call(folder, "--all").stdout
    assert both.startswith(result.stdout + f"\n\n{CALM}\n  Normal. ")


def test_markdown_and_json_are_the_bytes_of_the_stored_reports(folder):
    markdown, as_json = stored(folder)
    assert call(folder, KEY, "--format", "markdown").stdout == markdown
    assert call(folder, KEY, "--json").stdout == call(folder, KEY, "--format", "json").stdout == as_json
    assert [r["run_key"] for r in json.loads(call(folder, "--all", "--json").stdout)] == [KEY, CALM]
    assert call(folder, "--all", "--format", "markdown").stdout.startswith(markdown + "\n---\n\n# train")


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("r.md", [], 0),
        ("r.MD", [], 0),
        ("r.json", [], 1),
        ("r.txt", [], None),
        ("r", [], None),
        ("r.txt", ["--format", "markdown"], 0),
        ("r.md", ["--json"], 1),
    ],
)
def test_a_file_gets_the_form_of_its_ending(folder, tmp_path, name, options, expected):
    result = call(folder, KEY, "--out", str(tmp_path / name), *options)
    assert (result.exit_code, result.output) == (0, "")
    text = call(folder, KEY).stdout if expected is None else stored(folder)[expected]
    assert (tmp_path / name).read_text() == text


def test_a_file_that_cannot_be_written_is_named(folder, tmp_path):
    result = call(folder, KEY, "--out", str(tmp_path / "nowhere" / "r.md"))
    assert result.exit_code == 1
    assert result.stderr == f"infrascope: {tmp_path}/nowhere/r.md: its folder does not exist\n"


def test_a_terminal_gets_wrapped_lines_and_full_names(folder):
    name = "x" * 100
    text = as_text(RunReport.model_validate_json(stored(folder)[1]).model_copy(update={"workload": name}), 60)
    assert [line for line in text.splitlines() if len(line) > 60] == [f"  {name}"]
    assert len(as_text(RunReport.model_validate_json(stored(folder)[1]), 60).splitlines()) > len(
        call(folder, KEY).stdout.splitlines()
    )


@pytest.mark.parametrize("spoil", [lambda file: file.unlink(), lambda file: file.write_text("{}")])
def test_a_report_that_is_gone_or_outdated_is_made_again(folder, spoil):
    before, text = stored(folder), call(folder, KEY).stdout
    spoil(report_files(folder, KEY)[1])
    assert call(folder, KEY).stdout == text
    assert stored(folder) == before


def test_a_deleted_markdown_is_made_again(folder):
    markdown, _ = stored(folder)
    report_files(folder, KEY)[0].unlink()
    assert call(folder, KEY, "--format", "markdown").stdout == markdown
    assert report_files(folder, KEY)[0].is_file()


def test_a_unique_prefix_is_enough(folder):
    assert call(folder, KEY[:-6]).stdout == call(folder, KEY).stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name one run, or give --all"),
        ([KEY, "--all"], "name one run, or give --all"),
        (["nothing"], "nothing: there is no report on a run of that name"),
        ([KEY + "x"], f"{KEY}x: there is no report on a run of that name; did you mean {KEY}?"),
        (["train_MLP"], f"train_MLP: 2 runs begin with that: {KEY}, {CALM}"),
        ([""], ": there is no report on a run of that name"),
        (["../x\x1b[31m"], "../x\N{REPLACEMENT CHARACTER}[31m: there is no report on a run of that name"),
    ],
)
def test_the_command_refuses_in_one_sentence(folder, arguments, sentence):
    result = call(folder, *arguments)
    assert result.exit_code == 1
    assert result.stderr == f"infrascope: {sentence}\n"


def test_many_runs_of_a_prefix_are_capped(folder):
    file = folder.lake.path("anomaly_report", KEY)
    for number in range(8):
        file.with_name(f"zzz{number}.parquet").write_bytes(file.read_bytes())
    assert call(folder, "zzz").stderr == (
        "infrascope: zzz: 8 runs begin with that: zzz0, zzz1, zzz2, zzz3, zzz4 and 3 more\n"
    )
