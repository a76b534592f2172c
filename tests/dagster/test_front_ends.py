"""Two front ends, one graph: the plain loop and Dagster's assets leave the same bytes, for the sample."""

from __future__ import annotations

import hashlib
from pathlib import Path

import dagster as dg
import pytest

from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope
from tests.locations import Location
from tests.runs import write_run

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def bytes_below(data: Path) -> dict[str, str]:
    """Hash by path of everything that both leave, save the two tables that hold a time of day."""
    volatile = {
        f"{table.name}.parquet" for table in GRAPH.tables.values() if any(column.volatile for column in table.columns)
    }
    files = [*(data / "lake").rglob("*.parquet"), *(data / "models").glob("*"), *(data / "reports").glob("*")]
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name not in volatile and not path.name.startswith(".")
    }


def test_both_leave_the_same_bytes_for_the_sample(tmp_path, instance):
    plain = DataFolder(tmp_path / "plain", sources=(SAMPLE,))
    refresh(plain)
    location = Location(tmp_path, instance, runs=SAMPLE)
    keys = Inbox.of(location.folder).keys
    for product in GRAPH.order:
        if product.scope is not Scope.STUDIED:
            tables = [table.name for table in product.tables]
            assert location.materialize(*tables, keys=keys if product.scope.per_run else []).success
    expected, found = bytes_below(plain.root), bytes_below(location.folder.root)
    assert len(expected) > 250
    assert found == expected


def test_a_backfill_of_a_fresh_folder_fits_the_models_that_it_needs(location):
    """What is asked for is per run alone; the models come with it, each reported on its own asset."""
    keys = [write_run(location.runs, second).stem for second in (1, 2, 3)]
    per_run = [t.name for product in GRAPH.order if product.scope is Scope.PER_RUN for t in product.tables]
    assert location.materialize("run_files", "telemetry", "faults", keys=keys).success
    assert location.materialize(*per_run, keys=keys).success
    for name in per_run:
        assert location.materialized(name) == set(keys), name
    for name in ("metric_catalog", "thresholds", "baselines"):
        assert location.metadata(name)["dagster/row_count"].value > 0
        record = location.instance.fetch_materializations(dg.AssetKey(name), limit=1).records[0]
        assert record.asset_materialization.tags["dagster/data_version"] == location.folder.lake.version(name)


@pytest.mark.parametrize("platform", ["cpu"])
def test_a_model_that_is_fitted_is_not_fitted_again_by_a_product_that_reads_it(location, platform):
    first, second = (write_run(location.runs, n).stem for n in (1, 2))
    assert location.run_job("refresh").success
    write_run(location.runs, 2, samples=450)
    before = location.folder.lake.version("thresholds")
    assert location.materialize("run_files", "telemetry", "faults", keys=[second]).success
    assert location.materialize("quality_metrics", "curated_metrics", "group_windows", "baskets", keys=[second]).success
    assert location.folder.lake.version("thresholds") == before
    assert set(location.folder.lake.read("thresholds")["platform"]) == {platform}
    assert first in location.materialized("baskets")
