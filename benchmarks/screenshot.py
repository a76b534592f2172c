"""`make picture`: the page of the sample's run with a storage fault, as README shows it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from infrascope_core.pages.products import page_file
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

ROOT = Path(__file__).parents[1]
RUN = "train_MLPforImageClassification_Digits_2026-11-20T15-39-29_node01"
PICTURE = ROOT / "docs" / "pictures" / "page.png"


def main() -> int:
    browser = shutil.which("chromium")
    if browser is None:
        print("it takes chromium to make the picture", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="infrascope-picture-") as scratch, sync_playwright() as playwright:
        folder = DataFolder(Path(scratch), Settings(), (ROOT / "data" / "sample",))
        refresh(folder)
        assert RUN in accepted(folder)["run_key"]
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        shown = started.new_page(viewport={"width": 1100, "height": 1000}, color_scheme="light")
        shown.goto(page_file(folder, RUN).absolute().as_uri())
        for details in shown.locator("details").all():
            details.evaluate("(element) => { element.open = false; }")
        shown.screenshot(path=PICTURE)
        started.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
