"""Checks of a data folder, over lakes that are written by hand."""

from __future__ import annotations

import math

import pytest

from infrascope_core.anomalies.tables import BASELINES, STORED_FEATURES
from infrascope_core.checks import basket_gaps, degenerate_groups, level_drift, unjudged, unpooled
from infrascope_core.pipeline import GRAPH
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.store.product import Scope
from infrascope_core.symbols.tables import BASKETS
from tests.core.handmade import START, HandMade

# -- basket_gaps


def test_baskets_with_a_row_for_every_window_are_not_a_finding(handmade):
    handmade.run("r1")
    handmade.windows("r1", count=4)
    handmade.baskets("r1", "LMHL")
    assert basket_gaps(handmade.folder).height == 0


def test_missing_baskets_are_counted_by_run_and_group(handmade):
    for run, count in (("r1", 4), ("r2", 2), ("r3", 3)):
        handmade.run(run)
        handmade.windows(run, count=count)
    handmade.baskets("r1", "LM")
    handmade.baskets("r3", "LLL")
    assert basket_gaps(handmade.folder).rows() == [("r1", "load", 4, 2), ("r2", "load", 2, 0)]


def test_a_group_without_baskets_is_found_beside_one_that_has_them(handmade):
    handmade.run("r1")
    handmade.put(
        "group_windows", "r1", *({"metric_group": g, "window": i} for g in ("load", "power") for i in range(2))
    )
    handmade.baskets("r1", "LM")
    assert basket_gaps(handmade.folder).rows() == [("r1", "power", 2, 0)]


def test_rejected_runs_are_not_checked(handmade):
    handmade.run("r1", status="rejected")
    handmade.windows("r1")
    handmade.thresholds(("load", 0.3, 0.3, 0.4))
    handmade.baskets("r1", "HHHH")
    assert basket_gaps(handmade.folder).height == 0
    assert level_drift(handmade.folder).height == 0


# -- degenerate_groups


def test_degenerate_groups_are_found(handmade):
    handmade.thresholds(("dead", 1.0, 0.0, 0.0), ("load", 0.5, 0.5, 0.0))
    found = degenerate_groups(handmade.folder)
    assert found.select("platform", "metric_group", "low_share").rows() == [("gpu", "dead", 1.0)]


# -- level_drift


def test_the_stability_index_by_hand(handmade):
    handmade.run("r1")
    handmade.run("r2")
    handmade.thresholds(("load", 0.5, 0.25, 0.25))
    handmade.baskets("r1", "LMMH")
    handmade.baskets("r2", "LHHH")
    # now: LOW 2/8, MED 2/8, HIGH 4/8
    expected = (0.25 - 0.5) * math.log(0.25 / 0.5) + 0 + (0.5 - 0.25) * math.log(0.5 / 0.25)
    assert level_drift(handmade.folder).rows() == [("gpu", "load", 8, pytest.approx(expected))]


def test_levels_as_they_were_fitted_have_not_drifted(handmade):
    handmade.run("r1")
    handmade.thresholds(("load", 0.5, 0.25, 0.25))
    handmade.baskets("r1", "LLMH")
    assert level_drift(handmade.folder)["stability_index"].to_list() == [0.0]


def test_an_empty_level_counts_as_one_in_ten_thousand(handmade):
    handmade.run("r1")
    handmade.thresholds(("load", 1.0, 0.0, 0.0))
    handmade.baskets("r1", "HHHH")
    least = 1e-4
    expected = (least - 1) * math.log(least) + (1 - least) * math.log(1 / least)
    assert level_drift(handmade.folder)["stability_index"].to_list() == pytest.approx([expected])


def test_platforms_drift_apart(handmade):
    handmade.run("r1")
    handmade.run("r2", platform="cpu")
    shares = {"metric_group": "load", "low_share": 0.5, "med_share": 0.0, "high_share": 0.5}
    handmade.put("thresholds", None, {"platform": "gpu"} | shares, {"platform": "cpu"} | shares)
    handmade.baskets("r1", "LH")
    handmade.baskets("r2", "LL")
    (cpu, gpu) = level_drift(handmade.folder).select("platform", "stability_index").rows()
    assert gpu == ("gpu", 0.0)
    assert cpu[0] == "cpu"
    assert cpu[1] > 0.25


def test_nothing_to_compare(handmade):
    assert level_drift(handmade.folder).columns == ["platform", "metric_group", "windows", "stability_index"]
    handmade.run("r1")
    handmade.baskets("r1", "LL")
    assert level_drift(handmade.folder).height == 0


# -- unjudged


def test_runs_of_which_nothing_could_be_judged(handmade):
    assert unjudged(handmade.folder).height == 0
    for run, verdict in (("r1", "normal"), ("r2", "not_judged"), ("r3", "not_judged")):
        handmade.run(run, status="rejected" if run == "r3" else "accepted")
        handmade.put("anomaly_report", run, {"verdict": verdict, "why": f"because of {run}"})
    assert unjudged(handmade.folder).rows() == [("r2", "because of r2")]


# -- unpooled


