"""The summary of a data folder, over lakes that are written by hand."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.anomalies.tables import BASELINES, WINDOW_FEATURES
from infrascope_core.quality.settings import SelectionSettings
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import plan_of_platform
from infrascope_core.reports.summary import by_reason, summarize, use_of_metrics, worst_episodes
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from tests.core.handmade import START, HandMade


def episodes(handmade: HandMade, run: str, *found: tuple[int, float, float]) -> None:
    """Episodes as (first window, total surprisal, severity); windows start a second apart, an episode lasts three."""
    handmade.run(run)
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
    handmade.put("anomaly_episodes", run, *rows)


def label(handmade: HandMade, run: str, *faults: tuple[str, float, float]) -> None:
    rows = [
        {"fault": name, "start": START + timedelta(seconds=start), "end": START + timedelta(seconds=end)}
        for name, start, end in faults
    ]
    handmade.put("faults", run, *rows)


def test_the_worst_come_first_and_no_run_takes_more_than_two(handmade):
    episodes(handmade, "r1", (0, 4.0, 9.0), (100, 6.0, 2.0), (200, 5.0, 5.0), (300, 5.0, 4.0))
    episodes(handmade, "r2", (0, 5.0, 4.5))
    episodes(handmade, "r3")
    keys = ["r1", "r2", "r3"]
    worst = worst_episodes(handmade.folder, keys, 10)
    assert worst.select("run_key", "first_window", "total_surprisal", "severity").rows() == [
        ("r1", 100, 6.0, 2.0),
        ("r1", 200, 5.0, 5.0),
        ("r2", 0, 5.0, 4.5),
    ]
    assert worst_episodes(handmade.folder, keys, 2).equals(worst.head(2))
    assert worst_episodes(handmade.folder, keys, 0).height == 0
    assert worst_episodes(handmade.folder, ["r2"], 10)["run_key"].to_list() == ["r2"]


def test_equals_come_in_the_order_of_runs_and_windows(handmade):
    for run in ("r2", "r1"):
        episodes(handmade, run, (100, 5.0, 4.0), (0, 5.0, 4.0))
    worst = worst_episodes(handmade.folder, ["r2", "r1"], 10)
    assert worst.select("run_key", "first_window").rows() == [("r1", 0), ("r1", 100), ("r2", 0), ("r2", 100)]


def test_no_runs_have_no_episodes(handmade):
    worst = worst_episodes(handmade.folder, [], 5)
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
def test_an_episode_bears_the_labels_that_overlap_it(handmade, faults, expected):
    episodes(handmade, "r1", (10, 5.0, 4.0))  # from second 10 to second 13
    label(handmade, "r1", *faults)
    label(handmade, "r2", ("of another run", 0, 99))
    assert worst_episodes(handmade.folder, ["r1"], 5)["fault"].to_list() == [expected]


def test_the_summary_of_a_small_fleet(handmade):
    handmade.run("r1", samples=18_000, host="h1")  # 0.1 s each: half an hour
    handmade.run("r2", samples=36_000, host="h2")
    handmade.run("r3", platform="cpu", samples=1, interval_s=None)
    handmade.run("r4", status="rejected")
    usable = {"platform": "gpu", "status": "usable", "metric_class": "dynamic"}
    catalog = [usable | {"metric": "a"}, usable | {"metric": "b"}, usable | {"metric": "c", "status": "always_zero"}]
    handmade.put("metric_catalog", None, *catalog)
    handmade.thresholds(("dead", 1.0, 0.0, 0.0), ("load", 0.5, 0.5, 0.0))
    summary = summarize(handmade.folder)
    assert summary.accepted == 3
    assert summary.runs.rows() == [("cpu", "train", "W", 1, 1, 0.0), ("gpu", "train", "W", 2, 2, pytest.approx(1.5))]
    assert summary.metrics.rows() == [("gpu", "watched", 2, "usable"), ("gpu", "left out", 1, "always zero")]
    assert summary.degenerate.rows() == [("gpu", "dead")]
    assert summary.warehouse == handmade.folder.warehouse
    assert (summary.rules.height, summary.episodes.height, summary.rejected.height) == (0, 0, 0)


def test_the_summary_shows_the_told_rules_of_whole_platforms_only(handmade):
    rule = {
        "antecedent": ["GPU_util_HIGH"], "consequent": ["CPU_busy_HIGH"], "support": 0.3, "confidence": 0.9,
        "expected": 0.5, "z": 5.0, "agreeing_runs": 3, "informative_runs": 3, "timing": "own",
        "cross_subsystem": True, "shown": 2, "sentence": "While this, that.",
    }  # fmt: skip
    other = rule | {"consequent": ["Mem_util_HIGH"], "z": 4.0, "shown": 1}
    within = rule | {"consequent": ["GPU_power_HIGH"], "z": 7.0, "shown": None}
    rules = [
        {"scope": "gpu"} | rule,
        {"scope": "gpu"} | other,
        {"scope": "gpu"} | within,
        {"scope": "gpu/train"} | rule,
    ]
    handmade.put("association_rules", None, *rules)
    summary = summarize(handmade.folder)
    assert summary.rules.select("scope", "consequent").rows() == [
        ("gpu", ["Mem_util_HIGH"]),
        ("gpu", ["CPU_busy_HIGH"]),
    ]


def test_the_summary_of_an_empty_folder(handmade):
    summary = summarize(handmade.folder)
    assert summary.accepted == 0
    frames = ("runs", "rejected", "rejections", "metrics", "degenerate", "mined", "rules")
    assert [getattr(summary, name).height for name in frames] == [0] * 7
    assert summary.episodes.height == 0


def test_verdicts_are_counted_and_missed_faults_told(handmade):
    episodes(handmade, "found", (10, 5.0, 2.0))
    label(handmade, "found", ("hog", 10, 20), ("leak", 100, 120))
    episodes(handmade, "whole")
    label(handmade, "whole", ("pages", 0, 100))
    episodes(handmade, "alone")
    label(handmade, "alone", ("hog", 0, 5))
    episodes(handmade, "calm")
    for key, verdict, differs in (
        ("found", "anomalous", False), ("whole", "differs", True), ("alone", "not_judged", False),
        ("calm", "normal", False),
    ):  # fmt: skip
        handmade.put("anomaly_report", key, {"verdict": verdict, "differs": differs, "why": f"because {key}"})
    summary = summarize(handmade.folder)
    assert summary.verdicts.rows() == [
        ("anomalous", 1, None),
        ("differs", 1, None),
        ("normal", 1, None),
        ("not_judged", 1, "because alone"),
    ]
    assert summary.judged == 3
    # the leak; of a run that was not judged, nothing was missed
    assert (summary.faults, summary.missed) == (3, 1)


# -- metrics in use


def test_each_use_of_a_metric_has_its_reason(handmade):
    rows = [
        {"metric": "a", "status": "usable", "metric_class": "dynamic"},
        {"metric": "b", "status": "redundant", "metric_class": "dynamic", "represented_by": "a"},
        {"metric": "c", "status": "near_constant", "metric_class": "static"},
        {"metric": "d", "status": "near_constant", "metric_class": "dynamic", "treatment": "rate"},
        {"metric": "e", "status": "near_constant", "metric_class": "dynamic", "treatment": "derived"},
        {"metric": "f", "status": "always_missing"},
        {"metric": "g", "status": "always_zero"},
    ]
    handmade.put("metric_catalog", None, *({"platform": "gpu", "treatment": "as_is"} | row for row in rows))
    watched = [
        ("watched", 1, "0 so far, watched for a change"),
        ("watched", 1, "constant so far, watched for a change"),
        ("watched", 1, "nearly constant counter, watched by its rate"),
        ("watched", 1, "redundant, but metric selection is off"),
        ("watched", 1, "usable"),
    ]
    left_out = [("left out", 1, why) for why in ("always missing", "nearly constant")]
    assert use_of_metrics(handmade.folder).drop("platform").rows() == watched + left_out
    selecting = handmade.folder.settings.model_copy(update={"selection": SelectionSettings(enabled=True)})
    found = use_of_metrics(DataFolder(handmade.folder.root, selecting)).drop("platform").rows()
    assert found == [*watched[:3], watched[4], *left_out, ("left out", 1, "redundant")]


def test_the_metrics_that_are_watched_are_those_that_the_detectors_see(sample):
    folder = sample
    watched = use_of_metrics(folder).filter(use="watched")["metrics"].sum()
    features = folder.lake.read_all(WINDOW_FEATURES)
    assert watched == features["metric"].n_unique() > 50
    assert watched == len(plan_of_platform(folder, "cpu").classes)
    by_workload = folder.lake.read(BASELINES).select("workload", "metrics")
    assert by_workload.filter(pl.col("metrics") == watched).height == by_workload.height
    assert use_of_metrics(folder)["metrics"].sum() == folder.lake.read(METRIC_CATALOG).height


# -- rejected files


def rejected(*reasons: str) -> pl.DataFrame:
    rows = [{"path": f"/runs/{number}.txt", "reason": reason} for number, reason in enumerate(reasons)]
    base = dict.fromkeys(REJECTED_FILES.schema.names())
    return pl.DataFrame([base | row for row in rows], schema=REJECTED_FILES.schema)


def test_files_are_rejected_for_one_reason_whatever_line_or_name_it_concerns():
    files = rejected(
        "empty: expected a header line",
        "line 6 has 7 fields, the header has 6 (tab-separated)",
        "line 9 has 5 fields, the header has 6 (tab-separated)",
        "empty: expected a header line",
        "line 8, column 'Memory:MemAvailable.h1[kB]': expected a number, found 'a lot'",
        "line 8, column 'Busy%.\\'h2[%]': expected a number, found \"it's\"",
        "line 3: expected a time as 2025-04-26 13:38:18.600, found 'x'",
        "duplicate run key: /a/b/one.txt is another file of the same name",
        "duplicate run key: /c/two.txt is another file of the same name",
        "line 31 has 9 fields, the header has 6 (tab-separated)",
    )
    assert by_reason(files).rows() == [
        ("line … has … fields, the header has 6 (tab-separated)", 3, "/runs/1.txt"),
        ("duplicate run key: … is another file of the same name", 2, "/runs/7.txt"),
        ("empty: expected a header line", 2, "/runs/0.txt"),
        ("line 8, column …: expected a number, found …", 2, "/runs/4.txt"),
        ("line 3: expected a time as 2025-04-26 13:38:18.600, found 'x'", 1, "/runs/6.txt"),
    ]


@given(st.lists(st.text(), max_size=8))
def test_every_rejected_file_is_counted_and_a_unique_reason_is_shown_in_full(reasons):
    found = by_reason(rejected(*reasons))
    assert found["files"].sum() == len(reasons)
    assert set(found.filter(files=1)["reason"]) <= set(reasons)
    if reasons:
        assert by_reason(rejected(reasons[0], reasons[0])).rows() == [(reasons[0], 2, "/runs/0.txt")]
