"""Standing questions about a data folder, and its summary, over lakes that are written by hand."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import polars as pl
import pytest

from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.checks import basket_gaps, degenerate_groups, level_drift, unjudged, unpooled
from infrascope_core.patterns import mining
from infrascope_core.pipeline import TABLES
from infrascope_core.reports.summary import summarize, worst_episodes
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS

START = datetime(2025, 5, 7)
SMALL = Settings(detectors=DetectorSettings(min_windows=3))


class House:
    """A data folder whose lake is filled by hand; what a row leaves out is missing."""

    def __init__(self, data):
        self.pipeline = DataFolder(data, SMALL)

    def put(self, table: str, run: str | None, *rows: dict) -> None:
        schema = TABLES[table].schema
        key = {} if run is None else {"run_key": run}
        frame = pl.DataFrame([dict.fromkeys(schema.names()) | key | row for row in rows], schema=schema)
        self.pipeline.lake.write(frame, table, run)

    def run(self, run: str, platform: str = "gpu", status: str = "accepted", **columns) -> None:
        about = {"platform": platform, "phase": "train", "workload": "W", "host": "h", "interval_s": 0.1}
        self.put("run_files", run, about | {"status": status} | columns)

    def windows(self, run: str, group: str = "load", count: int = 4) -> None:
        self.put("group_windows", run, *({"metric_group": group, "window": i} for i in range(count)))

    def baskets(self, run: str, levels: str, group: str = "load") -> None:
        names = {"L": "LOW", "M": "MED", "H": "HIGH"}
        rows = ({"metric_group": group, "window": i, "level": names[name]} for i, name in enumerate(levels))
        self.put("baskets", run, *rows)

    def thresholds(self, *groups: tuple, platform: str = "gpu") -> None:
        """Groups as (name, share of LOW, of MED, of HIGH)."""
        rows = []
        for name, low, med, high in groups:
            shares = {"low_share": low, "med_share": med, "high_share": high}
            alive = (low, med, high).count(0) < 2
            rows.append({"platform": platform, "metric_group": name, "degenerate": not alive} | shares)
        self.put("thresholds", None, *rows)


@pytest.fixture
def house(tmp_path) -> House:
    return House(tmp_path / "data")


# -- basket_gaps


def test_baskets_with_a_row_for_every_window_are_no_finding(house):
    house.run("r1")
    house.windows("r1", count=4)
    house.baskets("r1", "LMHL")
    assert basket_gaps(house.pipeline).height == 0


def test_missing_baskets_are_counted_by_run_and_group(house):
    for run, count in (("r1", 4), ("r2", 2), ("r3", 3)):
        house.run(run)
        house.windows(run, count=count)
    house.baskets("r1", "LM")
    house.baskets("r3", "LLL")
    assert basket_gaps(house.pipeline).rows() == [("r1", "load", 4, 2), ("r2", "load", 2, 0)]


def test_a_group_without_baskets_is_found_beside_one_that_has_them(house):
    house.run("r1")
    house.put("group_windows", "r1", *({"metric_group": g, "window": i} for g in ("load", "power") for i in range(2)))
    house.baskets("r1", "LM")
    assert basket_gaps(house.pipeline).rows() == [("r1", "power", 2, 0)]


def test_rejected_runs_are_not_asked_about(house):
    house.run("r1", status="rejected")
    house.windows("r1")
    house.thresholds(("load", 0.3, 0.3, 0.4))
    house.baskets("r1", "HHHH")
    assert basket_gaps(house.pipeline).height == 0
    assert level_drift(house.pipeline).height == 0


# -- degenerate_groups


def test_groups_whose_levels_say_nothing(house):
    house.thresholds(("dead", 1.0, 0.0, 0.0), ("load", 0.5, 0.5, 0.0))
    found = degenerate_groups(house.pipeline)
    assert found.select("platform", "metric_group", "low_share").rows() == [("gpu", "dead", 1.0)]


# -- level_drift


def test_the_stability_index_by_hand(house):
    house.run("r1")
    house.run("r2")
    house.thresholds(("load", 0.5, 0.25, 0.25))
    house.baskets("r1", "LMMH")
    house.baskets("r2", "LHHH")
    # now: LOW 2/8, MED 2/8, HIGH 4/8
    expected = (0.25 - 0.5) * math.log(0.25 / 0.5) + 0 + (0.5 - 0.25) * math.log(0.5 / 0.25)
    assert level_drift(house.pipeline).rows() == [("gpu", "load", 8, pytest.approx(expected))]


def test_levels_as_they_were_fitted_have_not_drifted(house):
    house.run("r1")
    house.thresholds(("load", 0.5, 0.25, 0.25))
    house.baskets("r1", "LLMH")
    assert level_drift(house.pipeline)["stability_index"].to_list() == [0.0]


def test_an_empty_level_counts_as_one_in_ten_thousand(house):
    house.run("r1")
    house.thresholds(("load", 1.0, 0.0, 0.0))
    house.baskets("r1", "HHHH")
    least = 1e-4
    expected = (least - 1) * math.log(least) + (1 - least) * math.log(1 / least)
    assert level_drift(house.pipeline)["stability_index"].to_list() == pytest.approx([expected])


def test_platforms_drift_apart(house):
    house.run("r1")
    house.run("r2", platform="cpu")
    shares = {"metric_group": "load", "low_share": 0.5, "med_share": 0.0, "high_share": 0.5}
    house.put("thresholds", None, {"platform": "gpu"} | shares, {"platform": "cpu"} | shares)
    house.baskets("r1", "LH")
    house.baskets("r2", "LL")
    (cpu, gpu) = level_drift(house.pipeline).select("platform", "stability_index").rows()
    assert gpu == ("gpu", 0.0)
    assert cpu[0] == "cpu"
    assert cpu[1] > 0.25


def test_nothing_to_compare(house):
    assert level_drift(house.pipeline).columns == ["platform", "metric_group", "windows", "stability_index"]
    house.run("r1")
    house.baskets("r1", "LL")
    assert level_drift(house.pipeline).height == 0


# -- unjudged


def test_runs_of_which_nothing_could_be_judged(house):
    assert unjudged(house.pipeline).height == 0
    for run, verdict in (("r1", "normal"), ("r2", "not_judged"), ("r3", "not_judged")):
        house.run(run, status="rejected" if run == "r3" else "accepted")
        house.put("anomaly_report", run, {"verdict": verdict, "why": f"because of {run}"})
    assert unjudged(house.pipeline).rows() == [("r2", "because of r2")]


# -- unpooled


def mined(house: House) -> None:
    mining.mine_itemsets(house.pipeline)
    mining.mine_rules(house.pipeline)


def test_a_folder_with_every_pooled_product_lacks_nothing(house):
    house.run("r1")
    house.windows("r1")
    house.put("metric_catalog", None, {"platform": "gpu", "metric": "a", "status": "usable"})
    house.thresholds(("load", 0.3, 0.3, 0.4))
    house.put("baselines", None, {"platform": "gpu", "phase": "train", "workload": "W"})
    house.put("window_features", "r1", *({"host": "h", "window": i, "metric": "a"} for i in range(9)))
    mined(house)
    assert unpooled(house.pipeline).rows() == []


def test_everything_that_a_folder_lacks(house):
    house.run("r1")
    house.run("r2", platform="cpu")
    house.windows("r1")
    house.windows("r2", "power")
    house.put("metric_catalog", None, {"platform": "gpu", "metric": "a", "status": "usable"})
    house.thresholds(("load", 0.3, 0.3, 0.4))
    # two metrics of one window are one window
    windows = ({"host": "h", "window": i, "metric": metric} for i in range(3) for metric in "ab")
    house.put("window_features", "r1", *windows)
    house.put("window_features", "r2", *({"host": "h", "window": i, "metric": "a"} for i in range(2)))
    assert unpooled(house.pipeline).rows() == [
        ("baselines", "gpu/train/W", "3 windows and no baseline"),  # the cpu's two are too few for one
        ("frequent_itemsets", "cpu, gpu, cpu/train, gpu/train, cpu/train/W, gpu/train/W",
         "baskets changed since they were mined"),
        ("metric_catalog", "cpu", "no metric of this platform was judged"),
        ("thresholds", "cpu/power", "window values without thresholds"),
    ]  # fmt: skip


def test_windows_of_several_runs_and_hosts_add_up_to_a_baseline(house):
    for run in ("r1", "r2"):
        house.run(run)
    house.put("window_features", "r1", {"host": "h1", "window": 0}, {"host": "h2", "window": 0})
    house.put("window_features", "r2", {"host": "h1", "window": 0})
    found = unpooled(house.pipeline).filter(pl.col("table") == "baselines")
    assert found["why"].to_list() == ["3 windows and no baseline"]


def test_itemsets_are_stale_once_the_baskets_change(house):
    house.run("r1")
    house.baskets("r1", "LMH")
    mined(house)
    stale = pl.col("table") == "frequent_itemsets"
    assert unpooled(house.pipeline).filter(stale).height == 0
    frame = house.pipeline.lake.read(BASKETS, "r1")
    house.pipeline.lake.write(frame, BASKETS, "r1", "made from something else")
    assert unpooled(house.pipeline).filter(stale).height == 1


def test_an_empty_folder_lacks_nothing(house):
    assert unpooled(house.pipeline).rows() == []


def test_an_empty_folder_has_no_other_findings(house):
    for check in (basket_gaps, degenerate_groups, level_drift):
        assert check(house.pipeline).height == 0


# -- summary


def episodes(house: House, run: str, *found: tuple[int, float, float]) -> None:
    """Episodes as (first window, total surprisal, severity); windows start a second apart, an episode lasts three."""
    house.run(run)
    rows = [
        {
            "host": "h",
            "episode": number,
            "first_window": window,
            "start_ts": START + timedelta(seconds=window),
            "end_ts": START + timedelta(seconds=window + 3),
            "total_surprisal": surprisal,
            "severity": severity,
        }
        for number, (window, surprisal, severity) in enumerate(found)
    ]
    house.put("anomaly_episodes", run, *rows)


def label(house: House, run: str, *faults: tuple[str, float, float]) -> None:
    rows = [
        {"fault": name, "start": START + timedelta(seconds=start), "end": START + timedelta(seconds=end)}
        for name, start, end in faults
    ]
    house.put("faults", run, *rows)


def test_the_worst_come_first_and_no_run_takes_more_than_two(house):
    episodes(house, "r1", (0, 4.0, 9.0), (100, 6.0, 2.0), (200, 5.0, 5.0), (300, 5.0, 4.0))
    episodes(house, "r2", (0, 5.0, 4.5))
    episodes(house, "r3")
    keys = ["r1", "r2", "r3"]
    worst = worst_episodes(house.pipeline, keys, 10)
    assert worst.select("run_key", "first_window", "total_surprisal", "severity").rows() == [
        ("r1", 100, 6.0, 2.0),
        ("r1", 200, 5.0, 5.0),
        ("r2", 0, 5.0, 4.5),
    ]
    assert worst_episodes(house.pipeline, keys, 2).equals(worst.head(2))
    assert worst_episodes(house.pipeline, keys, 0).height == 0
    assert worst_episodes(house.pipeline, ["r2"], 10)["run_key"].to_list() == ["r2"]


def test_equals_come_in_the_order_of_runs_and_windows(house):
    for run in ("r2", "r1"):
        episodes(house, run, (100, 5.0, 4.0), (0, 5.0, 4.0))
    worst = worst_episodes(house.pipeline, ["r2", "r1"], 10)
    assert worst.select("run_key", "first_window").rows() == [("r1", 0), ("r1", 100), ("r2", 0), ("r2", 100)]


def test_no_runs_have_no_episodes(house):
    worst = worst_episodes(house.pipeline, [], 5)
    assert worst.schema == {**ANOMALY_EPISODES.schema, "fault": pl.String}
    assert worst.height == 0


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], ""),
        ([("hog", 10.5, 11)], "hog"),  # within
        ([("hog", 0, 99)], "hog"),  # around
        ([("hog", 0, 10)], ""),  # ends in the moment it begins
        ([("hog", 13, 20)], ""),  # begins in the moment it ends
        ([("hog", 0, 9.999)], ""),
        ([("hog", 13.001, 20)], ""),
        ([("hog", 9, 11), ("leak", 12, 14), ("late", 50, 60)], "hog, leak"),
    ],
)
def test_an_episode_bears_the_labels_that_overlap_it(house, faults, expected):
    episodes(house, "r1", (10, 5.0, 4.0))  # from second 10 to second 13
    label(house, "r1", *faults)
    label(house, "r2", ("of another run", 0, 99))
    assert worst_episodes(house.pipeline, ["r1"], 5)["fault"].to_list() == [expected]


def test_the_summary_of_a_small_fleet(house):
    house.run("r1", samples=18_000, host="h1")  # 0.1 s each: half an hour
    house.run("r2", samples=36_000, host="h2")
    house.run("r3", platform="cpu", samples=1, interval_s=None)
    house.run("r4", status="rejected")
    usable = {"platform": "gpu", "status": "usable"}
    catalog = [usable | {"metric": "a"}, usable | {"metric": "b"}, usable | {"metric": "c", "status": "always_zero"}]
    house.put("metric_catalog", None, *catalog)
    house.thresholds(("dead", 1.0, 0.0, 0.0), ("load", 0.5, 0.5, 0.0))
    summary = summarize(house.pipeline)
    assert summary.accepted == 3
    assert summary.runs.rows() == [("cpu", "train", "W", 1, 1, 0.0), ("gpu", "train", "W", 2, 2, pytest.approx(1.5))]
    assert summary.exclusions.rows() == [("gpu", "always_zero", 1), ("gpu", "usable", 2)]
    assert summary.degenerate.rows() == [("gpu", "dead")]
    assert summary.warehouse == house.pipeline.warehouse
    assert (summary.rules.height, summary.episodes.height, summary.rejected.height) == (0, 0, 0)


def test_the_summary_shows_the_strongest_rules_of_whole_platforms_only(house):
    rule = {
        "antecedent": ["GPU_util_HIGH"], "consequent": ["CPU_busy_HIGH"], "support": 0.3, "confidence": 0.9,
        "lift": 2.0, "leverage": 0.1, "conviction": 5.0, "runs": 3, "p_value": 0.0, "q_value": 0.0,
        "cross_subsystem": True,
    }  # fmt: skip
    other = rule | {"consequent": ["Mem_util_HIGH"], "leverage": 0.2}
    within = rule | {"consequent": ["GPU_power_HIGH"], "leverage": 0.3, "cross_subsystem": False}
    rules = [
        {"scope": "gpu"} | rule,
        {"scope": "gpu"} | other,
        {"scope": "gpu"} | within,
        {"scope": "gpu/train"} | rule,
    ]
    house.put("association_rules", None, *rules)
    summary = summarize(house.pipeline)
    assert summary.rules.select("scope", "consequent").rows() == [
        ("gpu", ["Mem_util_HIGH"]),
        ("gpu", ["CPU_busy_HIGH"]),
    ]
    assert summarize(house.pipeline, rules=1).rules["leverage"].to_list() == [0.2]


def test_the_summary_of_an_empty_folder(house):
    summary = summarize(house.pipeline)
    assert summary.accepted == 0
    assert [getattr(summary, name).height for name in ("runs", "rejected", "exclusions", "degenerate", "rules")] == [
        0
    ] * 5
    assert summary.episodes.height == 0
