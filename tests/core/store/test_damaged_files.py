"""A file of the lake that is not Parquet any more: it is named, put aside, and made again; nothing else stops."""

from __future__ import annotations

import logging

import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.folder import DataFolder
from tests.runs import write_run


@pytest.mark.parametrize("table", ["run_files", "quality_metrics", "telemetry", "thresholds"])
def test_a_damaged_file_is_put_aside_and_made_again(tmp_path, caplog, table):
    keys = [write_run(tmp_path / "runs", second).stem for second in (1, 2)]
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    key = keys[0] if GRAPH.product(table).scope.per_run else None
    path = folder.lake.path(table, key)
    path.write_text("garbage, and not a table at all")
    with caplog.at_level(logging.WARNING):
        refresh(folder.fresh())
    assert folder.lake.path(table, key).read_bytes()[:4] == b"PAR1"
    assert path.with_name(f".{path.name}.damaged").read_text().startswith("garbage")
    (said,) = [record.message for record in caplog.records if "damaged" in record.message]
    assert str(path) in said
    assert set(folder.fresh().lake.read_all(RUN_FILES)["run_key"]) == set(keys)
    assert not set().union(*GRAPH.stale(folder.fresh(), keys).values())
