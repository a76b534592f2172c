from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.runs import accepted
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope
from tests.core.handmade import HandMade

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def make_all():
    """Make every product of the flow, or all that a table takes, whether or not it is current."""

    def run(data: Path, *sources: Path, settings: Settings | None = None, until: str = "") -> DataFolder:
        folder = DataFolder(data, settings or Settings(), sources)
        for product in GRAPH.upstream(until) if until else GRAPH.order:
            if product.scope is Scope.STUDIED:
                continue
            if not product.scope.per_run:
                GRAPH.make_pooled(folder, product.name)
            for key in _keys(folder, product.scope):
                GRAPH.make(folder, product.name, key)
        return folder

    return run


@pytest.fixture
def handmade(tmp_path) -> HandMade:
    """A data folder to be written by hand."""
    return HandMade(tmp_path / "data")


def _keys(folder: DataFolder, scope: Scope) -> list[str]:
    if scope is Scope.ARRIVING:
        return Inbox.of(folder).keys
    return list(accepted(folder)["run_key"]) if scope is Scope.PER_RUN else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Escape what is not UTF-8 in a report.

    Some tests use names of files that are none; an xdist worker cannot send them and would end the whole run.
    """
    report = yield
    text = report.longreprtext
    if (spelled := _escaped(text)) != text:
        report.longrepr = spelled
    report.sections = [(_escaped(title), _escaped(content)) for title, content in report.sections]
    return report


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
