"""From tables to what a page draws: which metrics, and cells that last as long as what they stand for."""

from __future__ import annotations

import base64
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, LEVEL_OFFSETS, METRIC_DEVIATIONS
from infrascope_core.contract import Table
from infrascope_core.pages.packing import from_singles
from infrascope_core.pages.run_content import chosen_metrics, run_data
from infrascope_core.pages.settings import PageSettings
from infrascope_core.recipes import load_recipe
from tests.core.pages.handmade import BEGIN, METRIC, START, episodes_at, run_tables


def rows(table: Table, *given: dict) -> pl.DataFrame:
    blank = dict.fromkeys(table.schema.names()) | {"run_key": "r", "host": "h"}
    return pl.DataFrame([blank | row for row in given], schema=table.schema)


def at(second: float) -> dict:
    return {"start_ts": BEGIN + timedelta(seconds=second)}


def deviation(metric: str, stretch: int, size: float | None, length: float = 3.0) -> dict:
    end = BEGIN + timedelta(seconds=stretch + length)
    return {"metric": metric, "stretch": stretch, "deviation": size, "end_ts": end} | at(stretch)


def test_charts_are_what_carries_episodes_then_windows_then_the_run_then_what_departs():
    tables = run_tables(
        START + np.arange(100.0),
        episodes=episodes_at([10.0]),
        reasons=rows(ANOMALY_REASONS, {"metric": "of a window", "contribution": 0.9, "window": 3}),
        offsets=rows(
            LEVEL_OFFSETS, {"metric": "offset", "differs": True, "rank": 1}, {"metric": "near", "differs": False}
        ),
        deviations=rows(
            METRIC_DEVIATIONS,
            *(deviation(m, i, d) for m, d in (("far", 9.0), ("less", 2.0), ("unknown", None)) for i in (0, 1)),
        ),
    )
    found = [metric for _, metric in chosen_metrics(tables, PageSettings(least_charts=5))]
    assert found == [METRIC, "of a window", "offset", "far", "less"]
    assert chosen_metrics(tables, PageSettings(least_charts=0, most_charts=1)) == [("h", METRIC)]


@pytest.fixture
def data() -> dict:
    """Ten windows of 3 s, one a second, in a run of 12 s; the fifth and sixth have alarms."""
    scores = [
        {"window": i, "anomalous": i in {4, 5}, "flagged_by": ["zscore"] if i in {1, 4, 5} else [], "surprisal": 1.0}
        | at(i)
        for i in range(10)
    ]
    deviations = [deviation("CPU:user[%]", i, 5.0 if i == 4 else None if i == 9 else 0.0) for i in range(10)]
    tables = run_tables(
        START + np.arange(13.0), scores=rows(ANOMALY_SCORES, *scores), deviations=rows(METRIC_DEVIATIONS, *deviations)
    )
    return run_data(tables, {}, load_recipe("default"), PageSettings(columns=120))


def cells(packed: dict) -> list[int]:
    return list(base64.b64decode(packed["cells"]))


def test_a_window_stands_for_the_second_around_its_middle(data):
    # the first from 1 s to 2 s, which are columns 10 to 19
    assert cells(data["heat"]) == [255] * 10 + [0] * 40 + [127] * 10 + [0] * 40 + [255] * 20
    assert cells(data["strips"]["detectors"]) == [255] * 20 + [90] * 10 + [255] * 20 + [254] * 20 + [255] * 50
    assert data["ribbon"][0]["alarms"] == [[5.0, 7.0]]


def test_of_a_long_episode_there_is_the_whole_and_at_full_sampling_what_is_around_its_peak():
    times = np.arange(30_000) / 10
    tables = run_tables(START + times, episodes=episodes_at([600.0, 2000.0], half=300.0))
    traces = {("h", METRIC): np.sin(times)}
    settings = PageSettings()
    data = run_data(tables, traces, load_recipe("default"), settings)
    (chart,) = data["charts"]
    at = [from_singles(points) for points in data["axes"]["h"]["details"]]
    assert [(round(x[0]), round(x[-1])) for x in at] == [(570, 630), (1970, 2030), (270, 930), (1670, 2330)]
    assert [len(x) for x in at] == [601, 601, settings.points, settings.points]
    for x, detail in zip(at[:2], chart["details"], strict=False):
        np.testing.assert_allclose(from_singles(detail["low"]), np.sin(x), atol=1e-3)
    short = run_data(run_tables(START + times, episodes=episodes_at([600.0])), traces, load_recipe("default"), settings)
    (x,) = (from_singles(points) for points in short["axes"]["h"]["details"])
    np.testing.assert_allclose(x, np.arange(568, 632.05, 0.1), atol=1e-3)


def test_a_gap_in_the_sampling_is_where_samples_are_far_apart():
    tables = run_tables(START + np.concatenate([np.arange(10.0), 30 + np.arange(10.0)]))
    (ribbon,) = run_data(tables, {}, load_recipe("default"), PageSettings())["ribbon"]
    assert ribbon["gaps"] == [[9.0, 30.0]]
