"""Episodes and reports over a lake that is written by hand: what makes them current, and the files they leave."""

from __future__ import annotations

import datetime as dt
import json
from itertools import chain

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from infrascope_core.cli.report import _lay_out, report
from infrascope_core.patterns.scopes import rules_of
from infrascope_core.pipeline import GRAPH
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.store.folder import DataFolder

START = dt.datetime(2025, 5, 7)
KEY = "train_MLPforCls_default_2025-05-07T00-00-00_h"
CALM = KEY.replace("T00", "T01")
RULE = {"confidence": 0.95, "lift": 2.0, "q_value": 0.0}


@pytest.fixture
def folder(tmp_path) -> DataFolder:
    """A folder with two runs, one of them with an alarm, and no baseline."""
    folder = DataFolder(tmp_path / "data")
    folder.root.mkdir()
    folder.remember_settings()
    put(folder, "baselines", None)
    for key, alarm in ((KEY, True), (CALM, False)):
        about = {"platform": "gpu", "phase": "train", "workload": "W", "interval_s": 0.1, "samples": 600}
        put(folder, "run_files", key, about | {"status": "accepted"})
        put(folder, "anomaly_scores", key, *(score(w, alarm and w == 5) for w in range(20)))
        windows = [{"window": w, "metric": "AverageCPUUtilization[%]", "mean": 1.0} for w in range(20)]
        put(folder, "window_features", key, *windows)
        put(folder, "quality_metrics", key, {"metric": "AverageCPUUtilization[%]", "subsystem": "CPU"})
        for table in ("anomaly_reasons", "baskets"):
            put(folder, table, key)
    return folder


def put(folder: DataFolder, table: str, key: str | None, *rows: dict) -> None:
    declared = GRAPH.tables[table]
    schema = declared.schema
    known = dict.fromkeys(schema.names()) | ({"run_key": key, "host": "h"} if key else {})
    known = {name: value for name, value in known.items() if name in schema}
    folder.lake.write(pl.DataFrame([known | row for row in rows], schema=schema), declared, key, made_from=f"{rows}")


def score(window: int, alarm: bool) -> dict:
    at = START + window * dt.timedelta(seconds=1)
    return {
        "window": window, "start_ts": at, "anomalous": alarm, "surprisal": 4.0 if alarm else 0.5,
        "agreement": int(alarm), "flagged_by": ["zscore"] if alarm else [],
    }  # fmt: skip


def make_all(folder: DataFolder) -> None:
    for key in (KEY, CALM):
        for table in ("anomaly_episodes", "anomaly_report"):
            GRAPH.make(folder, table, key)


def contents(folder: DataFolder) -> list[bytes]:
    files = chain.from_iterable(report_files(folder, key) for key in (KEY, CALM))
    return [file.read_bytes() for file in files]


def test_a_report_leaves_its_text_beside_the_lake(folder):
    make_all(folder)
    row = folder.lake.read(ANOMALY_REPORT, KEY).row(0, named=True)
    assert (row["verdict"], row["episodes"], row["baseline"]) == ("anomalous", 1, "none")
    assert row["markdown"] == f"reports/{KEY}.md"
    assert (folder.root / row["markdown"]).read_text().startswith("# train")
    assert json.loads((folder.root / row["json"]).read_text())["run_key"] == KEY
    assert not [file for file in (folder.root / "reports").iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("which", [0, 1])
def test_a_report_whose_text_was_deleted_is_made_again_to_the_same_bytes(folder, which):
    make_all(folder)
    before = contents(folder)
    assert GRAPH.is_current(folder, "anomaly_report", KEY)
    report_files(folder, KEY)[which].unlink()
    assert not GRAPH.is_current(folder, "anomaly_report", KEY)
    GRAPH.make(folder, "anomaly_report", KEY)
    assert GRAPH.is_current(folder, "anomaly_report", KEY)
    assert contents(folder) == before


def test_an_episode_keeps_the_rules_that_it_was_made_with_until_there_are_narrower_ones(folder):
    def current() -> list[bool]:
        return [GRAPH.is_current(folder, "anomaly_episodes", key) for key in (KEY, CALM)]

    make_all(folder)
    sides = {"antecedent": ["a_LOW"], "consequent": ["b_LOW"]}
    put(folder, "association_rules", None, {"scope": "gpu"} | sides | RULE)
    assert current() == [False, False]  # there were none: whether or not the run has an alarm
    make_all(folder)
    put(folder, "association_rules", None, {"scope": "gpu"} | sides | RULE | {"confidence": 0.99})
    assert current() == [True, True]
    put(folder, "association_rules", None, {"scope": "gpu"} | sides | RULE, {"scope": "gpu/infer"} | sides | RULE)
    assert current() == [True, True]  # narrower, but not theirs
    put(folder, "association_rules", None, {"scope": "gpu/train"} | sides | RULE)
    assert current() == [False, False]


def test_the_rules_of_a_run_are_those_of_its_narrowest_mined_scope(folder):
    sides = {"antecedent": ["a_LOW"], "consequent": ["b_LOW"]}
    assert rules_of(folder, KEY).is_empty()
    for scopes, expected in (
        (["cpu", "gpu"], ["gpu"]),
        (["gpu", "gpu/train", "gpu/infer"], ["gpu/train"]),
        (["gpu", "gpu/train", "gpu/train/W", "gpu/train/W2"], ["gpu/train/W"]),
    ):
        put(folder, "association_rules", None, *({"scope": scope} | sides | RULE for scope in scopes))
        assert rules_of(folder, KEY)["scope"].to_list() == expected


# -- `infrascope report`


def call(folder: DataFolder, *arguments: str):
    app = typer.Typer()
    app.command()(report)
    return CliRunner().invoke(app, [*arguments, "--data", str(folder.root)])


def test_the_command_prints_the_text_or_the_json(folder):
    make_all(folder)
    markdown, as_json = (file.read_text() for file in report_files(folder, KEY))
    assert call(folder, KEY).stdout == markdown
    assert call(folder, KEY, "--json").stdout == as_json
    assert [r["run_key"] for r in json.loads(call(folder, "--all", "--json").stdout)] == [KEY, CALM]
    assert call(folder, "--all").stdout.startswith(markdown + "\n---\n\n# train")


def test_the_command_brings_back_a_deleted_text(folder):
    make_all(folder)
    said = call(folder, KEY).stdout
    report_files(folder, KEY)[0].unlink()
    assert call(folder, KEY).stdout == said
    assert report_files(folder, KEY)[0].is_file()


def test_a_terminal_shows_names_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    _lay_out([f"| metric |\n|---|\n| {'x' * 100} |\n"])
    assert capsys.readouterr().out.count("x") == 100


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name one run, or give --all"),
        ([KEY, "--all"], "name one run, or give --all"),
        (["nothing"], "nothing: there is no report on a run of that name"),
        ([KEY[:-1]], f"{KEY[:-1]}: there is no report on a run of that name; did you mean {KEY}?"),
        (["../x\x1b[31m"], "../x\N{REPLACEMENT CHARACTER}[31m: there is no report on a run of that name"),
    ],
)
def test_the_command_refuses_in_one_sentence(folder, arguments, sentence):
    make_all(folder)
    result = call(folder, *arguments)
    assert result.exit_code == 1
    assert result.stderr == f"infrascope: {sentence}\n"
