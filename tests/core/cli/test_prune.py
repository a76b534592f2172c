"""`infrascope prune` at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from infrascope_core.cli.prune import prune
from infrascope_core.pipeline import refresh
from infrascope_core.store.folder import DataFolder
from tests.runs import write_run


def call(data: Path, age: str):
    app = typer.Typer()
    app.command()(prune)
    return CliRunner().invoke(app, ["--older-than", age, "--data", str(data)])


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("pruned")
    write_run(place / "runs", 1)
    refresh(DataFolder(place / "data", sources=(place / "runs",)))
    return place / "data"


@pytest.mark.parametrize("age", ["", "30", "-3d", "3 months", "9" * 50 + "d"])
def test_an_age_that_is_none_is_refused_in_one_sentence(data, age):
    said = call(data, age)
    assert said.exit_code == 1
    assert "expected hours, days or weeks, as 12h, 30d or 8w" in said.stderr
    assert len(said.stderr) < 200


def test_what_was_dropped_is_said(data):
    said = call(data, "1h")
    assert said.exit_code == 0
    assert "1 run pruned, " in said.stdout
    assert call(data, "1h").stdout.endswith("0 runs pruned, 0 B free\n")
