"""Where the resource takes its sources from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infrascope_dagster import dev
from infrascope_dagster.resources import from_environment, sources_of

HUB = "hub:lab/telemetry@main?workload=BERT*&runs=3"


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("runs", ["runs"]),
        ("runs:/more/runs.zip", ["runs", "/more/runs.zip"]),
        (HUB, [HUB]),
        (f"runs:{HUB}:hub:a/b:more", ["runs", HUB, "hub:a/b", "more"]),
        ("runs/hub:more", ["runs/hub", "more"]),
    ],
)
def test_sources_are_separated_as_in_path_but_for_the_hubs(text, sources):
    assert sources_of(text) == sources


def test_the_environment_names_data_sets_too(monkeypatch):
    monkeypatch.setenv("INFRASCOPE_RUNS", os.pathsep.join(["runs", HUB]))
    monkeypatch.delenv("INFRASCOPE_SETTINGS", raising=False)
    resource = from_environment()
    assert resource.sources == ["runs", HUB]
    assert resource.folder().sources == (Path("runs"), Path(HUB))
    monkeypatch.chdir("/")
    assert dev._absolute("INFRASCOPE_RUNS", Path("x")) == f"/runs:{HUB}"
