"""Pages in a real browser: nothing is loaded, nothing is complained of, and what is drawn is what the tables hold."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from infrascope_core.pages.html import asset
from infrascope_core.pages.products import index_file, page_file
from infrascope_core.pages.run_content import chosen_metrics
from infrascope_core.pages.settings import PageSettings
from infrascope_core.quantities import quantity
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.run_files.labels import labels_path
from infrascope_core.run_files.runs import accepted
from tests.core.pages.handmade import METRIC, START, data_of, episodes_at, run_tables, shown, written
from tests.runs import write_run


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
    starts = page.locator("#runs tbody .of-start").all_text_contents()
    assert starts == sorted(starts)
    page.get_by_role("button", name="Start").click()
    assert page.locator("#runs tbody .of-start").all_text_contents() == sorted(starts, reverse=True)
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
    times = START + np.arange(SAMPLES) / 10
    tables = run_tables(times, episodes=episodes_at([SPIKE / 10]))
    values = np.ones(SAMPLES)
    values[SPIKE] = 100.0
    assert chosen_metrics(tables, PageSettings()) == [("h", METRIC)]
    return written(tmp_path / "spiked.html", tables, {("h", METRIC): values})


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
    """A fault and a metric that are markup, turn the direction of what follows, or are as long as a name may be."""
    evil = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m\"'"
    long = "x" * 255
    path = write_run(tmp_path / "runs", 1, samples=400)
    text = path.read_text(encoding="utf-8")
    first, second = re.split(r"\t", text.splitlines()[0])[2:4]
    text = text.replace(first, "Evil:<b>x</b>\u202e&amp;.h1[%]", 1).replace(second, f"Long:{long}.h1[kB]", 1)
    path.write_text(text, encoding="utf-8")
    quoted = evil.replace('"', '""')
    labels_path(path).write_text(
        "start,end,fault,subsystem,metrics\n"
        f'2026-11-01 10:00:05,2026-11-01 10:00:09,"{quoted}",CPU,\n'
        f"2026-11-01 10:00:15,2026-11-01 10:00:19,{long},CPU,\n",
        encoding="utf-8",
    )
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    key = accepted(folder)["run_key"][0]
    page = visit(page_file(folder, key))
    shown_text = page.locator("body").inner_text()
    spelled = evil.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert f"Known fault: {spelled}, 10:00:05 to 10:00:09." in shown_text
    assert f"Known fault: {long}, 10:00:15 to 10:00:19." in shown_text
    names = data_of(page)["heat"]["metrics"]
    assert "Evil:<b>x</b>\\u202e&amp;[%]" in names
    assert f"Long:{long}[kB]" in names
    assert page.locator("img, b").count() == 0
    assert all(c.isprintable() or c == "\n" for c in page_file(folder, key).read_text(encoding="utf-8"))
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_timeout(200)
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
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
