from __future__ import annotations

import pytest


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
