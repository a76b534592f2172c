"""Pages of runs that are written by hand, and what a browser says about a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import Page

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, LEVEL_OFFSETS, METRIC_DEVIATIONS
from infrascope_core.pages.html import CHART_LIBRARY, page, run_view
from infrascope_core.pages.products import RUN_SCRIPTS
from infrascope_core.pages.run_content import RunTables, run_data
from infrascope_core.pages.settings import PageSettings
from infrascope_core.recipes import load_recipe
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.symbols.tables import BASKETS

BEGIN = datetime(2023, 11, 14, 22, 13, 20)
START = 1.7e9
"""The same moment, in seconds since 1970."""
METRIC = "m[%]"
BARE: dict[str, object] = {
    "run_key": "r", "platform": "cpu", "phase": "train", "workload": "W", "hosts": ["h"], "started_at": None,
    "verdict": "anomalous", "why": "why", "next_step": "next", "baseline": "none", "windows": 0, "judged_windows": 0,
    "flagged_windows": 0, "anomalous_windows": 0, "limits": [], "episodes": [], "table": [], "table_left_out": 0,
    "offsets": [], "offsets_left_out": 0, "deviations": [], "not_watched": [],
}  # fmt: skip
BARE_EPISODE: dict[str, object] = {
    "host": "h", "peak": BEGIN, "first_window": 0, "last_window": 0, "peak_window": 0,
    "windows": 1, "total_surprisal": 9.0, "surprisal": 9.0, "severity": 1.0, "detectors": [], "subsystems": [],
    "onset": [], "metrics": ["m[%]"], "claims": [], "changes": [], "broken_rules": [], "retransmissions": None,
    "headline": "A spike.", "next_step": "next",
}  # fmt: skip


def episodes_at(middles: Sequence[float], half: float = 2.0) -> pl.DataFrame:
    """Episodes of 4 s around so many seconds after `BEGIN`, their peaks; each is weaker than the one before."""
    rows = [
        dict.fromkeys(ANOMALY_EPISODES.schema.names())
        | {
            "run_key": "r", "host": "h", "episode": i, "first_window": i, "metrics": [METRIC],
            "start_ts": BEGIN + timedelta(seconds=at - half), "end_ts": BEGIN + timedelta(seconds=at + half),
            "peak_ts": BEGIN + timedelta(seconds=at),
            "total_surprisal": 1000.0 - i,
        }
        for i, at in enumerate(middles)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=ANOMALY_EPISODES.schema)


def run_tables(times: np.ndarray, **tables: pl.DataFrame) -> RunTables:
    """Tables of host `h` of run `r`, all empty but for those given; windows are of 3 s."""
    empty = {
        "scores": ANOMALY_SCORES, "reasons": ANOMALY_REASONS, "episodes": ANOMALY_EPISODES, "offsets": LEVEL_OFFSETS,
        "deviations": METRIC_DEVIATIONS, "faults": FAULTS, "baskets": BASKETS,
    }  # fmt: skip
    return RunTables(
        times={"h": times}, window_s=3.0, **{name: table.empty() for name, table in empty.items()} | tables
    )


def written(file: Path, tables: RunTables, traces: Mapping[tuple[str, str], np.ndarray]) -> Path:
    """The page of such a run, with a report that has its episodes."""
    recipe = load_recipe("default")
    episodes = [
        BARE_EPISODE | {"start": start, "end": end}
        for start, end in tables.episodes.sort("total_surprisal", descending=True).select("start_ts", "end_ts").rows()
    ]
    report = RunReport.model_validate(BARE | {"episodes": episodes})
    samples = len(tables.times["h"])
    row = {"source": "f", "sha256": "0", "samples": samples, "metrics": len(traces), "seconds": samples * 0.1}
    data = run_data(tables, traces, recipe, PageSettings())
    scripts = (CHART_LIBRARY, *RUN_SCRIPTS)
    file.write_text(page("run.html.jinja", scripts, run_view(report, row, recipe), data), encoding="utf-8")
    return file


def data_of(page: Page) -> dict:
    return json.loads(page.locator("#data").text_content() or "")


def shown(page: Page) -> str:
    return page.locator("#shown").text_content() or ""
