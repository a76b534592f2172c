"""Samples of old runs are dropped: what was learnt stays, new runs go on, and a changed file is read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from infrascope_core import checks
from infrascope_core.anomalies.tables import ANOMALY_SCORES, BASELINES, WINDOW_FEATURES
from infrascope_core.errors import PrunedError
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.pages.products import page_file
from infrascope_core.pipeline import GRAPH, prune, refresh
from infrascope_core.quality.tables import METRIC_CATALOG, PRUNING_CURVE
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.footers import FINGERPRINT, VERSION
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope
from infrascope_core.store.settings import RetentionSettings
from infrascope_core.studies.tables import WINDOW_AGREEMENT
from infrascope_core.studies.window_agreement import example_timelines
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


def refreshed(folder: DataFolder) -> list[str]:
    """Products that a refresh makes."""
    made: list[str] = []
    refresh(folder, on_made=lambda product, key, frames: made.append(product.name))
    return made


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
    assert refreshed(folder.fresh()) == []
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


FITTED = [product for product in GRAPH.order if product.scope is Scope.FITTED]


def raised(*names: str) -> Graph:
    """The graph after an upgrade by which the same inputs give other rows."""
    return Graph(
        tuple(replace(p, code_version=f"{p.code_version}+") if p.name in names else p for p in GRAPH.products),
        GRAPH.runs,
    )


@pytest.mark.parametrize("graph", [GRAPH, raised(*(product.name for product in FITTED))], ids=["refit", "upgrade"])
@pytest.mark.parametrize("recipe", ["default", "infrascope"])
def test_what_was_learnt_outlives_the_samples_of_all_its_runs(tmp_path, recipe, graph, caplog):
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    folder = DataFolder(tmp_path / "data", Settings(recipe=recipe), (tmp_path / "runs",))
    refresh(folder)
    prune(folder.fresh(), datetime(2100, 1, 1))
    learnt = {table.name: folder.lake.read(table) for p in FITTED for table in p.tables}
    patterns = {p.name: folder.lake.read(p.name) for p in GRAPH.order if p.scope is Scope.MINED}
    refresh(folder.fresh(), graph is GRAPH, graph=graph)
    assert all(folder.lake.read(name).equals(rows) for name, rows in learnt.items() if name != "thresholds")
    # those of the recipe `default` are fitted on windows, which are never dropped
    assert folder.lake.read("thresholds").drop("version").equals(learnt["thresholds"].drop("version"))
    assert all(folder.lake.read(name).equals(rows) for name, rows in patterns.items())
    workload = "cpu train MLP__ImageClassification__Digits"
    assert f"baselines of {workload}: kept as it is, because the samples of the runs were dropped" in caplog.messages
    caplog.clear()
    new = write_run(tmp_path / "runs", 9).stem
    refresh(folder.fresh(), graph=graph)
    assert caplog.messages == []
    assert folder.lake.read(BASELINES).equals(learnt["baselines"])
    assert folder.lake.read(ANOMALY_REPORT, new)["verdict"].to_list() == ["normal"]
    assert set(folder.lake.read(ANOMALY_SCORES, new)["baseline_version"]) == set(learnt["baselines"]["version"])


def test_a_workload_whose_runs_are_pruned_keeps_its_baseline_beside_others_that_are_fitted_anew(folder, tmp_path):
    write_run(tmp_path / "runs", 30, model="BERT")
    refresh(folder.fresh())
    prune(folder.fresh(), datetime(2026, 11, 1, 10, 0, 20))
    tables = (BASELINES, METRIC_CATALOG, PRUNING_CURVE)
    then = {table.name: folder.lake.read(table) for table in tables}
    refresh(folder.fresh(), True)
    bert, mlp = folder.lake.read(BASELINES).rows(named=True)
    before_bert, before_mlp = then["baselines"].rows(named=True)
    assert mlp == before_mlp
    assert bert["fitted_at"] > before_bert["fitted_at"]
    assert bert["version"] == before_bert["version"]
    assert folder.lake.read(PRUNING_CURVE).equals(then["pruning_curve"])
    # the catalogue is of a platform: it is judged anew by the run that is left
    assert folder.lake.read(METRIC_CATALOG)["metric"].equals(then["metric_catalog"]["metric"])
    assert refreshed(folder.fresh()) == []


def test_a_baseline_that_cannot_judge_the_windows_of_today_is_lost_and_that_is_said(folder, tmp_path, caplog):
    prune(folder, datetime(2100, 1, 1))
    longer = folder.settings.model_copy(
        update={"features": folder.settings.features.model_copy(update={"samples": 60})}
    )
    refresh(DataFolder(folder.root, longer, folder.sources))
    assert folder.lake.read(BASELINES).is_empty()
    workload = "cpu train MLP__ImageClassification__Digits"
    assert caplog.messages[-1].startswith(
        f"baselines of {workload}: lost (its features are computed in another way now)"
    )


def test_a_damaged_model_of_pruned_runs_is_said_to_be_lost(folder, caplog):
    prune(folder, datetime(2100, 1, 1))
    (file,) = folder.lake.read(BASELINES)["file"]
    (folder.root / file).write_bytes(b"nothing")
    refresh(folder.fresh(), True)
    assert folder.lake.read(BASELINES).is_empty()
    assert "lost" in caplog.messages[-1]
    assert "this is not a whole baseline file" in caplog.messages[-1]


def test_hosts_of_pruned_jobs_stay_compared(tmp_path):
    for host in ("h1", "h2", "h3"):
        write_run(tmp_path / "runs", 1, host=host, burst=(0, 400) if host == "h2" else None)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    then = folder.lake.read(HOST_DEVIATIONS)
    assert then.height
    prune(folder.fresh(), datetime(2100, 1, 1))
    refresh(folder.fresh(), graph=raised("host_deviations"))
    assert folder.lake.read(HOST_DEVIATIONS).equals(then)


@pytest.mark.parametrize("product", [p.name for p in GRAPH.order if p.scope is Scope.STUDIED])
def test_studies_are_made_of_runs_that_have_samples(folder, product):
    prune(folder, datetime(2100, 1, 1))
    GRAPH.make_pooled(folder, product)


def test_the_run_that_is_shown_of_a_study_has_samples(folder):
    table = GRAPH.make_pooled(folder, WINDOW_AGREEMENT)
    most, _ = example_timelines(folder, table)
    done = prune(folder, accepted(folder)["started_at"].sort()[2])
    assert most in done.runs
    assert example_timelines(folder, table)[0] not in done.runs
    prune(folder, datetime(2100, 1, 1))
    assert example_timelines(folder, table) == ("", {})


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
    for product in GRAPH.order:
        if not product.scope.per_run:  # Dagster makes them one by one
            GRAPH.make_pooled(fresh, product.name, refit=True)
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
