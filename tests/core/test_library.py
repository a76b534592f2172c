"""A data folder as a library: what README shows works, in a folder that was filled, never filled, or moved."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

import infrascope_core as ic
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.errors import InfraScopeError
from infrascope_core.pipeline import GRAPH
from infrascope_core.settings import Settings
from tests.runs import write_run

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("library")
    for second in (1, 2, 3):
        write_run(place / "runs", second, samples=600, burst=(300, 380) if second == 3 else None)
    ic.open(place / "data", sources=[place / "runs"]).refresh()
    return place / "data"


def test_the_readmes_example_works(data, monkeypatch):
    monkeypatch.chdir(data.parent)
    (example,) = re.findall(r"```python\n(import infrascope_core.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    episodes = names["episodes"]
    assert isinstance(episodes, duckdb.DuckDBPyRelation)
    assert isinstance(episodes.df(), pd.DataFrame)
    assert isinstance(episodes.pl(), pl.DataFrame)
    assert episodes.pl().height > 0


def test_every_table_has_the_columns_of_its_declaration(data, tmp_path):
    for folder in (ic.open(data), ic.open(tmp_path / "never filled")):
        assert folder.tables == list(GRAPH.tables)
        for name in set(folder.tables) - {"telemetry"}:
            assert folder.table(name).columns == GRAPH.tables[name].schema.names(), name
    assert ic.open(tmp_path / "never filled").table("baselines").pl().is_empty()


def test_telemetry_and_reports_are_had_by_run(data):
    folder = ic.open(data)
    key = folder.table("run_files").pl()["run_key"][0]
    assert folder.telemetry(key).columns[:4] == ["run_key", "host", "sample", "ts"]
    assert folder.telemetry(key).aggregate("count(*)").fetchall() == [(600,)]
    assert folder.report(key).startswith("# ")


def test_a_folder_that_moved_is_read_where_it_lies(data, tmp_path):
    moved = tmp_path / "a [new] place"
    data.rename(moved)
    try:
        assert ic.open(moved).table("baskets").pl().height > 0
    finally:
        moved.rename(data)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("anomaly_episode", "'anomaly_episode' is not a table; did you mean anomaly_episodes?"),
        ("telemetry", r"telemetry has other columns in every run; ask for telemetry\(run_key\)"),
        ("'; DROP TABLE run_files; --", "is not a table; expected one of run_files, "),
    ],
)
def test_what_is_not_a_table_is_refused(data, name, sentence):
    with pytest.raises(InfraScopeError, match=sentence):
        ic.open(data).table(name)


def test_a_run_that_is_unknown_is_refused(data):
    with pytest.raises(InfraScopeError, match="no accepted run file of that name"):
        ic.open(data).telemetry("nothing")
    with pytest.raises(InfraScopeError, match="there is no report on a run of that name"):
        ic.open(data).report("nothing")


def test_a_folder_is_opened_under_the_settings_that_it_was_filled_by(tmp_path):
    write_run(tmp_path / "runs", 1)
    settings = Settings(features=FeatureSettings(samples=20))
    ic.open(tmp_path / "data", sources=[tmp_path / "runs"], settings=settings).refresh()
    assert ic.open(tmp_path / "data").folder.settings == settings
