"""A host beside the other hosts of its job, as the page of its run draws it."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from infrascope_core.pages.html import data_of
from infrascope_core.pages.packing import from_singles
from infrascope_core.pages.products import page_file
from infrascope_core.pages.run_content import Beside, run_data
from infrascope_core.pages.settings import PageSettings
from infrascope_core.recipes import load_recipe
from infrascope_core.run_files.runs import accepted
from tests.core.pages.handmade import METRIC, START, run_tables
from tests.generated import write

PAGES = "Memory:HugePages_Total[kB]"


def beside(times, values, *others) -> dict:
    """What is drawn of host `h` beside others."""
    one = Beside("h", METRIC, np.asarray(values, dtype=float), [(np.asarray(t), np.asarray(v)) for t, v in others])
    data = run_data(run_tables(START + np.asarray(times)), {}, load_recipe("default"), PageSettings(points=50), [one])
    assert data["charts"] == []
    assert list(data["axes"]) == ["h"]
    return data["hosts"][0]


def test_others_lie_between_their_least_and_largest_at_the_same_time():
    at = np.arange(4.0)
    chart = beside(
        at, [1, 1, 1, 1], (START + at, [5.0, 6.0, np.nan, np.nan]), (START + at + 0.4, [7.0, np.nan, np.nan, 9.0])
    )
    low, high = (from_singles(chart["others"][end]) for end in ("low", "high"))
    np.testing.assert_array_equal(low, [5, 6, np.nan, np.nan])  # the last sample is after the end of this host
    np.testing.assert_array_equal(high, [7, 6, np.nan, np.nan])
    assert chart["number"] == 2
    assert (chart["unit"], chart["metric"]) == ("%", METRIC)


def test_others_of_another_time_are_not_drawn():
    chart = beside(
        np.arange(4.0), np.ones(4), (START + 100 + np.arange(4.0), np.ones(4)), (START - 9 + np.arange(4.0), np.ones(4))
    )
    assert np.isnan(from_singles(chart["others"]["low"])).all()


def test_a_spike_of_another_host_is_not_lost():
    at = np.arange(5000) / 10
    spike = np.ones(5000)
    spike[4321] = 99.0
    high = from_singles(beside(at, np.ones(5000), (START + at, spike))["others"]["high"])
    assert len(high) == 50
    assert high[43] == 99.0
    assert np.delete(high, 43).max() == 1.0


def columns_of(host: str, pages: float) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(sum(host.encode())).normal(0, 2, 150)
    return {f"AverageCPUUtilization.{host}[%]": 50 + noise, f"Memory:HugePages_Total.{host}[kB]": np.full(150, pages)}


@pytest.fixture
def job(tmp_path, make_all):
    """Three hosts of one job, of which `h2` has preallocated pages."""
    for i in range(3):
        start = datetime(2026, 11, 1, 10, 0, i)
        columns = columns_of(f"h{i}", 500.0 if i == 2 else 100.0)
        write(
            tmp_path / "runs" / f"train_MLPforTask_Data_{start:%Y-%m-%dT%H-%M-%S}_h{i}.txt",
            pl.DataFrame(columns),
            start,
        )
    return make_all(tmp_path / "data", tmp_path / "runs")


def test_the_host_that_departs_is_drawn_with_the_others_and_the_table_is_kept(job, visit):
    *others, apart = sorted(accepted(job)["run_key"])
    page = visit(page_file(job, apart))
    (chart,) = data_of(page_file(job, apart).read_text())["hosts"]
    assert (chart["host"], chart["metric"], chart["number"]) == ("h2", PAGES, 2)
    assert set(from_singles(chart["whole"]["low"])) == {500.0}
    known = from_singles(chart["others"]["high"])
    assert set(known[~np.isnan(known)]) == {100.0}
    assert page.locator("#hosts canvas").count() == 1
    row = page.locator("section[aria-labelledby=h-hosts] tbody td").all_text_contents()
    assert row[:5] == [PAGES, "Memory", "500 kB", "100 kB", "100%"]
    for key in others:
        assert visit(page_file(job, key)).locator("#h-hosts").count() == 0


def test_two_hosts_of_one_file_are_drawn_beside_each_other(tmp_path, make_all, visit):
    both = pl.DataFrame(columns_of("ha", 100.0) | columns_of("hb", 500.0))
    start = datetime(2026, 11, 1, 10)
    write(tmp_path / "runs" / f"train_MLPforTask_Data_{start:%Y-%m-%dT%H-%M-%S}_ha.txt", both, start)
    folder = make_all(tmp_path / "data", tmp_path / "runs")
    page = visit(page_file(folder, accepted(folder)["run_key"][0]))
    charts = data_of(page.content())["hosts"]
    found = {
        (one["host"], from_singles(one["whole"]["low"])[0], from_singles(one["others"]["low"])[0]) for one in charts
    }
    assert found == {("ha", 100.0, 500.0), ("hb", 500.0, 100.0)}
    assert page.locator("#hosts figcaption").all_text_contents() == [f"{PAGES} Memory, {host}" for host in ("ha", "hb")]
    assert page.locator("#ribbon canvas").count() == 2
