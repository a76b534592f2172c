"""Window features: values by hand, pandas, scipy and tsfresh's definitions as oracles, holes."""

import datetime as dt
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import linregress

from infrascope_core.features import feature_matrix, window_features
from infrascope_core.settings import FeatureSettings
from infrascope_core.tables import FEATURES, WINDOW_FEATURES

START = dt.datetime(2025, 5, 7)
SLOPE = 'linear_trend__attr_"slope"'


def telemetry(run: str = "run", host: str = "h", **metrics) -> pl.DataFrame:
    samples = len(next(iter(metrics.values())))
    return pl.DataFrame(
        {
            "run_key": [run] * samples,
            "host": [host] * samples,
            "sample": np.arange(samples),
            "ts": [START + dt.timedelta(milliseconds=100 * i) for i in range(samples)],
            **metrics,
        },
        schema_overrides={"ts": pl.Datetime("us"), **dict.fromkeys(metrics, pl.Float64)},
    )


def by_definition(x: np.ndarray) -> dict[str, float]:
    """Transcribe tsfresh 0.21.2's feature_calculators (run beside ours once, equal to 1e-9)."""
    variance = np.var(x)
    lagged = np.sum((x[:-1] - x.mean()) * (x[1:] - x.mean()))
    return {
        "mean": np.mean(x),
        "variance": variance,
        "standard_deviation": np.std(x),
        "skewness": pd.Series(x).skew(),
        "kurtosis": pd.Series(x).kurtosis(),
        "minimum": np.min(x),
        "maximum": np.max(x),
        "median": np.median(x),
        "autocorrelation__lag_1": np.nan if np.isclose(variance, 0) else lagged / ((len(x) - 1) * variance),
        SLOPE: linregress(range(len(x)), x).slope,
    }


def test_a_window_by_hand():
    found = window_features(telemetry(m=[1.0, 2.0, 3.0, 6.0]), FeatureSettings(samples=4, stride=1))
    assert found.schema == WINDOW_FEATURES.schema
    (row,) = found.to_dicts()
    assert {k: row[k] for k in ("run_key", "host", "window", "metric", "start_ts")} == {
        "run_key": "run",
        "host": "h",
        "window": 0,
        "metric": "m",
        "start_ts": START,
    }
    # Deviations -2, -1, 0, 3: squares 14, cubes 18, fourth powers 98, neighbours' products 2 + 0 + 0.
    assert {f: row[f] for f in FEATURES} == pytest.approx(
        {
            "mean": 3.0,
            "variance": 3.5,
            "standard_deviation": 3.5**0.5,
            "skewness": 4 * 3**0.5 / 2 * 18 / 14**1.5,
            "kurtosis": (4 * 5 * 3 * 98 / 14**2 - 3 * 3**2) / (2 * 1),
            "minimum": 1.0,
            "maximum": 6.0,
            "median": 2.5,
            "autocorrelation__lag_1": 2 / (3 * 3.5),
            SLOPE: (-1.5 * -2 + -0.5 * -1 + 0 + 1.5 * 3) / 5,
        }
    )


def test_windows_slide_and_the_incomplete_last_one_is_dropped():
    found = window_features(telemetry(m=np.arange(11.0)), FeatureSettings(samples=4, stride=3))
    assert found.select("window", "minimum", "maximum").rows() == [(0, 0, 3), (1, 3, 6), (2, 6, 9)]
    assert found["start_ts"].to_list() == [START + dt.timedelta(milliseconds=300 * i) for i in range(3)]


def test_rows_come_by_host_window_and_metric_whatever_the_order_of_columns_and_rows():
    rng = np.random.default_rng(0)
    a, b = (telemetry(host=h, z=rng.normal(size=9), m=rng.normal(size=9)) for h in ("h2", "h1"))
    settings = FeatureSettings(samples=4, stride=4)
    found = window_features(pl.concat([a, b]), settings)
    assert found.select("host", "window", "metric").rows() == [
        (h, w, m) for h in ("h1", "h2") for w in (0, 1) for m in ("m", "z")
    ]
    shuffled = pl.concat([b, a]).sample(fraction=1, shuffle=True, seed=1)
    assert found.equals(window_features(shuffled.select(sorted(shuffled.columns)), settings))
    assert found.filter(metric="m").equals(window_features(pl.concat([a, b]), settings, metrics=["m", "unknown", "m"]))


@pytest.mark.parametrize("hole", [None, float("nan"), float("inf"), float("-inf")])
def test_a_hole_takes_out_that_metrics_windows_and_no_other(hole):
    values = [1.0, 2.0, 4.0, 3.0, 1.0, 2.0]
    found = window_features(
        telemetry(holed=[*values[:4], hole, 2.0], whole=values), FeatureSettings(samples=3, stride=1)
    )
    assert found.select("window", "metric").rows() == [
        (0, "holed"),
        (0, "whole"),
        (1, "holed"),
        (1, "whole"),
        (2, "whole"),
        (3, "whole"),
    ]
    pair = found.filter(pl.col("window") == 0).drop("metric")
    assert pair[0].equals(pair[1])