POOLED = [
    product.name
    for product in GRAPH.order
    if not product.scope.per_run and product.scope not in (Scope.STUDIED, Scope.GATHERED)
]


def pool(handmade: HandMade) -> None:
    """Make every pooled product that is made without being asked for."""
    for product in GRAPH.order:
        if not product.scope.per_run and product.scope is not Scope.STUDIED:
            GRAPH.make_pooled(handmade.folder, product.name)


def findings(handmade: HandMade) -> dict[str, str]:
    return dict(unpooled(handmade.folder, GRAPH).iter_rows())


def features(handmade: HandMade, run: str, windows: int, *hosts: str) -> None:
    rows = [
        {"host": host, "window": i, "windows": 1, "samples": 30, "metric": metric, "start_ts": START}
        | dict.fromkeys(STORED_FEATURES, float(i))
        for i in range(windows)
        for host in hosts or ("h",)
        for metric in "ab"
    ]
    handmade.put("window_features", run, *rows)


def quality(handmade: HandMade, run: str) -> None:
    facts = {"samples": 9, "missing": 0, "infinite": 0, "zeros": 0}
    handmade.put("quality_metrics", run, {"host": "h", "metric": "a", "subsystem": "CPU"} | facts)


@pytest.fixture
def pooled(handmade) -> HandMade:
    """A folder with one run, and every pooled product made of it."""
    handmade.run("r1")
    handmade.put(
        "quality_metrics",
        "r1",
        {"host": "h", "metric": "a", "subsystem": "CPU", "samples": 9, "missing": 0, "infinite": 0, "zeros": 0},
    )
    handmade.windows("r1")
    handmade.baskets("r1", "LMHL")
    features(handmade, "r1", 9)
    pool(handmade)
    return handmade


def test_a_folder_with_every_pooled_product_lacks_nothing(pooled):
    assert findings(pooled) == {}


def test_an_empty_folder_lacks_nothing(handmade):
    assert findings(handmade) == {}


def test_a_folder_with_runs_lacks_every_pooled_product_that_was_never_made(handmade):
    handmade.run("r1")
    assert findings(handmade) == dict.fromkeys(POOLED, "never made")


@pytest.mark.parametrize("table", POOLED)
def test_a_pooled_product_that_was_deleted_is_named(pooled, table):
    pooled.folder.lake.drop(table)
    assert findings(pooled)[table] == "never made"


CHANGED = "its runs, their data or its settings changed after it was made"


def test_a_platform_without_a_catalogue_is_a_finding(pooled):
    pooled.run("r2", platform="cpu")
    pooled.put(
        "quality_metrics",
        "r2",
        {"host": "h", "metric": "a", "subsystem": "CPU", "samples": 9, "missing": 0, "infinite": 0, "zeros": 0},
    )
    assert findings(pooled)["metric_catalog"] == CHANGED
    GRAPH.make_pooled(pooled.folder, "metric_catalog")
    assert set(pooled.folder.lake.read(METRIC_CATALOG)["platform"]) == {"cpu", "gpu"}
    assert "metric_catalog" not in findings(pooled)


def test_a_group_without_thresholds_is_a_finding(pooled):
    pooled.put("group_windows", "r1", *({"metric_group": g, "window": i} for g in ("load", "power") for i in range(4)))
    resting_on_windows = ("thresholds", "group_aliases")  # the run is in no comparison that is declared
    assert findings(pooled) == dict.fromkeys(resting_on_windows, CHANGED)


def test_a_workload_without_a_baseline_is_a_finding_until_it_was_looked_at(pooled):
    def own() -> set[str]:
        return set(pooled.folder.lake.read(BASELINES)["workload"])

    pooled.run("r2", workload="V")
    features(pooled, "r2", 1, "h1", "h2")
    assert findings(pooled)["baselines"] == CHANGED
    pool(pooled)
    assert ("baselines" in findings(pooled), "V" in own()) == (False, False)  # two windows are too few for one
    features(pooled, "r2", 2, "h1", "h2")
    assert findings(pooled)["baselines"] == CHANGED
    pool(pooled)
    assert ("baselines" in findings(pooled), "V" in own()) == (False, True)  # windows of several hosts add up


def test_patterns_are_stale_once_the_baskets_change(pooled):
    frame = pooled.folder.lake.read(BASKETS, "r1")
    pooled.folder.lake.write(frame, BASKETS, "r1", "made from something else")
    assert findings(pooled) == dict.fromkeys(
        (
            "frequent_itemsets",
            "association_rules",
            "mined_scopes",
            "sequential_patterns",
            "contrasts",
            "workload_signatures",
            "basket_counts",
            "item_frequencies",
            "item_pairs",
            "run_identity",
        ),
        CHANGED,
    )


def test_what_is_studied_on_demand_is_never_missing(pooled):
    assert not {p.name for p in GRAPH.order if p.scope is Scope.STUDIED} & {*findings(pooled)}


def test_an_empty_folder_has_no_other_findings(handmade):
    for check in (basket_gaps, degenerate_groups, level_drift):
        assert check(handmade.folder).height == 0
