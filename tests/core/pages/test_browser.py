"""Pages in a real browser: nothing is loaded, nothing is complained of, and what is drawn is what the tables hold."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Page

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, LEVEL_OFFSETS
from infrascope_core.pages.html import CHART_LIBRARY, asset, run_view
from infrascope_core.pages.html import page as page_of
from infrascope_core.pages.products import RUN_SCRIPTS, index_file, page_file
from infrascope_core.pages.run_content import RunTables, chosen_metrics, run_data
from infrascope_core.pages.settings import PageSettings
from infrascope_core.quantities import quantity
from infrascope_core.recipes import load_recipe
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.symbols.tables import BASKETS
from tests.runs import write_run

BARE: dict[str, object] = {
    "run_key": "r", "platform": "cpu", "phase": "train", "workload": "W", "hosts": ["h"], "started_at": None,
    "verdict": "anomalous", "why": "why", "next_step": "next", "baseline": "none", "windows": 0, "judged_windows": 0,
    "flagged_windows": 0, "anomalous_windows": 0, "limits": [], "episodes": [], "table": [], "table_left_out": 0,
    "offsets": [], "offsets_left_out": 0, "deviations": [], "not_watched": [],
}  # fmt: skip
BARE_EPISODE: dict[str, object] = {
    "host": "h", "peak": datetime(2023, 11, 14, 22, 43), "first_window": 0, "last_window": 0, "peak_window": 0,
    "windows": 1, "total_surprisal": 9.0, "surprisal": 9.0, "severity": 1.0, "detectors": [], "subsystems": [],
    "onset": [], "metrics": ["m[%]"], "claims": [], "changes": [], "broken_rules": [], "retransmissions": None,
    "headline": "A spike.", "next_step": "next",
}  # fmt: skip


def data_of(page: Page) -> dict:
    return json.loads(page.locator("#data").text_content() or "")


def shown(page: Page) -> str:
    return page.locator("#shown").text_content() or ""


@pytest.fixture(scope="module")
def faulty(sample) -> str:
    worst = pl.concat([sample.lake.read(ANOMALY_EPISODES, key) for key in accepted(sample)["run_key"]])
    return str(worst.sort("total_surprisal", descending=True)["run_key"][0])


def test_the_page_says_what_the_report_says(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    report = json.loads(report_files(sample, faulty)[1].read_text())
    text = page.locator("body").inner_text()
    for sentence in (report["why"], report["next_step"], *report["limits"], report["episodes"][0]["headline"]):
        assert sentence in text
    assert page.locator(".verdict").text_content() == "Anomalous"
    for claim in report["episodes"][0]["claims"]:
        assert claim in page.locator(".episodes").text_content()
    rows = page.locator("section[aria-labelledby=h-table] tbody tr")
    assert rows.count() == len(report["table"])
    above = page.locator(".next").bounding_box()
    assert above["y"] + above["height"] < 900  # verdict, why and what to do, without scrolling


def test_charts_hold_the_metrics_of_the_episodes_and_are_drawn(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    metrics = sample.lake.read(ANOMALY_EPISODES, faulty)["metrics"][0].to_list()
    captions = [caption.split(" ")[0] for caption in page.locator("#charts figcaption").all_text_contents()]
    assert captions[0] == metrics[0].split(" ")[0]
    assert 8 <= len(captions) <= 24
    assert page.locator("#charts canvas").count() == len(captions)
    painted = page.evaluate(
        """() => [...document.querySelectorAll('canvas')].every((canvas) => {
             const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
             return data.some((value) => value !== 0);
           })"""
    )
    assert painted


def test_an_episode_zooms_all_charts_and_keys_walk_through(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    whole = shown(page)
    assert whole.startswith("Shown: the whole run")
    page.locator(".episode").first.click()
    zoomed = shown(page)
    assert zoomed != whole
    episode = data_of(page)["episodes"][0]
    ranges = page.evaluate("() => [...document.querySelectorAll('.uplot')].length")
    assert ranges > 1
    assert page.locator(".episode").first.get_attribute("aria-pressed") == "true"
    page.keyboard.press("0")
    assert shown(page) == whole
    page.keyboard.press("n")
    assert shown(page) != whole
    page.keyboard.press("Escape")
    page.locator("#previous").click()
    assert shown(page) != whole
    assert episode["to"] > episode["from"]


def test_a_link_leads_to_a_moment(sample, faulty, visit):
    start = accepted(sample).filter(run_key=faulty)["started_at"][0]
    page = visit(page_file(sample, faulty), f"#t={start:%H:%M:}{start.second + 20:02d}")
    assert not shown(page).startswith("Shown: the whole run")


def test_a_metric_that_is_asked_for_is_shown(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    metrics = data_of(page)["heat"]["metrics"]
    assert page.locator("#heat .name").count() <= len(metrics)
    page.locator("#filter").fill("cpu:cpu1")
    names = page.locator("#heat .name").all_text_contents()
    assert names == [name for name in metrics if "cpu:cpu1" in name.lower()]
    page.locator("#filter").fill("nobody is called so")
    assert page.locator("#heat .name").count() == 0
    assert page.locator("#matches").text_content() == "0 metrics"


def test_the_index_sorts_filters_and_leads_to_every_run(sample, visit):
    page = visit(index_file(sample))
    runs = accepted(sample)["run_key"].to_list()
    assert page.locator("#runs tbody tr").count() == len(runs)
    links = page.locator("#runs a").evaluate_all("links => links.map((link) => link.href)")
    assert len(set(links)) == len(runs)
    verdicts = pl.concat([sample.lake.read(ANOMALY_REPORT, key) for key in runs])["verdict"]
    page.locator("#filter").fill("anomalous")
    assert page.locator("#runs tbody tr").count() == int((verdicts == "anomalous").sum())
    page.locator("#filter").fill("")
    page.get_by_role("button", name="Start").click()
    starts = page.locator("#runs tbody tr td:nth-child(6)").all_text_contents()
    assert starts == sorted(starts)
    page.get_by_role("button", name="Start").click()
    assert page.locator("#runs tbody tr td:nth-child(6)").all_text_contents() == sorted(starts, reverse=True)
    page.locator("#runs a").first.click()
    page.wait_for_selector(".verdict")
    page.locator(".path a").click()
    page.wait_for_selector("#runs")


def test_quantities_are_written_as_in_reports(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    cases = [(0.0, "%"), (28.31, "%"), (506.2 * 1024**2, "Bytes/s"), (1204.0, "count"), (3.4, "kB"), (12345.6, "us"),
             (0.25, "-"), (-7.0, "W"), (25_281_000.0, "kB")]  # fmt: skip
    code = asset("quantity.js").split("/** A time of day")[0]
    page.evaluate("() => 1")
    for value, unit in cases:
        found = page.evaluate(f"([value, unit]) => {{ {code}; return quantity(value, unit); }}", [value, unit])
        assert found == quantity(value, unit), (value, unit)


@pytest.mark.parametrize("width", [400, 1440])
def test_nothing_is_wider_than_the_window(sample, faulty, visit, width):
    for file in (page_file(sample, faulty), index_file(sample)):
        page = visit(file)
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


SAMPLES, SPIKE = 30_000, 17_777


@pytest.fixture
def spiked(tmp_path):
    """A page of 50 minutes at 100 ms in which one sample of one metric is 100, and an episode around it."""
    start = 1.7e9
    moments = [datetime(2023, 11, 14, 22, 13, 20) + timedelta(seconds=SPIKE / 10 + s) for s in (-2, 2)]
    episode = {
        "run_key": "r", "host": "h", "episode": 0, "first_window": 0, "start_ts": moments[0],
        "end_ts": moments[1], "metrics": ["m[%]"], "total_surprisal": 9.0,
    }  # fmt: skip
    tables = RunTables(
        times={"h": start + np.arange(SAMPLES) / 10},
        scores=ANOMALY_SCORES.empty(),
        reasons=ANOMALY_REASONS.empty(),
        episodes=pl.DataFrame([episode], schema_overrides={"start_ts": pl.Datetime("us"), "end_ts": pl.Datetime("us")}),
        offsets=LEVEL_OFFSETS.empty(),
        faults=FAULTS.empty(),
        baskets=BASKETS.empty(),
        window_s=3.0,
    )
    values = np.ones(SAMPLES)
    values[SPIKE] = 100.0
    assert chosen_metrics(tables, PageSettings()) == [("h", "m[%]")]
    data = run_data(tables, {("h", "m[%]"): values}, load_recipe("default"), PageSettings())
    report = RunReport.model_validate(BARE | {"episodes": [BARE_EPISODE | {"start": moments[0], "end": moments[1]}]})
    row = {"source": "f", "sha256": "0", "samples": SAMPLES, "metrics": 1, "interval_s": 0.1}
    scripts = (CHART_LIBRARY, *RUN_SCRIPTS)
    file = tmp_path / "spiked.html"
    file.write_text(page_of("run.html.jinja", scripts, run_view(report, row, load_recipe("default")), data))
    return file


def test_a_spike_of_one_sample_is_drawn_at_both_levels(spiked, visit):
    page = visit(spiked)
    (chart,) = data_of(page)["charts"]
    assert len(chart["details"]) == 1
    assert len(chart["whole"]["low"]) * 3 / 4 / 4 <= PageSettings().points + 1
    near_top = """() => {
      const canvas = document.querySelector('#charts canvas');
      const { width, height } = canvas;
      const { data } = canvas.getContext('2d').getImageData(0, 0, width, Math.round(height * 0.25));
      let found = 0;
      for (let i = 0; i < data.length; i += 4) found += data[i + 2] > 120 && data[i] < 60 && data[i + 3] > 100;
      return found;
    }"""
    assert page.evaluate(near_top) > 0
    whole = page.locator("#charts canvas").screenshot()
    page.locator(".episode").click()
    page.wait_for_timeout(100)
    assert page.evaluate(near_top) > 0
    assert page.locator("#charts canvas").screenshot() != whole


def test_hostile_names_stay_text(tmp_path, make_all, visit):
    """A fault, a workload and a metric that are markup; and a run of which nothing could be judged."""
    evil = "</script><img src=x onerror=alert(1)>\u202e\"'"
    path = write_run(tmp_path / "runs", 1, samples=400)
    text = path.read_text(encoding="utf-8")
    metric = re.split(r"\t", text.splitlines()[0])[3]
    path.write_text(text.replace(metric, "Evil:<b>x<" + "/b>.h1[%]", 1), encoding="utf-8")
    labels = (
        path.with_suffix("").with_suffix(".faults.csv") if path.suffix == ".gz" else path.with_suffix(".faults.csv")
    )
    labels.write_text(
        "start,end,fault,subsystem,metrics\n"
        f'2026-11-01T10:00:05,2026-11-01T10:00:09,"{evil.replace(chr(34), chr(34) * 2)}",CPU,\n',
        encoding="utf-8",
    )
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    key = accepted(folder)["run_key"][0]
    page = visit(page_file(folder, key))
    assert page.locator("img").count() == 0
    assert page.locator("b").count() == 0
    assert "\u202e" not in page.locator("body").inner_text()
    visit(index_file(folder))


def test_a_run_without_anything_to_judge_has_a_page(tmp_path, make_all, visit):
    path = write_run(tmp_path / "runs", 1, samples=12)
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    page = visit(page_file(folder, path.stem.removesuffix(".txt")))
    text = page.locator("main").inner_text()
    assert "No window of this host could be judged." in text
    assert "Nothing was compared: there is no baseline for this run." in text


def test_the_chart_library_is_the_one_that_is_named():
    assert asset("uPlot.iife.min.js").startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    assert "MIT License" in asset("uPlot.LICENSE")