@pytest.mark.parametrize("value", [0.0, 0.1, -5.0, 1e12, 1e300])
def test_a_constant_window_has_no_shape(value):
    (row,) = window_features(telemetry(m=[value] * 30), FeatureSettings()).to_dicts()
    assert {f: row[f] for f in FEATURES} == {
        "mean": value, "variance": 0.0, "standard_deviation": 0.0, "skewness": None, "kurtosis": None,
        "minimum": value, "maximum": value, "median": value, "autocorrelation__lag_1": None, SLOPE: 0.0,
    }  # fmt: skip


def test_kurtosis_of_three_samples_is_not_defined():
    (row,) = window_features(telemetry(m=[1.0, 2.0, 4.0]), FeatureSettings(samples=3)).to_dicts()
    assert row["kurtosis"] is None
    assert row["skewness"] == pytest.approx(pd.Series([1.0, 2.0, 4.0]).skew())


def test_tsfresh_refuses_the_autocorrelation_of_small_variances():
    small, enough = 1e-4 * np.tile([1.0, -1.0, 1.0], 10), 1.1e-4 * np.tile([1.0, -1.0, 1.0], 10)
    found = window_features(telemetry(a=small, b=enough), FeatureSettings())
    assert found["autocorrelation__lag_1"].is_null().to_list() == [True, False]


def test_noise_on_a_large_level_keeps_its_digits():
    noise = np.round(np.random.default_rng(0).normal(size=30), 2) * 64
    level, plain = window_features(telemetry(a=1e12 + noise, b=(1e12 + noise) - 1e12), FeatureSettings()).to_dicts()
    for feature in ("variance", "skewness", "kurtosis", "autocorrelation__lag_1", SLOPE):
        assert level[feature] == pytest.approx(plain[feature], rel=1e-9)


signals = st.lists(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3)) | st.sampled_from([0.0, 1.0, 100.0]),
    min_size=5,
    max_size=40,
)


@given(signals, st.integers(4, 12), st.integers(1, 5))
@hypothesis_settings(max_examples=80, deadline=None)
def test_every_window_equals_the_definition(values, samples, stride):
    x = np.array(values)
    found = window_features(telemetry(m=x), FeatureSettings(samples=samples, stride=stride))
    assert found.height == max(0, (len(x) - samples) // stride + 1)
    for row in found.to_dicts():
        window = x[row["window"] * stride :][:samples]
        scale = np.ptp(window) + 1e-3 * np.abs(window).max()
        expected = by_definition(window)
        for feature in FEATURES:
            got = np.nan if row[feature] is None else row[feature]
            slack = 1e-9 * (scale**2 if feature == "variance" else scale if feature in {SLOPE, "mean"} else 1)
            assert got == pytest.approx(expected[feature], rel=1e-6, abs=slack, nan_ok=True), feature


@pytest.mark.parametrize(
    "frame",
    [
        telemetry(m=[1.0] * 29),
        telemetry(m=[1.0])[:0],
        telemetry(m=[None] * 40),
        telemetry(m=[1.0] * 40).drop("m"),
    ],
)
def test_too_little_gives_the_empty_table(frame):
    found = window_features(frame, FeatureSettings())
    assert found.is_empty()
    assert found.schema == WINDOW_FEATURES.schema


def test_the_matrix_has_a_row_a_window_and_a_column_a_name():
    found = window_features(
        telemetry(a=[1.0, 2.0, 3.0, 4.0], b=[1.0, 1.0, 7.0, None]), FeatureSettings(samples=3, stride=1)
    )
    names = [("b", "maximum"), ("gone", "mean"), ("a", "mean"), ("a", "skewness"), ("b", "mean")]
    windows, matrix = feature_matrix(found.sample(fraction=1, shuffle=True, seed=0), names)
    assert windows.rows() == [("run", "h", 0, START), ("run", "h", 1, START + dt.timedelta(milliseconds=100))]
    nan = np.nan
    np.testing.assert_allclose(matrix, [[7, nan, 2, 0, 3], [nan, nan, 3, 0, nan]], atol=1e-12)


def test_a_matrix_of_no_windows_or_no_names():
    found = window_features(telemetry(a=[1.0, 2.0, 3.0]), FeatureSettings(samples=3))
    assert feature_matrix(found[:0], [("a", "mean")])[1].shape == (0, 1)
    assert feature_matrix(found, [])[1].shape == (1, 0)


def test_a_run_of_many_metrics_takes_seconds():
    rng = np.random.default_rng(0)
    frame = telemetry(**{f"m{i}": rng.normal(size=16_000) for i in range(100)})
    started = time.perf_counter()
    found = window_features(frame, FeatureSettings())
    assert found.height == 100 * 1598
    feature_matrix(found, [(f"m{i}", f) for i in range(100) for f in FEATURES])
    assert time.perf_counter() - started < 5
