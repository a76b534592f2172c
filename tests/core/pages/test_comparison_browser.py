"""The page of a comparison in a real browser: what it says is what the tables hold, and it stands without scripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infrascope_core.comparing.figures import Figure, RunFigures, figures_of
from infrascope_core.comparing.sides import Sides, compared
from infrascope_core.comparing.verdict import compare, difference, interval_of, shown
from infrascope_core.pages.products import comparison_file, index_file, page_file, write_comparison
from infrascope_core.pages.tables import COMPARISON_PAGE
from infrascope_core.run_files.runs import accepted
from tests.core.comparing.test_products import KEYS, make, write
from tests.core.comparing.test_verdict import runs


def test_the_page_says_what_was_found(sample, tmp_path, visit):
    keys = accepted(sample)["run_key"].to_list()
    before, after = (
        [replace(run, workload="W") for run in figures_of(sample, [key for key in keys if name in key])]
        for name in ("train_MLP", "train_HGB")
    )
    sides = Sides(before, after, compare(before, after))
    file = tmp_path / "page.html"
    size = write_comparison(sample, "mlp-hgb", sides, file)
    assert size == file.stat().st_size < 100_000
    page = visit(file)
    found = sides.comparison
    assert page.locator("h1").text_content() == found.sentence
    assert page.locator(".verdict").text_content() == "Better after"
    assert page.locator(".limits li").all_text_contents() == list(found.obstacles)
    page.locator("section[aria-labelledby=h-all] summary").click()
    rows = page.locator("section[aria-labelledby=h-all] tbody tr")
    told = [row.locator("td").all_text_contents()[:5] for row in rows.all()]
    assert told == [
        [
            c.figure.name, shown(c.figure, c.before), shown(c.figure, c.after), difference(c.figure, c.effect),
            interval_of(c),
        ]
        for c in found.changes
    ]  # fmt: skip


def test_every_run_is_linked_to_its_page(sample, tmp_path, visit):
    first, second, *_ = accepted(sample)["run_key"].to_list()
    file = tmp_path / "a b" / "page.html"
    write_comparison(sample, "x", compared(sample, [first], [second]), file)
    page = visit(file)
    links = page.locator("td a").evaluate_all("links => links.map((link) => link.href)")
    assert links == [page_file(sample, key).absolute().as_uri() for key in (first, second)]
    page.locator(".path a").click()
    assert page.url == index_file(sample).absolute().as_uri()


def test_a_single_run_a_side_is_shown_without_a_verdict(sample, tmp_path, visit):
    first, second, *_ = accepted(sample)["run_key"].to_list()
    file = tmp_path / "page.html"
    write_comparison(sample, "x", compared(sample, [first], [second]), file)
    page = visit(file)
    assert page.locator(".verdict").text_content() == "No verdict"
    assert page.locator("h1").text_content().startswith("There are too few runs for a verdict: run time ")
    text = page.locator("main").inner_text()
    assert "There are too few runs for a verdict." in text
    assert "Whether a level moved is not tested, with so few runs." in text
    assert page.locator(".moved").count() == 0
    assert "chance (q" not in text


def test_intervals_are_drawn_where_they_are(tmp_path, sample, visit):
    """100 s to 80 s, -23 to -17 s: the point two thirds from the right end of an axis from -30 % to 0 %."""
    before, after = runs("b", range(98, 103)), runs("a", range(78, 83))
    file = tmp_path / "page.html"
    write_comparison(sample, "x", Sides(before, after, compare(before, after)), file)
    page = visit(file)
    drawing = page.locator(".forest li.moved svg.effect").first
    width = drawing.bounding_box()
    point = drawing.locator(".point").bounding_box()
    whisker = drawing.locator(".whisker").first.bounding_box()
    centre = (point["x"] + point["width"] / 2 - width["x"]) / width["width"]
    assert centre == pytest.approx(1 / 3, abs=0.01)
    assert (whisker["x"] - width["x"]) / width["width"] == pytest.approx(7 / 30, abs=0.01)
    assert whisker["width"] / width["width"] == pytest.approx(6 / 30, abs=0.02)
    fill = drawing.locator(".point").evaluate("point => getComputedStyle(point).fill")
    assert fill != page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")


def test_the_index_leads_to_declared_comparisons(handmade, visit):
    folder = write(handmade, KEYS)
    make(folder)
    page = visit(index_file(folder))
    entries = page.locator("section[aria-labelledby=h-comparisons] li")
    assert [text.partition(":")[0] for text in entries.all_text_contents()] == ["faster", "later"]
    entries.first.locator("a").click()
    assert page.url == comparison_file(folder, "faster").absolute().as_uri()
    assert page.locator("h1").text_content() == folder.lake.read(COMPARISON_PAGE)["sentence"][0]


EVIL = "</script><img src=x onerror=alert(1)>\u202e\"'" + "x" * 255


def test_hostile_names_stay_text(sample, tmp_path, visit):
    sides: list[list[RunFigures]] = []
    for name in "ba":
        side = runs(name, range(5), host=EVIL, workload=f"{EVIL}{name}")
        for one in side:
            one.values[Figure(f"anomalous time, {EVIL}", "share", "metric")] = 0.5
            one.values[Figure(EVIL, EVIL, "level")] = float(name == "a")
            one.steady[EVIL] = float(name == "a")
        sides.append(side)
    file = tmp_path / "page.html"
    before, after = sides
    write_comparison(sample, EVIL, Sides(before, after, compare(before, after)), file)
    page = visit(file)
    assert page.locator("img").count() == 0
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "<img src=x onerror=alert(1)>" in text
    for width in (400, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("width", [400, 1440])
def test_nothing_is_wider_than_the_window(sample, tmp_path, visit, width):
    keys = accepted(sample)["run_key"].to_list()
    file = tmp_path / "page.html"
    write_comparison(sample, "x", compared(sample, keys[::2], keys[1::2]), file)
    page = visit(file)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_two_sets_that_share_nothing_have_a_page(sample, tmp_path, visit):
    before, after = runs("b", [1]), runs("a", [1])
    for one in (*before, *after):
        one.values.clear()
    file = tmp_path / "page.html"
    write_comparison(sample, "x", Sides(before, after, compare(before, after)), file)
    page = visit(file)
    assert page.locator("h1").text_content() == "Neither run time nor anomalous time is known on both sides."
    assert page.locator("main").inner_text().strip() == ""
