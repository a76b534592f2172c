"""Pages of runs that have nothing, or very much of it."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.tables import METRIC_DEVIATIONS
from infrascope_core.pages.products import index_file, page_file
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from tests.core.pages.handmade import BEGIN, METRIC, START, data_of, episodes_at, run_tables, shown, written
from tests.runs import write_run


def test_a_run_without_anything_to_judge_has_a_page(tmp_path, make_all, visit):
    path = write_run(tmp_path / "runs", 1, samples=12)
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    page = visit(page_file(folder, path.stem))
    text = page.locator("main").inner_text()
    assert "No window of this host could be judged." in text
    assert "Nothing was compared: there is no baseline for this run." in text
    assert not page.locator("#heat-tools").is_visible()
    page.keyboard.press("n")  # there is no episode to go to
    assert shown(page).startswith("Shown: the whole run")
    index = visit(index_file(folder))
    assert "1 run of 1.2 s that could not be judged" in index.locator("main").inner_text()


def test_a_run_without_an_episode_says_that_it_is_normal(sample, visit):
    reports = pl.concat([sample.lake.read(ANOMALY_REPORT, key) for key in accepted(sample)["run_key"]])
    key = reports.filter(verdict="normal")["run_key"][0]
    page = visit(page_file(sample, key))
    assert page.locator(".verdict").text_content() == "Normal"
    assert page.locator(".episode").count() == 0
    assert page.locator("#charts canvas").count() == 8  # what departs most, alarm or not
    assert "No window has an alarm." in page.locator("#subsystems").inner_text()


def test_a_run_of_which_all_values_are_missing_has_a_page(tmp_path, make_all, visit):
    path = write_run(tmp_path / "runs", 1, samples=200)
    head, *lines = path.read_text().splitlines()
    blank = "\t" * head.count("\t")
    path.write_text("\n".join([head, *(line.split("\t")[0] + blank for line in lines)]) + "\n")
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    page = visit(page_file(folder, path.stem))
    assert page.locator(".verdict").text_content() == "Not judged"
    assert data_of(page)["charts"] == []
    assert "NaN" not in page.locator("body").inner_text()


def test_200_episodes_are_walked_through_in_time(tmp_path, visit):
    times = START + np.arange(40_000) / 10
    middles = [float(20 * ((37 * i) % 200) + 10) for i in range(200)]  # the strongest is not the first
    tables = run_tables(times, episodes=episodes_at(middles))
    page = visit(written(tmp_path / "many.html", tables, {("h", METRIC): np.ones(len(times))}))
    visible = page.locator(".episode:visible")
    assert visible.count() == 8
    assert page.locator("#all-episodes").text_content() == "Show all 200 episodes"
    page.keyboard.press("n")
    assert shown(page) == "Shown: 22:13:24 to 22:13:36, around episode 1 of 200"
    page.keyboard.press("n")
    second = middles.index(30.0)
    assert shown(page).endswith(f"around episode {second + 1} of 200")
    assert visible.count() == 200  # the one that is shown is in the list
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert shown(page).endswith(f"around episode {middles.index(3990.0) + 1} of 200")
    assert page.locator(".episode[aria-pressed=true]").count() == 1


def many_metrics(number: int, stretches: int = 50) -> pl.DataFrame:
    """Deviations of so many metrics: cores of one family, and names that are families of their own."""
    names = sorted(
        [f"CPU:CPU{i}Utilization[%]" for i in range(number // 2)] + [f"Odd:x{i}y[W]" for i in range(number // 2)]
    )
    at = [BEGIN + timedelta(seconds=i) for i in range(stretches)]
    frame = pl.DataFrame({"metric": names}).join(
        pl.DataFrame({"stretch": range(stretches), "start_ts": at}), how="cross"
    )
    return frame.select(
        pl.lit("r").alias("run_key"),
        pl.lit("h").alias("host"),
        "metric",
        "stretch",
        "start_ts",
        end_ts=pl.col("start_ts") + timedelta(seconds=3),
        deviation=(pl.col("metric").hash() % 90 / 10).cast(pl.Float64),
        expected_low=pl.lit(None, pl.Float64),
        expected_high=pl.lit(None, pl.Float64),
    ).cast(METRIC_DEVIATIONS.schema)


@pytest.fixture
def crowded(tmp_path, visit):
    """A page of 3,000 metrics, half of them of one family."""
    tables = run_tables(START + np.arange(600) / 10, deviations=many_metrics(3000))
    return visit(written(tmp_path / "crowded.html", tables, {}))


def test_of_3000_metrics_each_is_found_by_its_name(crowded):
    names = data_of(crowded)["heat"]["metrics"]
    assert len(names) == 3000
    rows = crowded.locator("#heat .name")
    assert rows.count() == 1501  # a family of 1500, and 1500 others
    assert crowded.locator("#matches").text_content() == "3000 metrics in 1501 families"
    for asked in (names[0], names[1234], names[-1]):
        crowded.locator("#filter").fill(asked)
        assert asked in rows.all_text_contents()
    crowded.locator("#filter").fill("utilization")  # too many for a list: a family, of which none is left out
    assert rows.all_text_contents() == ["CPU:CPU#Utilization[%] (1500)"]
    fold = crowded.locator("#heat .fold")
    fold.click()
    assert fold.get_attribute("aria-expanded") == "true"
    assert fold.evaluate("button => button === document.activeElement")
    assert rows.count() == 1501
    assert set(rows.all_text_contents()[1:]) == {name for name in names if "Utilization" in name}
    fold.press("Enter")
    assert rows.count() == 1
    crowded.locator("#unfold-all").click()
    assert rows.count() == 1501
    crowded.locator("#fold-all").click()
    assert rows.count() == 1


@pytest.mark.slow
def test_3000_metrics_are_soon_there_and_zoom_fast(crowded):
    crowded.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
    paint = crowded.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 1500
    crowded.locator("#unfold-all").click()
    assert crowded.locator("#heat .name").count() == 3001
    took = crowded.evaluate(
        """() => new Promise((done) => {
             const start = performance.now();
             const drawn = () => requestAnimationFrame(() => done(performance.now() - start));
             addEventListener('hashchange', () => requestAnimationFrame(drawn));
             location.hash = '#t=22:13:50';
           })"""
    )
    assert shown(crowded) == "Shown: 22:13:35 to 22:14:05"
    assert took < 500
