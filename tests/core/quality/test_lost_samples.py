"""Lost samples are counted once: recorder, quality table and report name the same number."""

from __future__ import annotations

import json

from infrascope_core.quality.metrics import INTERVAL
from infrascope_core.quality.tables import QUALITY_METRICS
from tests.conftest import SAMPLE


def test_no_more_samples_are_lost_than_the_recorder_missed_ticks(sample):
    recorded = json.loads((SAMPLE / "recorded.json").read_text())["runs"]
    missed = {run["file"].removesuffix(".txt.gz"): run["missed_ticks"] for run in recorded}
    rows = sample.lake.read_all(QUALITY_METRICS).filter(metric=INTERVAL)
    assert dict(rows.select("run_key", "missing").iter_rows()) == missed
    assert rows["max"].max() > 1.5 * 0.1  # although one of them came late
