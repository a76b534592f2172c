"""Two front ends, one graph: the plain loop and Dagster's assets leave the same bytes, for the sample."""

from __future__ import annotations

import hashlib
from pathlib import Path

import dagster as dg
import pytest

from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.product import Scope
from infrascope_dagster.versions import CONTENT
from tests.conftest import SAMPLE
from tests.locations import Location
from tests.runs import write_run


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


@pytest.mark.slow
def test_both_leave_the_same_bytes_for_the_sample(tmp_path, instance, sample):
    location = Location(tmp_path, instance, runs=SAMPLE)
    keys = Inbox.of(location.folder).keys
    of = {scope: [t.name for p in GRAPH.order if p.scope is scope for t in p.tables] for scope in Scope}
    pooled = [*of[Scope.GATHERED], *of[Scope.FITTED], *of[Scope.MINED], *of[Scope.COMPARED]]
    # as automation asks for them; the second time, episodes quote the rules that were mined
    gathered = of[Scope.GATHERED]  # of what was made last
    for names in (of[Scope.ARRIVING], of[Scope.PER_RUN], pooled, of[Scope.PER_RUN], gathered):
        assert location.materialize(*names, keys=[] if names in (pooled, gathered) else keys).success
    expected, found = bytes_below(sample.root), bytes_below(location.folder.root)
    assert len(expected) > 250
    assert found == expected


def test_a_backfill_of_a_fresh_folder_fits_the_models_that_it_needs(location):
    """What is asked for is per run alone; the models come with it, each reported on its own asset."""
    keys = [write_run(location.runs, second).stem for second in (1, 2, 3)]
    per_run = [t.name for product in GRAPH.order if product.scope is Scope.PER_RUN for t in product.tables]
    assert location.materialize("run_files", "telemetry", "faults", "metric_types", keys=keys).success
    assert location.materialize(*per_run, keys=keys).success
    for name in per_run:
        assert location.materialized(name) == set(keys), name
    for name in ("metric_catalog", "thresholds", "baselines"):
        assert location.metadata(name)["dagster/row_count"].value > 0
        record = location.instance.fetch_materializations(dg.AssetKey(name), limit=1).records[0]
        assert record.asset_materialization.tags[CONTENT] == location.folder.lake.version(name)


@pytest.mark.parametrize("platform", ["cpu"])
def test_a_model_that_is_fitted_is_not_fitted_again_by_a_product_that_reads_it(location, platform):
    first, second = (write_run(location.runs, n).stem for n in (1, 2))
    assert location.run_job("refresh").success
    write_run(location.runs, 2, samples=450)
    before = location.folder.lake.version("thresholds")
    assert location.materialize("run_files", "telemetry", "faults", "metric_types", keys=[second]).success
    assert location.materialize("quality_metrics", "curated_metrics", "group_windows", "baskets", keys=[second]).success
    assert location.folder.lake.version("thresholds") == before
    assert set(location.folder.lake.read("thresholds")["platform"]) == {platform}
    assert first in location.materialized("baskets")
