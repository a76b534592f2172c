from __future__ import annotations


def pytest_addoption(parser):
    parser.addoption("--snapshot-update", action="store_true", help="write the snapshot of the graph anew")
