"""`infrascope compare` on the sample: keys, patterns and folders, and what is refused."""

from __future__ import annotations

import json

import duckdb
import pytest
from typer.testing import CliRunner

from infrascope_core.cli.app import build_app
from infrascope_core.run_files.runs import accepted
from tests.core.comparing.test_figures import fill
from tests.core.comparing.test_products import KEYS, write
from tests.runs import write_run


def ask(*words: str):
    return CliRunner().invoke(build_app(), ["compare", *words])


def test_workloads_of_the_sample_get_no_verdict(sample):
    answer = ask("train_MLP*", "--with", "train_HGB*", "--data", str(sample.root))
    assert answer.exit_code == 0
    first, *rest = answer.stdout.splitlines()
    assert first.startswith(
        "The runs are of different workloads, so there is no verdict: run time 48.1 s before, 46.3 s"
    )
    assert any("The workloads differ" in line for line in rest)
    assert any(line.split()[:2] == ["run", "time"] for line in rest)


def test_all_figures_as_json(sample):
    keys = accepted(sample)["run_key"].sort().to_list()
    answer = ask(keys[0], "--with", keys[1], "--json", "--data", str(sample.root))
    found = json.loads(answer.stdout)
    assert found["judged"] is False
    assert {change["figure"]["name"] for change in found["changes"]} >= {"run time", "anomalous time", "page faults"}


def test_runs_that_share_no_figure_end_in_a_sentence(tmp_path, handmade):
    """Two runs of which nothing is known but their names."""
    for key in ("r1", "r2"):
        fill(handmade, key, interval_s=None)
    handmade.folder.remember_settings()
    answer = ask("r1", "--with", "r2", "--data", str(handmade.folder.root))
    assert answer.exit_code == 0, answer.output
    first, second, *_ = answer.stdout.splitlines()
    assert first == "Neither run time nor anomalous time is known on both sides."
    assert second.startswith("- 1 run before and 1 after:")
    assert "figure " not in answer.stdout


def test_numbers_have_their_nouns(sample):
    first, second, *_ = accepted(sample)["run_key"].to_list()
    answer = ask(first, "--with", second, "--data", str(sample.root))
    assert "\n1 run before, 1 after; medians over runs, 95 % intervals" in answer.stdout
    assert "1 runs" not in answer.stdout


def test_a_page_is_written_where_it_is_asked_for(sample, tmp_path):
    file = tmp_path / "page.html"
    answer = ask("train_MLP*", "--with", "train_HGB*", "--page", str(file), "--data", str(sample.root))
    assert answer.exit_code == 0
    first, *_, last = answer.stdout.splitlines()
    assert last == str(file)
    assert f"<h1>{first}</h1>" in file.read_text()


def test_a_page_is_opened_in_the_browser(sample, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)  # type: ignore[func-returns-value]
    file = tmp_path / "page.html"
    answer = ask("train_MLP*", "--with", "train_HGB*", "--page", str(file), "--open", "--json",
                 "--data", str(sample.root))  # fmt: skip
    assert opened == [file.absolute().as_uri()]
    assert json.loads(answer.stdout)["outcome"] == "not_judged"
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    answer = ask("train_MLP*", "--with", "train_HGB*", "--page", str(file), "--open", "--data", str(sample.root))
    assert answer.exit_code == 1
    assert "no browser could be opened" in answer.stderr


def test_a_comparison_that_the_settings_declare_goes_by_its_name(handmade):
    folder = write(handmade, KEYS)
    folder.remember_settings()
    answer = ask("faster", "--data", str(folder.root))
    assert answer.stdout.startswith("The run is 19.61% shorter [16.7%, 22.5%].\n")
    answer = ask("slower", "--data", str(folder.root))
    assert answer.exit_code == 1
    assert "expected the runs after the change, as --with RUN" in answer.stderr
    assert "declare (faster, later)" in " ".join(answer.stderr.split())


def test_declared_comparisons_are_made_with_everything_else(tmp_path):
    """From a settings file to the warehouse, the page and the index; one run on each side, and one that is to come."""
    for second in (1, 2):
        write_run(tmp_path / "runs", second, samples=100 * second)
    settings = tmp_path / "settings.yaml"
    declared = "{name: fix, before: ['*-01_h1'], after: ['*-02_h1']}, {name: next, before: ['*-02_h1'], after: [later]}"
    settings.write_text(f"comparisons: {{declared: [{declared}]}}")
    data = tmp_path / "data"
    words = ["run", str(tmp_path / "runs"), "--settings", str(settings), "--data", str(data)]
    answer = CliRunner().invoke(build_app(), words)
    assert answer.exit_code == 0, answer.output
    with duckdb.connect(str(data / "warehouse.duckdb"), read_only=True) as con:
        verdicts = con.execute(
            "SELECT comparison, outcome, runs_before, runs_after, page FROM comparison_page"
        ).fetchall()
        times = con.execute('SELECT "before", "after" FROM run_comparisons WHERE figure = \'run time\'').fetchall()
    assert verdicts == [
        ("fix", "not_judged", 1, 1, "pages/comparisons/fix.html"),
        ("next", "not_judged", 1, 0, "pages/comparisons/next.html"),
    ]
    assert times == [(pytest.approx(10.0), pytest.approx(20.0))]
    assert 'href="comparisons/next.html"' in (data / "pages" / "index.html").read_text()
    assert (data / "pages" / "comparisons" / "fix.html").is_file()


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
        (("", "--with", "train_MLP*"), "an empty name; expected a run key"),
        (("x" * 5_000, "--with", "train_MLP*"), "x…: no accepted run is named so"),
        (("train_MLP*",), "expected the runs after the change, as --with RUN"),
    ],
)
def test_what_cannot_be_compared_gets_one_sentence(sample, words, sentence):
    answer = ask(*words, "--data", str(sample.root))
    assert answer.exit_code == 1
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr) < 300
