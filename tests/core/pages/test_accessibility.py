"""Pages for those who see little, see other colours, or use no mouse: axe-core finds nothing serious."""

from __future__ import annotations

import pytest

from infrascope_core.pages.products import index_file, page_file

SERIOUS = {"serious", "critical"}


@pytest.fixture
def serious():
    """What axe-core finds on a page that keeps somebody from using it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def look(page) -> list[tuple[str, str]]:
        found = axe.run(page).response["violations"]
        return [(one["id"], node["html"]) for one in found if one["impact"] in SERIOUS for node in one["nodes"]]

    return look


OFTEN = pytest.param(False, 1440)
AT_LENGTH = [pytest.param(*how, marks=pytest.mark.slow) for how in ((False, 400), (True, 400), (True, 1440))]


@pytest.mark.parametrize(("dark", "width"), [OFTEN, *AT_LENGTH])
def test_nothing_serious_is_found_on_the_page_of_a_run(sample, faulty, visit, serious, *, dark, width):
    page = visit(page_file(sample, faulty), dark=dark)
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("details").evaluate_all("all => all.forEach((details) => { details.open = true; })")
    page.locator("#unfold-all").click()
    page.locator(".episode").first.click()
    assert serious(page) == []


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_serious_is_found_on_the_index(sample, visit, serious, dark):
    assert serious(visit(index_file(sample), dark=dark)) == []


def test_what_is_serious_would_be_found(sample, faulty, visit, serious):
    page = visit(page_file(sample, faulty))
    page.locator(".why").evaluate("why => { why.style.color = '#ddd'; why.style.background = '#fff'; }")
    page.locator("#filter").evaluate("field => field.closest('label').replaceWith(field)")
    page.locator("#filter").evaluate("field => field.removeAttribute('placeholder')")
    assert {name for name, _ in serious(page)} == {"color-contrast", "label"}
