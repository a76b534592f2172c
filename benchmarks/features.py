"""Features of sliding windows beside tsfresh computing the same: time per window, and the same values.

tsfresh is asked in three ways, and the fastest counts: `extract_features` in one process, the same with a process
a core, and a bare loop over its calculators. It has no Dickey-Fuller test without lags, so it gets statsmodels' as
a calculator of its own; what that costs is shown by the ratio without it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
from rich.console import Console
from statsmodels.tsa.stattools import adfuller
from tsfresh import extract_features
from tsfresh.feature_extraction import feature_calculators as tsfresh

from benchmarks.pipeline import Claim, best
from infrascope_core.anomalies.features import feature_matrix, window_features
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import FEATURES

SAMPLES, METRICS = 16_000, 400
PEER_WINDOWS = 4
"""Windows that tsfresh computes: it takes a third of a second for each."""
PAPER_S = 1.46
DICKEY_FULLER = 'dickey_fuller__attr_"teststat"'


@dataclass(frozen=True)
class Context(Claim):
    """Our figure beside one from other hardware, so there is no target to meet."""

    @property
    def target(self) -> str:
        return f"Reveal, 5.3: {self.limit:g} {self.unit}"

    def met(self) -> bool | None:
        return None


def claims(console: Console) -> Iterator[Claim]:
    """Measure, print the times, and give the ratios."""
    settings = FeatureSettings()
    telemetry = _telemetry()
    windows = (SAMPLES - settings.samples) // settings.stride + 1
    found = window_features(telemetry, settings)
    names = [(metric, feature) for metric in found["metric"].unique().sort() for feature in FEATURES]
    few = telemetry.head(settings.samples + (PEER_WINDOWS - 1) * settings.stride)
    console.print(f"telemetry: {SAMPLES:,} × {METRICS}, {windows:,} windows; tsfresh: the first {PEER_WINDOWS} of them")
    ours = best(
        5,
        features=lambda: window_features(telemetry, settings),
        matrix=lambda: feature_matrix(found, names),
        one_window=lambda: window_features(few.head(settings.samples), settings),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peers = best(2, **_peers(few, settings, FEATURES))
        without = best(2, **_peers(few, settings, [f for f in FEATURES if f != DICKEY_FULLER]))
        theirs = extract_features(**_asked(few, settings, FEATURES), n_jobs=0)
    per_window = {
        **{f"tsfresh, {name}": seconds / PEER_WINDOWS for name, seconds in peers.items()},
        **{f"tsfresh, {name}, without Dickey-Fuller": seconds / PEER_WINDOWS for name, seconds in without.items()},
        f"ours, {windows:,} windows at once": ours["features"] / windows,
        "ours, to the matrix as well": (ours["features"] + ours["matrix"]) / windows,
        "ours, one window alone": ours["one_window"],
    }
    for name, seconds in per_window.items():
        console.print(f"  {name}: {1000 * seconds:.4g} ms a window")
    own = ours["features"] / windows
    what = "features of 400 metrics, 3 s/1 s, speed over tsfresh"
    yield Claim(f"13 {what}", min(peers.values()) / PEER_WINDOWS / own, 100, "×", at_least=True)
    yield Claim(f"12 {what} (no Dickey-Fuller)", min(without.values()) / PEER_WINDOWS / own, 100, "×", at_least=True)
    yield Claim("largest relative difference from tsfresh's values", _difference(found, theirs), 1e-6, "")
    yield Context("13 features of 400 metrics, one window alone", ours["one_window"], PAPER_S, "s")
    yield Context("13 features of 400 metrics, a window among many", own, PAPER_S, "s")


def _telemetry() -> pl.DataFrame:
    """Metrics of four kinds: noise on a level, a walk, counts, and a square wave."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(SAMPLES, METRICS))
    values = np.select(
        [np.arange(METRICS) % 4 == kind for kind in range(3)],
        [50 + 10 * noise, 1e6 + noise.cumsum(axis=0), rng.poisson(20, size=noise.shape).astype(float)],
        np.sign(np.sin(np.arange(SAMPLES) / 7))[:, None] + noise / 100,
    )
    start = datetime(2025, 5, 7)
    step = pl.duration(milliseconds=100)
    return pl.DataFrame(
        {"run_key": pl.repeat("run", SAMPLES, eager=True), "host": pl.repeat("host", SAMPLES, eager=True)}
    ).with_columns(
        pl.int_range(SAMPLES).alias("sample"),
        (pl.lit(start) + step * pl.int_range(SAMPLES)).alias("ts"),
        *(pl.Series(f"Source:metric{i:03}[count]", values[:, i]) for i in range(METRICS)),
    )


