"""A data folder whose lake is written by hand, for tests of what is read off it."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.pipeline import GRAPH
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

START = datetime(2025, 5, 7)
SMALL = Settings(detectors=DetectorSettings(min_windows=3))


class HandMade:
    """A data folder whose lake is filled by hand; what a row leaves out is missing."""

    def __init__(self, data):
        self.folder = DataFolder(data, SMALL)

    def put(self, table: str, run: str | None, *rows: dict) -> None:
        declared = GRAPH.tables[table]
        schema = declared.schema
        key = {} if run is None else {"run_key": run}
        frame = pl.DataFrame([dict.fromkeys(schema.names()) | key | row for row in rows], schema=schema)
        self.folder.lake.write(frame, declared, run, f"{rows}")

    def run(self, run: str, platform: str = "gpu", status: str = "accepted", **columns) -> None:
        about = {"platform": platform, "phase": "train", "workload": "W", "host": "h", "interval_s": 0.1}
        about |= {"started_at": START, "hosts": ["h"], "first_ts": START}
        if columns.get("samples") and columns.get("interval_s", 0.1):
            about["seconds"] = columns["samples"] * columns.get("interval_s", 0.1)
        self.put("run_files", run, about | {"status": status} | columns)
        if status == "accepted":
            self.put("telemetry", run)

    def windows(self, run: str, group: str = "load", count: int = 4) -> None:
        self.put("group_windows", run, *({"metric_group": group, "window": i} for i in range(count)))

    def baskets(self, run: str, levels: str, group: str = "load") -> None:
        names = {"L": "LOW", "M": "MED", "H": "HIGH"}
        rows = ({"metric_group": group, "window": i, "level": names[name]} for i, name in enumerate(levels))
        self.put("baskets", run, *rows)

    def thresholds(self, *groups: tuple, platform: str = "gpu") -> None:
        """Groups as (name, share of LOW, of MED, of HIGH)."""
        rows = []
        for name, low, med, high in groups:
            shares = {"low_share": low, "med_share": med, "high_share": high}
            alive = (low, med, high).count(0) < 2
            rows.append({"platform": platform, "metric_group": name, "degenerate": not alive} | shares)
        self.put("thresholds", None, *rows)


KEY = "train_MLPforCls_default_2025-05-07T00-00-00_h"
CALM = KEY.replace("T00", "T01")


def fill_with_two_runs(handmade: HandMade) -> DataFolder:
    """Two runs, of which `KEY` has an alarm and `CALM` none, up to their scores; and no baseline."""
    folder = handmade.folder
    folder.root.mkdir()
    folder.remember_settings()
    handmade.put("baselines", None)
    for key, alarm in ((KEY, True), (CALM, False)):
        handmade.run(key, samples=600)
        handmade.put("anomaly_scores", key, *(_score(w, alarm and w == 5) for w in range(20)))
        named = {"host": "h", "metric": "AverageCPUUtilization[%]"}
        windows = [{**named, "window": w, "windows": 1, "mean": 1.0} for w in range(20)]
        handmade.put("window_features", key, *windows)
        handmade.put("quality_metrics", key, {"host": "h", "metric": "AverageCPUUtilization[%]", "subsystem": "CPU"})
        for table in ("anomaly_reasons", "baskets"):
            handmade.put(table, key)
    return folder


def _score(window: int, alarm: bool) -> dict:
    return {
        "host": "h", "window": window, "start_ts": START + timedelta(seconds=window), "anomalous": alarm,
        "surprisal": 4.0 if alarm else 0.5, "agreement": int(alarm), "flagged_by": ["zscore"] if alarm else [],
    }  # fmt: skip


def make_reports(folder: DataFolder) -> None:
    """Episodes and report of both runs."""
    for key in (KEY, CALM):
        for table in ("anomaly_episodes", "anomaly_report"):
            GRAPH.make(folder, table, key)
