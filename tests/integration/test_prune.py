"""Samples of old runs are dropped: what was learnt stays, new runs go on, and a changed file is read again."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from infrascope_core import checks
from infrascope_core.anomalies.tables import ANOMALY_SCORES, BASELINES, WINDOW_FEATURES
from infrascope_core.errors import PrunedError
from infrascope_core.pages.products import page_file
from infrascope_core.pipeline import GRAPH, prune, refresh
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.footers import FINGERPRINT, VERSION
from infrascope_core.store.settings import RetentionSettings
from infrascope_core.symbols.tables import CURATED_METRICS
from tests.runs import write_run

BULKY = (TELEMETRY, CURATED_METRICS, WINDOW_FEATURES)


@pytest.fixture
def folder(tmp_path) -> DataFolder:
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    return folder.fresh()


def contents(folder: DataFolder) -> dict[Path, bytes]:
    """All files but those of bulky tables and the index of fingerprints."""
    bulky = {table.name for table in BULKY}
    files = [file for file in folder.root.rglob("*") if file.is_file() and file.parent.name not in bulky]
    return {file: file.read_bytes() for file in files if file.name not in (".fingerprints.json", "warehouse.duckdb")}


def test_of_old_runs_the_samples_are_dropped_and_all_else_stays(folder):
    starts = accepted(folder)["started_at"].sort()
    before = contents(folder)
    done = prune(folder, starts[2])
    assert done.runs == tuple(accepted(folder)["run_key"][:2])
    assert done.bytes > 0
    for table in BULKY:
        rows = [folder.lake.read(table, key).height for key in accepted(folder)["run_key"]]
        assert [n > 0 for n in rows] == [False, False, True, True]
        assert folder.lake.columns(table, done.runs[0]) == folder.lake.columns(table, accepted(folder)["run_key"][3])
    assert contents(folder) == before
    assert prune(folder, starts[2]).runs == ()  # nothing is left to drop
    made: list[str] = []
    refresh(folder.fresh(), on_made=lambda product, key, frames: made.append(product.name))
    assert made == []
    assert contents(folder) == before


def test_new_runs_go_on_beside_pruned_ones(folder, tmp_path):
    prune(folder, datetime(2100, 1, 1))
    kept = folder.lake.read(BASELINES)
    old = {key: folder.lake.read(ANOMALY_SCORES, key) for key in folder.lake.keys(ANOMALY_SCORES)}
    write_run(tmp_path / "runs", 9, burst=(100, 180))
    refresh(folder.fresh())
    assert folder.lake.read(BASELINES).equals(kept)
    assert len(folder.lake.keys(ANOMALY_REPORT)) == 5
    assert all(folder.lake.read(ANOMALY_SCORES, key).equals(scores) for key, scores in old.items())
    judged = pl.concat(folder.lake.read(ANOMALY_REPORT, key) for key in folder.lake.keys(ANOMALY_REPORT))
    assert judged["verdict"].is_in(["normal", "anomalous", "differs"]).all()


def test_settings_that_change_touch_no_pruned_run(folder):
    key, *_ = prune(folder, accepted(folder)["started_at"].sort()[1]).runs
    features = folder.settings.features.model_copy(update={"stride": 5})
    changed = folder.settings.model_copy(update={"features": features})
    scores = folder.lake.read(ANOMALY_SCORES, key)
    refresh(DataFolder(folder.root, changed, folder.sources))
    assert folder.lake.read(ANOMALY_SCORES, key).equals(scores)
    other = accepted(folder.fresh())["run_key"][2]
    assert folder.lake.read(ANOMALY_SCORES, other).height > scores.height
    with pytest.raises(PrunedError, match=f"^{key}: its samples were dropped"):
        GRAPH.make(folder, ANOMALY_SCORES, key)


def test_what_an_earlier_version_dropped_gets_the_columns_of_today(folder):
    old, *_ = prune(folder, accepted(folder)["started_at"].sort()[1]).runs
    path, made_from = folder.lake.path(WINDOW_FEATURES, old), folder.lake.made_from(WINDOW_FEATURES, old)
    columns = {"run_key": pl.String, "window": pl.Int64, "mean": pl.Float64, "variance": pl.Float64}
    pl.DataFrame(schema=columns).write_parquet(path, metadata={FINGERPRINT: made_from, VERSION: "emptied"})
    fresh = folder.fresh()
    refresh(fresh)
    assert pl.read_parquet_schema(path) == WINDOW_FEATURES.schema
    assert fresh.lake.is_emptied(WINDOW_FEATURES, old)
    assert old not in set(fresh.lake.read_all(WINDOW_FEATURES)["run_key"])
    assert fresh.lake.read_all(WINDOW_FEATURES).height > 0


def test_a_file_that_changes_is_read_again_and_whole(folder, tmp_path):
    key = prune(folder, datetime(2100, 1, 1)).runs[0]
    file = tmp_path / "runs" / f"{key}.txt"
    file.write_text(file.read_text() + "\n".join(file.read_text().splitlines()[-1:]) + "\n")
    refresh(folder.fresh())
    assert folder.lake.read(TELEMETRY, key).height > 0
    assert folder.lake.read(WINDOW_FEATURES, key).height > 0
    assert not GRAPH.is_pruned(folder, key)
    assert page_file(folder, key).is_file()


def test_the_disk_is_looked_at(folder):
    assert checks.disk_use(folder).is_empty()
    never = Settings(retention=RetentionSettings(least_free=0.999999))
    found = checks.disk_use(DataFolder(folder.root, never))
    assert found["bytes"].to_list() == sorted(found["bytes"], reverse=True)
    assert found.filter(table="telemetry")["files"].to_list() == [4]
    assert found["free"].is_between(0, 1).all()
    assert checks.disk_use(DataFolder(folder.root / "nowhere", never)).is_empty()
