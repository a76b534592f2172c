"""Lost samples are counted once: recorder, quality table and report name the same number."""

from __future__ import annotations

import json

import pytest

from infrascope_core.quality.metrics import INTERVAL
from infrascope_core.quality.tables import QUALITY_METRICS
from tests.core.conftest import SAMPLE

pytestmark = pytest.mark.skipif(not list(SAMPLE.glob("*.txt.gz")), reason="no sample runs are recorded here")


def test_no_more_samples_are_lost_than_the_recorder_missed_ticks(make_all, tmp_path):
    folder = make_all(tmp_path / "data", SAMPLE, until="quality_metrics")
    recorded = json.loads((SAMPLE / "recorded.json").read_text())["runs"]
    missed = {run["file"].removesuffix(".txt.gz"): run["missed_ticks"] for run in recorded}
    rows = folder.lake.read_all(QUALITY_METRICS).filter(metric=INTERVAL)
    assert dict(rows.select("run_key", "missing").iter_rows()) == missed
    assert rows["max"].max() > 1.5 * 0.1  # although one of them came late
