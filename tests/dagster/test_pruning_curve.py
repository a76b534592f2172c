"""The pruning curve beside the catalogue: drawn, and not drawn again for nothing."""

from __future__ import annotations

import dagster as dg

from infrascope_dagster.versions import CONTENT
from tests.runs import write_run


def last(location, asset: str) -> dg.AssetMaterialization:
    return location.instance.get_latest_materialization_event(dg.AssetKey(asset)).asset_materialization


def test_the_curve_comes_with_a_picture_and_the_catalogue_with_its_classes(location):
    keys = [write_run(location.runs, second).stem for second in (1, 2)]
    assert location.materialize("run_files", "telemetry", "faults", "metric_types", keys=keys).success
    assert location.materialize("quality_metrics", keys=keys).success
    assert location.materialize("metric_catalog").success
    assert "dynamic" in last(location, "metric_catalog").metadata["classes"].value
    assert location.materialize("pruning_curve").success
    curve = last(location, "pruning_curve")
    assert curve.metadata["picture"].value.startswith("![picture](data:image/png;base64,")
    assert curve.metadata["workloads"].value == 1
    assert location.materialize("pruning_curve").success
    assert last(location, "pruning_curve").tags[CONTENT] == curve.tags[CONTENT]


def test_without_a_metric_that_varies_there_is_no_picture(location):
    assert location.materialize("metric_catalog", "pruning_curve").success
    assert "picture" not in last(location, "pruning_curve").metadata
