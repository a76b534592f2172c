"""Window features at random, and baselines fitted on them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.scoring import score
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import FEATURES, STORED_FEATURES, WINDOW_FEATURES

SETTINGS = DetectorSettings(trees=20)
START = dt.datetime(2025, 5, 7)
DETECTOR_NAMES = ("zscore", "mahalanobis", "isolation_forest", "bursts", "peaks")


def features(
    run: str = "run", windows: int = 100, seed: int = 0, host: str = "h", **metrics: np.ndarray
) -> pl.DataFrame:
    """Window features: metrics `a`, `b`, `c` at random, or windows x features arrays by name."""
    rng = np.random.default_rng(seed)
    metrics = metrics or {m: rng.normal(10, 2, size=(windows, len(FEATURES))) for m in "abc"}
    frames = [
        pl.DataFrame(
            {
                "run_key": run,
                "host": host,
                "window": np.arange(len(values)),
                "metric": metric,
                "windows": 1,
                "start_ts": [START + dt.timedelta(seconds=i) for i in range(len(values))],
                "samples": 30,
                **{f: pl.Series(values[:, FEATURES.index(f)], nan_to_null=True) for f in STORED_FEATURES},
            },
            schema=WINDOW_FEATURES.schema,
        )
        for metric, values in metrics.items()
    ]
    return pl.concat(frames).sort("run_key", "host", "metric", "window")


def noise(windows: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(10, 2, size=(windows, len(FEATURES)))


def runs(number: int, windows: int = 100) -> pl.DataFrame:
    return pl.concat([features(f"r{i}", windows, seed=i) for i in range(number)])


def fitted(table: pl.DataFrame, settings: DetectorSettings = SETTINGS, **how) -> Baseline:
    baseline = fit_baseline(table, "gpu", "train", "W__T__D", settings, **how)
    assert baseline is not None
    return baseline


def scored(baseline: Baseline, table: pl.DataFrame) -> pl.DataFrame:
    return score(baseline, baseline.judge(table))


def changed(
    table: pl.DataFrame, where: pl.Expr, to: pl.Expr | float, of: tuple[str, ...] = STORED_FEATURES
) -> pl.DataFrame:
    return table.with_columns(pl.when(where).then(to).otherwise(f).alias(f) for f in of)
