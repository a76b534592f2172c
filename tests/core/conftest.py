from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.patterns import mining
from infrascope_core import models
from infrascope_core.store.folder import Pipeline
from infrascope_core.settings import Settings
from infrascope_core.steps import STEPS, make

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "sample"


@pytest.fixture(scope="session")
def make_all():
    """Run the whole pipeline, or all until a table, as plain calls, without an orchestrator."""

    def run(data: Path, *sources: Path, settings: Settings | None = None, until: str = "") -> Pipeline:
        pipeline = Pipeline(data, settings or Settings(), sources)
        pipeline.review_rejections()
        for key in pipeline.offers():
            pipeline.ingest(key, pipeline.find()[key])
        keys = pipeline.accepted()["run_key"].to_list()
        fits = {
            "quality_metrics": models.fit_metric_catalog,
            "group_windows": models.fit_thresholds,
            "window_features": models.fit_baselines,
        }
        for table in STEPS:
            for key in keys:
                make(pipeline, table, key)
            if table in fits:
                fits[table](pipeline)
            if table == until:
                return pipeline
        mining.mine_itemsets(pipeline)
        mining.mine_rules(pipeline)
        return pipeline

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Escape what is no UTF-8 in a report.

    Some tests use names of files that are none; an xdist worker cannot send them and would end the whole run.
    """
    report = yield
    text = report.longreprtext
    if (spelled := _escaped(text)) != text:
        report.longrepr = spelled
    report.sections = [(_escaped(title), _escaped(content)) for title, content in report.sections]
    return report


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
