"""A browser, and pages in it that may load nothing and of which it has nothing to complain."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window; without one, the test is skipped."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Open a file; afterwards, nothing else was asked for and the console is empty."""
    asked, said = [], []
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)

    def open_file(file, fragment: str = "") -> Page:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(file.absolute().as_uri() + fragment)
        return page

    yield open_file
    assert [url for url in asked if not url.startswith("file:")] == []
    # the browser has a word on how these tests look at pictures
    assert [text for text in said if "willReadFrequently" not in text] == []
    context.close()
