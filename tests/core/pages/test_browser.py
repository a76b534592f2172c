"""Pages in a real browser: nothing is loaded, nothing is complained of, and what is drawn is what the tables hold."""

from __future__ import annotations

import json
import re
from datetime import timedelta

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
from infrascope_core.run_files.name import labels_path
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


def test_all_that_shows_time_is_zoomed_with_an_episode(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    picture = "canvas => canvas.toDataURL()"
    charts = page.locator("#ribbon canvas, #charts canvas").all()
    before = [chart.evaluate(picture) for chart in charts]
    page.locator(".episode").first.click()
    assert all(chart.evaluate(picture) != one for chart, one in zip(charts, before, strict=True))
    zoomed = shown(page).removeprefix("Shown: ").split(",")[0].split(" to ")
    axes = page.locator(".axis").all()
    assert len(axes) == 4
    for axis in axes:
        times = axis.locator("span").all_text_contents()
        assert [times[0], times[-1]] == zoomed
    lane = page.locator("#heat canvas").first
    assert lane.bounding_box()["width"] > page.locator("#heat .lane").first.bounding_box()["width"]


def test_buttons_do_what_keys_do(sample, faulty, visit):
    page = visit(page_file(sample, faulty))
    whole = shown(page)
    for button, key in (("#next", "n"), ("#previous", "p")):
        page.locator(button).click()
        by_button = shown(page)
        assert by_button.endswith("around episode 1 of 1")
        page.locator("#reset").click()
        assert shown(page) == whole
        page.keyboard.press(key)
        assert shown(page) == by_button
        page.keyboard.press("Escape")
    page.locator("#filter").press("n")  # a letter, where somebody writes
    assert shown(page) == whole
    assert page.locator("#filter").input_value() == "n"


def test_nothing_is_said_by_hovering_only(sample, faulty, visit):
    for file in (page_file(sample, faulty), index_file(sample)):
        page = visit(file)
        assert page.locator("[title]").count() == 0
        assert page.locator("svg title").count() == 0
    page = visit(page_file(sample, faulty))
    cut = """() => [...document.querySelectorAll('.name, figcaption')].filter(
               (element) => element.scrollWidth > element.clientWidth + 1).length"""
    assert page.evaluate(cut) == 0


def test_on_paper_all_is_unfolded_and_nothing_is_dark(sample, faulty, visit):
    page = visit(page_file(sample, faulty), dark=True)
    colour = "() => getComputedStyle(document.body).backgroundColor"
    rows = page.locator("section[aria-labelledby=h-table] tbody tr").first
    assert page.evaluate(colour) == "rgb(13, 17, 23)"
    assert not rows.is_visible()
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    assert rows.is_visible()
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(colour) == "rgb(13, 17, 23)"
    assert not rows.is_visible()
    for file in (page_file(sample, faulty), index_file(sample)):
        page = visit(file, dark=True)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 760, "height": 1000})  # a sheet of A4
        page.wait_for_timeout(200)
        assert page.evaluate(colour) == "rgb(255, 255, 255)"
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("day", ["", "2026-11-20T", "2026-11-20 "])
def test_a_link_leads_to_a_moment(sample, faulty, visit, day):
    at = accepted(sample).filter(run_key=faulty)["started_at"][0] + timedelta(seconds=20)
    page = visit(page_file(sample, faulty), f"#t={day}{at:%H:%M:%S}")
    around = [f"{at + timedelta(seconds=by):%H:%M:%S}" for by in (-15, 15)]
    assert shown(page) == f"Shown: {around[0]} to {around[1]}"


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("#t=03:00:00", "03:00:00 is not within this run."),
        ("#t=1:2", "Shown: the whole run"),
        ("#%E0%A4%A", "Shown: the whole run"),
    ],
)
def test_a_link_to_nowhere_says_so(sample, faulty, visit, fragment, said):
    assert shown(visit(page_file(sample, faulty), fragment)).startswith(said)


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


def test_the_chart_library_is_the_one_that_is_named():
    assert asset("uPlot.iife.min.js").startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    assert "MIT License" in asset("uPlot.LICENSE")


def test_no_line_leads_across_a_gap_in_the_sampling(sample, faulty, visit):
    """A missing value in the middle of each gap; where least and largest are one list, it is put in once."""
    page = visit(page_file(sample, faulty))
    source = re.search(r"^function broken.*?^}$", asset("run.js"), re.DOTALL | re.MULTILINE)
    assert source is not None
    broken = f"([x, low, high, gaps]) => {{ {source[0]} return broken([x, low, high], gaps); }}"
    times = [0.0, 1.0, 5.0, 6.0]
    assert page.evaluate(broken, [times, [1, 2, 3, 4], [2, 3, 4, 5], [[1.0, 5.0]]]) == [
        [0.0, 1.0, 3.0, 5.0, 6.0], [1, 2, None, 3, 4], [2, 3, None, 4, 5],
    ]  # fmt: skip
    shared = f"([x, values, gaps]) => {{ {source[0]} return broken([x, values, values], gaps)[1]; }}"
    assert page.evaluate(shared, [times, [1, 2, 3, 4], [[1.0, 5.0]]]) == [1, 2, None, 3, 4]
    assert page.evaluate(shared, [times, [1, 2, 3, 4], [[-9.0, -5.0], [7.0, 9.0]]]) == [1, 2, 3, 4]
