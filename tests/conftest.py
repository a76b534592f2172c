from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

SAMPLE = Path(__file__).parents[1] / "data" / "sample"

# a busy machine makes any example slow once, and no test is about the time that one takes
settings.register_profile("infrascope", deadline=None)
settings.load_profile("infrascope")


def pytest_addoption(parser):
    parser.addoption("--snapshot-update", action="store_true", help="write the snapshot of the graph anew")


@pytest.fixture
def instance():
    import dagster as dg

    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def location(tmp_path, instance):
    from tests.locations import Location

    return Location(tmp_path, instance)


@pytest.fixture(scope="session")
def sample(tmp_path_factory, worker_id):
    """The data folder of the sample runs, filled once for all tests and workers. Whoever takes it only reads it."""
    from infrascope_core.pipeline import refresh
    from infrascope_core.store.folder import DataFolder

    if not list(SAMPLE.glob("*.txt.gz")):
        pytest.skip("no sample runs are recorded here")
    base = tmp_path_factory.getbasetemp()
    folder = DataFolder((base if worker_id == "master" else base.parent) / "sample", sources=(SAMPLE,))
    refresh(folder)
    return folder


@pytest.fixture(autouse=True, scope="session")
def _files_are_not_watched():
    """Files that a test has just written are taken at once; the tests of watching them turn it on."""
    from infrascope_core.run_files.sources import folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "_WATCH_S", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_state_of_definitions():
    """The project's definitions keep no state of their own.

    Dagster remembers where such state lies with the instance that was entered last. Contexts of sensors and schedules
    leave theirs when they are collected as garbage, in any order, and may bring back one that is long gone.
    """
    from dagster._core.storage.defs_state.base import DefsStateStorage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefsStateStorage, "get", classmethod(lambda _: None))
        yield
