"""Runs that are hard to judge, through the whole folder: each gets a verdict, or one sentence that says why not."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from infrascope_core.pipeline import refresh
from infrascope_core.reports.products import report_files
from infrascope_core.store.folder import DataFolder
from tests.runs import write_run


def replace_column(path: Path, name: str, value) -> None:
    """Set a column's cells to `value(row, cell)`."""
    header, *rows = (line.split("\t") for line in path.read_text().splitlines())
    place = next(i for i, column in enumerate(header) if column.startswith(name))
    for number, row in enumerate(rows):
        row[place] = value(number, row[place])
    path.write_text("\n".join("\t".join(row) for row in (header, *rows)) + "\n")


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, dict]:
    """Reports by case: three healthy runs fit a baseline first, the others come after it."""
    root = tmp_path_factory.mktemp("reports")
    runs = root / "runs"
    folder = DataFolder(root / "data", sources=(runs,))
    for second in (1, 2, 3):
        write_run(runs, second)
    refresh(folder)
    cases = {
        "one window": write_run(runs, 11, samples=30),
        "too short": write_run(runs, 12, samples=12),
        "few windows": write_run(runs, 13, samples=70),
        "unknown host": write_run(runs, 14, host="stranger"),
        "unknown workload": write_run(runs, 15, model="New"),
        "unknown workload, short": write_run(runs, 19, model="Short", samples=200),
        "metric that stops": write_run(runs, 16),
        "infinite column": write_run(runs, 17),
        "all excluded": write_run(runs, 18),
    }
    replace_column(cases["metric that stops"], "Storage_diff", lambda row, cell: cell if row < 200 else "")
    replace_column(cases["infinite column"], "Storage_diff", lambda row, cell: "inf")
    for name in ("AverageCPU", "Memory", "Storage_diff", "NetworkInterStat_diff", "Interrupts_diff"):
        replace_column(cases["all excluded"], name, lambda row, cell: "")
    refresh(folder)
    return {name: json.loads(report_files(folder, path.stem)[1].read_text()) for name, path in cases.items()}


@pytest.mark.parametrize("kind", ["vanishes", "arrives late", "stands still"])
def test_the_first_run_of_a_workload_shows_what_becomes_of_its_metrics(tmp_path, kind):
    runs = tmp_path / "runs"
    path, name = write_run(runs, 1), "AverageCPU"
    change = {
        "vanishes": lambda row, cell: cell if row < 150 else "",
        "arrives late": lambda row, cell: "" if row < 150 else cell,
        "stands still": lambda row, cell: cell if row < 150 else "31.4159",
    }
    replace_column(path, name, lambda row, cell: f"{30 + (row * 7919 % 100) / 40:.4f}")
    replace_column(path, name, change[kind])
    folder = DataFolder(tmp_path / "data", sources=(runs,))
    refresh(folder)
    report = json.loads(report_files(folder, path.stem)[1].read_text())
    (episode,) = report["episodes"]
    began = datetime.fromisoformat(report["started_at"])
    start, end = ((datetime.fromisoformat(episode[at]) - began).total_seconds() for at in ("start", "end"))
    changed = (0.0, 15.0) if kind == "arrives late" else (15.0, 40.0)
    assert report["verdict"] == "anomalous" and episode["subsystems"][0]["subsystem"] == "CPU"
    assert (start, end) == pytest.approx(changed, abs=3.0)
    assert "flagged by ." not in report_files(folder, path.stem)[0].read_text()
    # what is wrong is said; that nothing else could be judged, too
    assert "AverageCPUUtilization" in episode["claims"][0]
    assert any("no other run" in limit or "no baseline" in limit for limit in report["limits"])


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("one window", "h1 has one window only: nothing in the run can be compared with it."),
        ("too short", "The run has 12 samples, fewer than the 30 of one window."),
        ("few windows", "h1 has 5 windows only: a short disturbance fills a large part of them."),
        (
            "unknown host",
            "No run of the baseline is from stranger: what is peculiar to its hardware makes it differ as a whole.",
        ),
        (
            "unknown workload",
            "There is no other run of train New__ImageClassification__Digits on cpu to judge this one by: it takes 1 "
            "more. Compared with itself alone, what comes and goes can stand out, what lasts cannot.",
        ),
        (
            "unknown workload, short",
            "train Short__ImageClassification__Digits has no baseline of its own and is judged by all workloads on "
            "cpu: what is peculiar to it may count as abnormal.",
        ),
        ("metric that stops", "1 metric stopped before the end: Storage_diff:sectors_written[count]."),
        (
            "infinite column",
            "Infinite values in 1 metric count as missing: Storage_diff:sectors_written[count].",
        ),
        ("all excluded", "None of the run's 5 metrics can be used (in this run: 5 missing)."),
    ],
)
def test_what_makes_a_run_hard_to_judge_is_reported(reports, case, sentence):
    assert sentence in reports[case]["limits"]


def test_every_run_has_a_verdict_that_fits(reports):
    verdicts = {case: report["verdict"] for case, report in reports.items()}
    assert {case for case, verdict in verdicts.items() if verdict == "not_judged"} == {
        "too short",
        "all excluded",
        "unknown workload",
    }
    for case in ("too short", "all excluded", "unknown workload"):
        assert reports[case]["why"] == reports[case]["limits"][0]