def _dickey_fuller(x: np.ndarray, param: list[dict[str, str]]) -> list[tuple[str, float]]:
    fitted = adfuller(x, maxlag=0, autolag=None, regression="c", result_object=True)
    return [('attr_"teststat"', fitted.statistic) for _ in param]


_dickey_fuller.__name__ = "dickey_fuller"
_dickey_fuller.fctype = "combiner"  # type: ignore[attr-defined]  # tsfresh asks a calculator for it

_CALCULATORS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "autocorrelation__lag_1": ("autocorrelation", [{"lag": 1}]),
    'linear_trend__attr_"slope"': ("linear_trend", [{"attr": "slope"}]),
    DICKEY_FULLER: (_dickey_fuller, [{"attr": "teststat"}]),
}


def _peers(few: pl.DataFrame, settings: FeatureSettings, features: Iterable[str]) -> dict[str, Callable[[], object]]:
    asked = _asked(few, settings, features)
    cores = os.cpu_count() or 1
    return {
        "one process": lambda: extract_features(**asked, n_jobs=0),
        f"{cores} processes": lambda: extract_features(**asked, n_jobs=cores),
        "a loop over its calculators": lambda: _loop(few, settings, asked["default_fc_parameters"]),
    }


def _asked(few: pl.DataFrame, settings: FeatureSettings, features: Iterable[str]) -> dict[str, Any]:
    """What `extract_features` is given: the windows one below the other, each with its number as id."""
    samples = few.select(cs.starts_with("Source:")).to_pandas()
    windows = [samples.iloc[w * settings.stride :][: settings.samples].assign(id=w) for w in range(PEER_WINDOWS)]
    return {
        "timeseries_container": pd.concat(windows),
        "column_id": "id",
        "default_fc_parameters": dict(_CALCULATORS.get(feature, (feature, None)) for feature in features),
        "disable_progressbar": True,
    }


def _loop(few: pl.DataFrame, settings: FeatureSettings, asked: dict[Any, list[dict[str, Any]] | None]) -> None:
    calls = []
    for calculator, parameters in asked.items():
        call = calculator if callable(calculator) else getattr(tsfresh, calculator)
        calls.append((call, () if parameters is None else (1,) if calculator == "autocorrelation" else (parameters,)))
    for column in few.select(cs.starts_with("Source:")):
        values = column.to_numpy()
        for window in range(PEER_WINDOWS):
            x = values[window * settings.stride :][: settings.samples]
            for call, given in calls:
                call(x, *given)


def _difference(found: pl.DataFrame, theirs: pd.DataFrame) -> float:
    """Largest relative difference over windows, metrics and features; infinite where only one has a value.

    A value nearer to 0 than a millionth of the metric's largest is compared with that: a slope of 1e-17 is
    rounding on both sides.
    """
    names = [(metric, feature) for metric in found["metric"].unique().sort() for feature in FEATURES]
    _, own = feature_matrix(found.filter(pl.col("window") < PEER_WINDOWS), names)
    wide = theirs[[f"{metric}__{feature}" for metric, feature in names]].to_numpy()
    if (np.isnan(own) != np.isnan(wide)).any():
        return float("inf")
    size = np.abs(wide)
    size = np.maximum(size, 1e-6 * np.nanmax(size, axis=0))
    return float(np.nanmax(np.abs(own - wide) / size))
