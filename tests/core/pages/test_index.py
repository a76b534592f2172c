"""The index: what is asked of a column, what the totals say, and what they leave out."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.anomalies.tables import ANOMALY_SCORES
from infrascope_core.pages.fleet_content import fleet_content, fleet_row
from infrascope_core.pages.html import page as page_of
from infrascope_core.pages.products import FLEET_SCRIPTS, index_file
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_PATTERNS, ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES


def run_row(name: str, share: float | None, **more) -> dict:
    """A row of the index: a run of an hour."""
    row = {
        "run": name, "link": f"runs/{name}.html", "verdict": "Normal" if share == 0 else "Anomalous", "platform": "cpu",
        "phase": "train", "workload": "W", "host": "h1", "hosts": 1, "start": "2026-11-01 10:00:00", "seconds": 3600.0,
        "share": share, "episodes": 2 if share else 0, "per_day": 48.0 if share else 0.0, "subsystem": "CPU",
        "said": "CPU; most of the evidence.", "spark": "0z0",
    }  # fmt: skip
    return row | more


ROWS = [
    run_row("a", 0.5, subsystem="CPU"),
    run_row("b", 0.1, subsystem="Memory", host="h2", seconds=7200.0, said="Memory and swap."),
    run_row("c", 0.0, subsystem="", episodes=0, said="None of 9 windows is anomalous.", workload="V"),
    run_row("d", None, verdict="Not judged", subsystem="", said="It is too short.", seconds=10.0, per_day=None),
    run_row("e", None, verdict="Not judged", subsystem="", said="It is too short.", seconds=20.0, per_day=None),
    run_row("f", None, verdict="Not judged", subsystem="", said="There is no baseline.", per_day=None),
]
PATTERNS = pl.DataFrame(
    [
        {"platform": "cpu", "phase": "train", "workload": "W", "subsystem": subsystem, "metric": metric,
         "feature": "mean", "seconds": seconds, "share": seconds / 10_800, "of_anomalous": seconds / 2520, "runs": 1}
        for subsystem, metric, seconds in (("CPU", "a[%]", 1800.0), ("Memory", "b", 500.0), ("Memory", "c", 220.0))
    ],
    schema=ANOMALY_PATTERNS.schema,
)  # fmt: skip
REJECTED = pl.DataFrame(
    [("x.txt", "x", "line 3: expected 5 fields", datetime(2026, 1, 1))], schema=REJECTED_FILES.schema, orient="row"
)


@pytest.fixture
def index(tmp_path, visit):
    view, data = fleet_content(ROWS, REJECTED, PATTERNS)
    file = tmp_path / "index.html"
    whole = page_of("fleet.html.jinja", FLEET_SCRIPTS, view, data)
    file.write_text(whole, encoding="utf-8")
    return visit(file)


def runs_of(page) -> set[str]:
    return set(page.locator("#runs tbody .of-run").all_text_contents())


def test_a_column_is_asked_for_words_and_numbers(index):
    for column, asked, found in (
        ("Run", "B", "b"), ("What happened", "swap", "b"), ("Anomalous", "10", "ab"), ("Anomalous", "> 10 %", "a"),
        ("Anomalous", "< 5", "c"), ("Episodes", "=2", "ab"), ("Alerts per day", ".5", "ab"), ("Length", "<1 min", "de"),
        ("Length", "2h", "b"), ("Start", "2026-11", "abcdef"),
    ):  # fmt: skip
        index.get_by_label(f"Filter by {column.lower()}", exact=True).fill(asked)
        assert runs_of(index) == set(found), (column, asked)
        assert index.locator("#matches").text_content() == f"{len(found)} of 6 runs"
        index.locator("#clear").click()
        assert len(runs_of(index)) == 6


def test_of_a_column_with_few_values_one_is_chosen(index):
    for column, asked, found in (
        ("Verdict", "Not judged", "def"), ("Subsystem", "Memory", "b"), ("Host", "h2", "b"), ("Workload", "V", "c"),
        ("Phase", "train", "abcdef"), ("Platform", "cpu", "abcdef"),
    ):  # fmt: skip
        index.get_by_label(f"Filter by {column.lower()}", exact=True).select_option(asked)
        assert runs_of(index) == set(found), (column, asked)
        index.locator("#clear").click()


def test_filters_hold_together_and_what_is_no_number_is_said_to_be_none(index):
    index.locator("#filter").fill("anomalous")
    assert runs_of(index) == {"a", "b"}  # not the run of which nothing is anomalous
    episodes = index.get_by_label("Filter by episodes", exact=True)
    episodes.fill("many")
    assert episodes.get_attribute("aria-invalid") == "true"
    assert runs_of(index) == {"a", "b"}
    index.get_by_label("Filter by host", exact=True).select_option("h1")
    assert runs_of(index) == {"a"}


def test_totals_are_of_judged_time_and_say_what_they_leave_out(index):
    def table(what: str) -> list[list[str]]:
        rows = index.locator(f"h3:has-text('By {what}') + .wide tbody tr").all()
        return [row.locator("td").all_text_contents() for row in rows]

    # 1800 s of 3600 s in run a, 720 s of 7200 s in run b
    assert table("workload") == [["train W", "23.33%", "2"], ["train V", "0.00%", "1"]]
    assert table("host") == [["h1", "25.00%", "2"], ["h2", "10.00%", "1"]]
    # of 14,400 s
    assert table("subsystem") == [["CPU", "12.50%"], ["Memory", "5.00%"]]
    said = index.locator("main").inner_text()
    assert "2 runs of 30 s that could not be judged: It is too short." in said
    assert "1 run of 1.0 h that could not be judged: There is no baseline." in said
    assert "x.txt: line 3: expected 5 fields" in said
    # four episodes in 14,400 s
    assert "24.00 alerts per host and day of judged time" in index.locator("header").inner_text()


def test_a_run_without_a_report_or_windows_is_not_judged():
    run = {"run_key": "r", "platform": "cpu", "phase": "train", "workload": "W", "host": "h", "started_at": None,
           "seconds": None}  # fmt: skip
    row = fleet_row(run, ANOMALY_REPORT.empty(), ANOMALY_SCORES.empty(), ANOMALY_EPISODES.empty(), Path("x y"))
    assert (row["verdict"], row["share"], row["spark"], row["link"]) == ("Not judged", None, "", "x%20y")
    view, _ = fleet_content([row], REJECTED_FILES.empty(), ANOMALY_PATTERNS.empty())
    assert view["left_out"] == [("there is no report on it", 1, "0 s")]
    assert view["alerts"] is None


def test_subsystems_share_the_anomalous_time_of_the_sample(sample, visit):
    page = visit(index_file(sample))

    def total(what: str) -> float:
        cells = page.locator(f"h3:has-text('By {what}') + .wide td:nth-child(2)").all_text_contents()
        return sum(float(cell.rstrip("%")) for cell in cells)

    assert accepted(sample)["host"].n_unique() == 1
    assert total("subsystem") == pytest.approx(total("host"), abs=0.03)
