"""Anomaly patterns: seconds of each metric, by hand."""

from __future__ import annotations

import polars as pl
import pytest

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.reports.anomaly_patterns import JUDGED, anomaly_patterns, counted
from infrascope_core.reports.tables import ANOMALY_PATTERNS

WORK = ("gpu", "train", "W")


def scores(key: str, *alarms: int, windows: int = 100) -> pl.DataFrame:
    rows = [{"run_key": key, "host": "h", "window": w, "anomalous": w in alarms} for w in range(windows)]
    return pl.DataFrame(rows, schema_overrides={"window": pl.Int64}).select(
        pl.col(name) if name in rows[0] else pl.lit(None).cast(dtype).alias(name)
        for name, dtype in ANOMALY_SCORES.schema.items()
    )


def reasons(key: str, *first: tuple[int, str]) -> pl.DataFrame:
    rows = [
        {
            "run_key": key,
            "host": "h",
            "window": window,
            "rank": rank,
            "subsystem": "CPU",
            "metric": name,
            "feature": "mean",
        }
        for window, metric in first
        for rank, name in ((1, metric), (2, "second"))
    ]
    empty = ANOMALY_REASONS.empty()
    return pl.concat([empty, pl.DataFrame(rows, schema=empty.schema)]) if rows else empty


def test_seconds_and_shares_are_those_of_the_first_reason():
    parts = [
        counted(
            scores("r1", 3, 4, 5), reasons("r1", (3, "Bzy_MHz"), (4, "Bzy_MHz"), (5, "IRQ"), (9, "IRQ")), WORK, 2.0
        ),
        counted(scores("r2", 7), reasons("r2", (7, "Bzy_MHz")), WORK, 2.0),
    ]
    judged = pl.DataFrame([(*WORK, "r1", 200.0), (*WORK, "r2", 200.0)], schema=JUDGED, orient="row")
    found = anomaly_patterns(parts, judged)
    assert found.schema == ANOMALY_PATTERNS.schema
    first, second = found.iter_rows(named=True)
    assert (first["metric"], first["windows"], first["seconds"], first["runs"]) == ("Bzy_MHz", 3, 6.0, 2)
    assert first["share"] == pytest.approx(6 / 400)
    assert first["of_anomalous"] == pytest.approx(6 / 8)
    assert (second["metric"], second["windows"]) == ("IRQ", 1)  # a window that is only flagged counts for nothing


def test_nothing_abnormal_is_an_empty_table():
    assert anomaly_patterns([], pl.DataFrame(schema=JUDGED)).equals(ANOMALY_PATTERNS.empty())
    part = counted(scores("r"), reasons("r"), WORK, 1.0)
    assert anomaly_patterns([part], pl.DataFrame([(*WORK, "r", 9.0)], schema=JUDGED, orient="row")).is_empty()
