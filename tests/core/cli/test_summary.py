"""What `run` and `summary` print: findings first, rejections by reason, paths in one piece, readable times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from infrascope_core.cli.summary import show
from infrascope_core.patterns.sentences import contrast_sentence, rule_sentence, sequence_sentence
from infrascope_core.recipes import load_recipe
from infrascope_core.reports.summary import summarize
from tests.core.handmade import START, HandMade

LONG = "/archive/" + "deep/" * 60


def printed(handmade: HandMade, capsys) -> str:
    show(summarize(handmade.folder))
    return capsys.readouterr().out


def reject(handmade: HandMade, *reasons: str) -> None:
    rows = [{"path": f"{LONG}{number:04}.txt", "reason": reason} for number, reason in enumerate(reasons)]
    handmade.put("rejected_files", None, *rows)


@pytest.fixture
def filled(handmade) -> HandMade:
    handmade.run("r1", samples=2_340)
    lists: dict[str, list[str]] = {name: [] for name in ("detectors", "onset", "metrics")}
    episode = {"host": "h", "episode": 0, "first_window": 0, "subsystems": ["CPU"], "claims": ["Busy% is high."]}
    times = {"start_ts": START, "end_ts": START + timedelta(seconds=3)}
    handmade.put("anomaly_episodes", "r1", episode | lists | times | {"headline": "CPU.", "total_surprisal": 4.0})
    handmade.put("metric_catalog", None, {"platform": "gpu", "metric": "a", "status": "usable", "metric_class": "x"})
    handmade.thresholds(("dead", 1.0, 0.0, 0.0))
    return handmade


def test_findings_come_directly_after_the_runs(filled, capsys):
    reject(filled, *(f"line {number} has 3 fields, the header has 6" for number in range(400)))
    text = printed(filled, capsys)
    order = [
        "1 run accepted, 400 files rejected",
        "Most abnormal episodes",
        "Rejected files, by reason",
        "Metrics: 1 of 1 are watched by the detectors",
        "Metric groups that vary too little within runs",
        "What goes together",
        "Warehouse: ",
    ]
    places = [text.index(title) for title in order]
    assert places == sorted(places)
    assert "CPU. Busy% is high." in text


def test_rejections_are_grouped_by_reason_and_paths_are_whole(filled, capsys):
    reject(filled, *(f"line {number} has 3 fields, the header has 6" for number in range(400)), "empty")
    lines = [line.rstrip() for line in printed(filled, capsys).splitlines()]
    first = lines.index("Rejected files, by reason")
    assert lines[first + 1 : first + 6] == [
        "   400  line … has 3 fields, the header has 6",
        f"        {LONG}0000.txt and 399 others",
        "     1  empty",
        f"        {LONG}0400.txt",
        "        All are in the table rejected_files.",
    ]


def test_many_reasons_are_capped_and_the_others_counted(filled, capsys):
    reject(filled, *(f"reason {letter}" for letter in "abcdefghijk"), "reason k")
    text = printed(filled, capsys)
    assert "     2  reason k" in text
    assert text.count(".txt") == 8
    assert "        3 more reasons, 3 files\n" in text


def test_no_rejection_is_not_worth_a_line(filled, capsys):
    text = printed(filled, capsys)
    assert "1 run accepted, 0 files rejected" in text
    assert "Rejected files" not in text


def test_a_run_of_minutes_is_given_in_minutes(filled, capsys):
    row = next(line for line in printed(filled, capsys).splitlines() if line.startswith(" gpu        train"))
    assert row.split() == ["gpu", "train", "W", "1", "1", "3.9", "min"]


def test_nothing_that_a_file_is_named_reaches_the_terminal_as_a_command(filled, capsys):
    row = {"path": "/runs/[red]\x1b[31m.txt", "reason": "unknown \x07"}
    filled.put("rejected_files", None, row)
    text = printed(filled, capsys)
    assert "/runs/[red]\N{REPLACEMENT CHARACTER}[31m.txt" in text
    assert "\x1b" not in text
    assert "\x07" not in text


MINED: dict[str, object] = {"scope": "gpu", "runs": 11, "tested_runs": 11, "windows": 900, "groups": 9, "tested": 4812}
RULE: dict[str, object] = {
    "scope": "gpu", "antecedent": ["CPU_system_HIGH"], "consequent": ["Mem_faults_HIGH"], "confidence": 0.73,
    "expected": 0.43, "z": 5.0, "agreeing_runs": 9, "informative_runs": 11, "cross_subsystem": True,
    "examples": [{"run_key": "r1", "host": "h", "window": 7, "start_ts": START}], "shown": 1,
}  # fmt: skip
RECIPE = load_recipe("default")


@pytest.mark.parametrize(
    ("timing", "title"),
    [
        ("own", "at times of their own:"),
        ("course", "in the course of the job:"),
        ("unknown", "at times that cannot be told from the course of the job:"),
    ],
)
def test_rules_are_told_in_sentences(filled, capsys, timing, title):
    filled.put("mined_scopes", None, MINED | {"rules": 9})
    filled.put("association_rules", None, RULE | {"timing": timing, "sentence": rule_sentence(RULE, RECIPE)})
    text = printed(filled, capsys)
    assert "gpu: tested 4,812 combinations in 11 runs; 9 hold in most runs." in text
    filled.put("mined_scopes", None, MINED | {"rules": 9, "runs": 1_480, "tested_runs": 64})
    assert "gpu: tested 4,812 combinations in 64 of 1,480 runs; 9 hold in most runs." in printed(filled, capsys)
    assert title in text
    said = "While CPU system time is high, page faults are high: 73% of such windows, 43% would be expected in the same"
    assert said in text


def test_what_was_looked_at_in_vain_is_told_with_the_reason(filled, capsys):
    filled.put("mined_scopes", None, MINED | {"rules": 0, "why": "nothing that was tested holds in most runs"})
    assert "11 runs; none holds: nothing that was tested holds in most runs." in printed(filled, capsys)
    filled.put("mined_scopes", None, MINED | {"rules": 1})
    filled.put("association_rules", None, RULE | {"timing": "own", "cross_subsystem": False, "shown": None})
    assert "none of them ties what is high or low in one subsystem to another, beyond what runs" in printed(
        filled, capsys
    )


def test_orders_and_contrasts_are_told(filled, capsys):
    filled.put("mined_scopes", None, MINED | {"rules": 0, "why": "nothing that was tested holds in most runs"})
    order: dict[str, object] = {
        "scope": "gpu",
        "first": "Disk_write_HIGH",
        "then": "IO_pressure_HIGH",
        "lag_s": 1.0,
        "times": 66,
        "of": 108,
    }
    order |= {"expected": 26.2, "agreeing_runs": 8, "informative_runs": 14, "z": 9.0, "shown": 1}
    filled.put("sequential_patterns", None, order | {"sentence": sequence_sentence(order, RECIPE)})
    contrast: dict[str, object] = {
        "scope": "gpu",
        "kind": "fault",
        "within": "runs with it",
        "of": "hog",
        "against": "the rest",
    }
    contrast |= {
        "item": "CPU_busy_HIGH",
        "share": 0.96,
        "other_share": 0.01,
        "runs": 1,
        "other_runs": 1,
        "q_value": 0.001,
        "shown": 1,
    }
    filled.put("contrasts", None, contrast | {"sentence": contrast_sentence(contrast, RECIPE)})
    text = printed(filled, capsys)
    assert "Disk writes rise, then I/O pressure rises 1 s later: 66 of 108 times, 26 expected; 8 of 14 runs." in text
    assert "During hog, CPU utilization is high 96% of the time, else 1% (1 run)." in text


IDENTITY: dict[str, object] = {
    "platform": "gpu", "host": "h", "claimed": "gpu/train/W", "status": "as_claimed", "compared_runs": 14,
    "claimed_p_value": 0.5, "differs_in": [],
}  # fmt: skip


def identities(filled: HandMade, *rows: Mapping[str, object]) -> None:
    filled.put("run_identity", None, *({**IDENTITY, "run_key": f"r{i}", **row} for i, row in enumerate(rows)))


def test_runs_that_are_not_what_they_claim_are_named(filled, capsys):
    odd = {"claimed_p_value": 0.05}
    like_another = odd | {"status": "other", "nearest": "gpu/infer/V", "differs_in": ["GPU_util", "Mine"]}
    identities(filled, {}, {}, like_another, odd | {"status": "unknown"}, {"status": "too_few_runs"})
    text = " ".join(printed(filled, capsys).split())
    assert "2 of 4 runs look like the workload of the name." in text
    assert "r2 looks like gpu/infer/V, unlike in GPU utilization, Mine. r3 looks like none." in text
    assert "Of runs that are what they claim, 9% are not recognized." in text
    assert "Of 1 run it cannot be told: no other run has the same name, at another time." in text


def test_of_many_runs_that_are_not_what_they_claim_three_are_named(filled, capsys):
    identities(filled, *[{"status": "unknown"}] * 5)
    text = " ".join(printed(filled, capsys).split())
    assert text.count("looks like none") == 3
    assert "2 more do not look like theirs." in text


def test_that_all_runs_are_what_they_claim_takes_one_sentence(filled, capsys):
    identities(filled, {}, {})
    text = printed(filled, capsys)
    assert "- 2 of 2 runs look like the workload of the name." in text
    assert "not recognized" not in text
    assert "cannot be told" not in text


def test_what_cannot_be_told_of_any_run_says_what_it_takes(filled, capsys):
    identities(filled, {"status": "too_few_runs"})
    text = " ".join(printed(filled, capsys).split())
    assert "cannot be told: it takes 12 runs of a platform" in text


def test_of_runs_without_a_metric_in_a_group_nothing_can_be_told(filled, capsys):
    identities(filled)
    text = " ".join(printed(filled, capsys).split())
    assert "cannot be told: no metric of theirs is in a metric group." in text
