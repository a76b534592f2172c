"""A real browser, where one is installed; and the worst run of the sample."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.runs import accepted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")  # while it is open, an event loop runs, and tests of others could start none
def browser() -> Iterator[Browser]:
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
    contexts = []

    def open_file(file, fragment: str = "", *, dark: bool = False) -> Page:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, color_scheme=scheme)
        contexts.append(context)
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
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def faulty(sample) -> str:
    worst = pl.concat([sample.lake.read(ANOMALY_EPISODES, key) for key in accepted(sample)["run_key"]])
    return str(worst.sort("total_surprisal", descending=True)["run_key"][0])
