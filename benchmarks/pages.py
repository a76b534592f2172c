"""How large pages are and how soon they are there: a run of 762 metrics x 30,000 samples, an index of 5,000 runs."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console

from benchmarks.pipeline import Claim
from infrascope_core.pages.fleet_content import fleet_content
from infrascope_core.pages.html import page
from infrascope_core.pages.products import FLEET_SCRIPTS, page_file
from infrascope_core.pages.tables import RUN_PAGE
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.reports.rendering import VERDICTS
from infrascope_core.reports.tables import ANOMALY_PATTERNS
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.settings import Settings
from infrascope_core.simulate import Fault, Job, write_job
from infrascope_core.store.folder import DataFolder

MINUTES, ROUNDS, RUNS = 50, 3, 5_000
MB = 1e6


def claims(console: Console) -> Iterator[Claim]:
    """Sizes, the time to build a page, and what a browser takes to show it."""
    with tempfile.TemporaryDirectory(prefix="infrascope-pages-") as scratch:
        folder, key = _large(Path(scratch))
        built = min(_seconds(lambda: GRAPH.make(folder, RUN_PAGE, key)) for _ in range(ROUNDS))
        size = page_file(folder, key).stat().st_size
        index = Path(scratch, "index.html")
        index.write_text(_index(), encoding="utf-8")
        yield Claim("page of a run, 762 metrics x 30,000 samples: size", size / MB, 1.5, "MB")
        yield Claim("the same: time to build it", built, 1.5, "s")
        yield Claim("index of 5,000 runs: size", index.stat().st_size / MB, 3, "MB")
        browser = shutil.which("chromium")
        if browser is None:
            console.print("no chromium is installed: pages are not opened")
            return
        paint, zoom = _opened(browser, page_file(folder, key), ".episode")
        first, _ = _opened(browser, index, None)
        yield Claim("page of a run: first paint in headless Chromium", paint, 1, "s")
        yield Claim("the same: a zoom of all charts", 1000 * zoom, 100, "ms")
        yield Claim("index of 5,000 runs: first paint", first, 1, "s")


def _large(scratch: Path) -> tuple[DataFolder, str]:
    for seed, faults in ((1, ()), (2, (Fault("memory_leak", 1.0, 600, 900), Fault("storage_burst", 1.0, 1800, 1860)))):
        write_job(Job("gpu", minutes=MINUTES if seed == 2 else 5, seed=seed, faults=faults), scratch / "runs")
    folder = DataFolder(scratch / "data", Settings(), (scratch / "runs",))
    refresh(folder)
    longest = accepted(folder).sort("samples", descending=True)
    return folder, str(longest["run_key"][0])


def _index() -> str:
    rng = random.Random(0)
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    rows = []
    for number in range(RUNS):
        workload = f"MODEL{number % 40}__TextClassification__default"
        run = (
            f"train_MODEL{number % 40}forTextClassification_default_2026-11-01T00-00-{number % 60:02d}_host{number:05d}"
        )
        rows.append(
            {
                "run": run,
                "link": f"runs/{run}.html",
                "verdict": list(VERDICTS.values())[number % 4],
                "platform": "gpu",
                "phase": "train",
                "workload": workload,
                "host": f"host{number:05d}",
                "start": "2026-11-01 00:00:00",
                "seconds": 3600.0,
                "share": rng.random() / 20,
                "episodes": number % 4,
                "per_day": 24.0 * (number % 4),
                "subsystem": "Network",
                "said": "Network, then GPU 3 s later; 70% of the evidence on Network, foremost IB:rx_bytes[Bytes/s].",
                "spark": "".join(rng.choice(digits) for _ in range(40)),
            }
        )
    view, data = fleet_content(rows, REJECTED_FILES.empty(), ANOMALY_PATTERNS.empty())
    return page("fleet.html.jinja", FLEET_SCRIPTS, view, data)


def _opened(browser: str, file: Path, clicked: str | None) -> tuple[float, float]:
    """Seconds until something is painted, and until a zoom is; the best of several."""
    paints, zooms = [], []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(ROUNDS):
            shown = started.new_page(viewport={"width": 1440, "height": 900})
            shown.goto(file.absolute().as_uri())
            shown.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
            paints.append(
                shown.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
            )
            if clicked is not None:
                zooms.append(
                    shown.evaluate(
                        """(clicked) => new Promise((done) => {
                             const start = performance.now();
                             document.querySelector(clicked).click();
                             requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
                           })""",
                        clicked,
                    )
                    / 1000
                )
            shown.close()
        started.close()
    return min(paints), min(zooms, default=0.0)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
