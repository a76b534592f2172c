"""Window features: values by hand, tsfresh and statsmodels as oracles, what is null, holes, classes."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from infrascope_core.anomalies.features import feature_matrix, of_windows, window_features
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import FEATURES, STORED_FEATURES, WINDOW_FEATURES
from infrascope_core.contract import WINDOW_KEY

START = dt.datetime(2025, 5, 7)
SLOPE = 'linear_trend__attr_"slope"'
DICKEY_FULLER = 'dickey_fuller__attr_"teststat"'


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


def tsfresh_values(x: np.ndarray) -> dict[str, float]:
    """Features by tsfresh's own calculators, and by statsmodels the test that tsfresh's is an augmented form of."""
    from statsmodels.tsa.stattools import adfuller
    from tsfresh.feature_extraction import feature_calculators as tsfresh

    plain = [f for f in FEATURES if "__" not in f]
    return {f: getattr(tsfresh, f)(x) for f in plain} | {
        "autocorrelation__lag_1": tsfresh.autocorrelation(x, 1),
        SLOPE: dict(tsfresh.linear_trend(x, [{"attr": "slope"}]))['attr_"slope"'],
        DICKEY_FULLER: np.nan
        if not has_dickey_fuller(x)
        else adfuller(x, maxlag=0, autolag=None, regression="c", result_object=True).statistic,
    }


def has_dickey_fuller(x: np.ndarray) -> bool:
    """Whether the regression behind it is one: three steps, levels that differ, a rest that is not fitted."""
    before, steps = x[:-1] - x.mean(), np.diff(x)
    if len(steps) < 3 or np.ptp(before) <= 1e-3 * np.abs(before).max():
        return False
    design = np.column_stack([before, np.ones_like(before)])
    rest = steps - design @ np.linalg.lstsq(design, steps)[0]
    return bool(rest @ rest > 1e-9 * (steps @ steps))


def features_of(x, **given) -> dict[str, float | None]:
    """The only window of a signal."""
    found = window_features(telemetry(m=x), FeatureSettings(samples=len(x)), **given)
    _, (row,) = feature_matrix(found, [("m", f) for f in FEATURES])
    return {f: None if np.isnan(value) else value for f, value in zip(FEATURES, row.tolist(), strict=True)}


def by_window(found: pl.DataFrame) -> pl.DataFrame:
    """The features with a row for each window."""
    return of_windows(found, found.select(WINDOW_KEY)).sort("run_key", "host", "metric", "window")


def nan_for_none(found: dict[str, float | None]) -> dict[str, float]:
    return {f: np.nan if v is None else v for f, v in found.items()}


def test_a_window_by_hand():
    found = window_features(telemetry(m=[1.0, 2.0, 3.0, 6.0]), FeatureSettings(samples=4, stride=1))
    assert found.schema == WINDOW_FEATURES.schema
    (row,) = found.to_dicts()
    assert {k: row[k] for k in row if k not in FEATURES} == {
        "run_key": "run",
        "host": "h",
        "metric": "m",
        "window": 0,
        "windows": 1,
        "start_ts": START,
        "samples": 4,
    }
    # Deviations -2, -1, 0, 3: squares 14, cubes 18, fourth powers 98, neighbours' products 2 + 0 + 0.
    assert {f: row[f] for f in FEATURES if row.get(f) is not None} == pytest.approx(
        {
            "mean": 3.0,
            "standard_deviation": 3.5**0.5,
            "skewness": 4 * 3**0.5 / 2 * 18 / 14**1.5,
            "kurtosis": (4 * 5 * 3 * 98 / 14**2 - 3 * 3**2) / (2 * 1),
            "minimum": 1.0,
            "maximum": 6.0,
            "median": 2.5,
            "autocorrelation__lag_1": 2 / (3 * 3.5),
            SLOPE: (-1.5 * -2 + -0.5 * -1 + 0 + 1.5 * 3) / 5,
            "mean_abs_change": 5 / 3,
            # Steps 1, 1, 3 on levels 1, 2, 3: a slope of 1, residuals 1/3, -2/3, 1/3, so its standard error is 3**-0.5.
            DICKEY_FULLER: 3**0.5,
        }
    )
    told = features_of([1.0, 2.0, 3.0, 6.0])
    assert (told["variance"], told["sum_values"]) == pytest.approx((3.5, 12.0))


def test_windows_with_the_same_features_are_one_row():
    settings = FeatureSettings(samples=3, stride=1)
    found = window_features(
        telemetry(level=[4.0] * 6 + [5.0] * 4, moves=[0.0, 1.0, None, *np.arange(7.0) ** 2]), settings
    )
    assert found.filter(metric="level").select("window", "windows").rows() == [
        (0, 1), (1, 1), (2, 2), (4, 1), (5, 1), (6, 2),  # no other metric tells the time of windows 0, 1 and 2
    ]  # fmt: skip
    assert found.filter(metric="moves")["window"].to_list() == [3, 4, 5, 6, 7]
    _, matrix = feature_matrix(found, [("level", "maximum"), ("moves", "maximum")])
    np.testing.assert_array_equal(matrix.T, [[4, 4, 4, 4, 5, 5, 5, 5], [np.nan] * 3 + [4, 9, 16, 25, 36]])


def test_windows_slide_and_the_incomplete_last_one_is_dropped():
    found = window_features(telemetry(m=np.arange(11.0)), FeatureSettings(samples=4, stride=3))
    assert found.select("window", "minimum", "maximum").rows() == [(0, 0, 3), (1, 3, 6), (2, 6, 9)]
    assert found["start_ts"].to_list() == [START + dt.timedelta(milliseconds=300 * i) for i in range(3)]


def test_rows_come_by_host_metric_and_window_whatever_the_order_of_columns_and_rows():
    rng = np.random.default_rng(0)
    a, b = (telemetry(host=h, z=rng.normal(size=9), m=rng.normal(size=9)) for h in ("h2", "h1"))
    settings = FeatureSettings(samples=4, stride=4)
    found = window_features(pl.concat([a, b]), settings)
    assert found.select("host", "metric", "window").rows() == [
        (h, m, w) for h in ("h1", "h2") for m in ("m", "z") for w in (0, 1)
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
    assert found.select("metric", "window").rows() == [
        *(("holed", window) for window in range(2)),
        *(("whole", window) for window in range(4)),
    ]
    pair = found.filter(pl.col("window") == 0).drop("metric")
    assert pair[0].equals(pair[1])


@pytest.mark.parametrize("value", [0.0, 0.1, -5.0, 1e12, 1e37])
def test_a_constant_window_has_no_shape(value):
    found, kept = features_of([value] * 30), float(np.float32(value))
    assert found.pop("sum_values") == pytest.approx(30 * value)
    assert found == {
        "mean": kept, "variance": 0.0, "standard_deviation": 0.0, "skewness": None, "kurtosis": None,
        "minimum": kept, "maximum": kept, "median": kept, "autocorrelation__lag_1": None, SLOPE: 0.0,
        "mean_abs_change": 0.0, DICKEY_FULLER: None,
    }  # fmt: skip


def test_three_samples_have_neither_kurtosis_nor_dickey_fuller():
    x = np.array([1.0, 2.0, 4.0])
    found = features_of(x)
    assert [f for f, v in found.items() if v is None] == ["kurtosis", DICKEY_FULLER]
    assert nan_for_none(found) == pytest.approx(tsfresh_values(x), rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    "x",
    [
        0.1 * np.arange(30),  # a ramp: every step is the constant
        np.array([0.1] * 29 + [5.0]),  # one level before all steps: no slope
        np.array([5.0] + [0.1] * 29),  # two points: a line through both
        1 - 0.5 ** np.arange(30.0),  # half the way to 1 with each step
    ],
    ids=["ramp", "last sample differs", "first sample differs", "decay"],
)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_no_dickey_fuller_where_only_rounding_is_left(x, scale):
    found = features_of(scale * x)
    assert found[DICKEY_FULLER] is None
    assert None not in [found[f] for f in ("mean", "skewness", "kurtosis", SLOPE, "mean_abs_change")]


def test_dickey_fuller_separates_mean_reversion_from_a_random_walk():
    noise = np.random.default_rng(0).normal(size=300)
    returns, walks = features_of(noise)[DICKEY_FULLER], features_of(np.cumsum(noise))[DICKEY_FULLER]
    assert returns < -10 < -2.87 < walks  # -2.87: the 5 % point of its distribution


def test_tsfresh_refuses_the_autocorrelation_of_small_variances():
    small, enough = 1e-4 * np.tile([1.0, -1.0, 1.0], 10), 1.1e-4 * np.tile([1.0, -1.0, 1.0], 10)
    found = window_features(telemetry(a=small, b=enough), FeatureSettings())
    assert found["autocorrelation__lag_1"].is_null().to_list() == [True, False]


LEVELS = {"mean": 1, "minimum": 1, "maximum": 1, "median": 1, "sum_values": 30}


@pytest.mark.parametrize("noise", [1.0, 64.0, 1e6])
def test_noise_on_a_large_level_keeps_its_digits(noise):
    x = 1e12 + noise * np.random.default_rng(0).normal(size=30)
    # Taking 1e12 away is exact. With it, statsmodels calls the window singular, and tsfresh's autocorrelation
    # has five digits.
    found, expected = features_of(x), tsfresh_values(x - 1e12)
    for feature in FEATURES:
        assert found[feature] == pytest.approx(expected[feature] + 1e12 * LEVELS.get(feature, 0), rel=1e-6), feature


@given(
    st.lists(
        st.floats(-1e4, 1e4).map(lambda v: round(v, 3)) | st.sampled_from([0.0, 1.0, 100.0]), min_size=3, max_size=30
    )
)
@hypothesis_settings(max_examples=150)
def test_every_feature_has_the_value_of_tsfresh(values):
    x = np.array(values)
    found, expected = nan_for_none(features_of(x)), tsfresh_values(x)
    if not has_dickey_fuller(x):
        found.pop(DICKEY_FULLER), expected.pop(DICKEY_FULLER)
    if np.ptp(x) == 0:
        expected |= {"variance": 0.0, "standard_deviation": 0.0, "autocorrelation__lag_1": np.nan}  # there rounded
    unit = np.ptp(x) + 1e-3 * np.abs(x).max()
    slack = {"variance": unit**2} | dict.fromkeys(("mean", "sum_values", "median", SLOPE), unit)
    for feature, value in found.items():
        assert value == pytest.approx(expected[feature], rel=1e-6, abs=1e-9 * slack.get(feature, 1), nan_ok=True), (
            feature
        )


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_random_windows_have_the_values_of_tsfresh(scale):
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=30), rng.poisson(1, size=30), np.cumsum(rng.normal(size=30)), rng.normal(50, 1, size=4)):
        assert nan_for_none(features_of(scale * x)) == pytest.approx(tsfresh_values(scale * x), rel=1e-6, nan_ok=True)


def test_the_names_are_those_of_tsfresh():
    """Also that of the test without lags, which tsfresh has not: a calculator of one's own is named alike."""
    from tsfresh import extract_features
    from tsfresh.feature_extraction.feature_calculators import set_property

    @set_property("fctype", "combiner")
    def dickey_fuller(x, param):
        return [(f'attr_"{p["attr"]}"', 0.0) for p in param]

    attributes = {"linear_trend": [{"attr": "slope"}], dickey_fuller: [{"attr": "teststat"}]}
    wanted = dict.fromkeys([f for f in FEATURES if "__" not in f]) | {"autocorrelation": [{"lag": 1}]} | attributes
    found = extract_features(
        pd.DataFrame({"id": 0, "t": range(5), "m": [1.0, 2.0, 3.0, 6.0, 0.0]}),
        column_id="id", column_sort="t", default_fc_parameters=wanted, n_jobs=0, disable_progressbar=True,
    )  # fmt: skip
    assert set(found.columns) == {f"m__{f}" for f in FEATURES}


@pytest.mark.parametrize("exponent", [-300, -120, -70, -30, 30, 36, 70, 160, 300])
def test_what_leaves_the_range_of_single_precision_is_null_and_never_wrong(exponent):
    x = np.random.default_rng(0).normal(size=30)
    found, expected = features_of(x * 10.0**exponent), features_of(x)
    power = dict.fromkeys(("skewness", "kurtosis", "autocorrelation__lag_1", DICKEY_FULLER), 0) | {"variance": 2}
    for feature, value in found.items():
        scaled = power.get(feature, 1) * exponent
        if value is not None and abs(scaled) < 300:
            least = 1e-80 if feature == "variance" else 1e-44
            assert value == pytest.approx(expected[feature] * 10.0**scaled, rel=1e-6, abs=least), feature
    of_levels = [found[f] for f in ("mean", "minimum", "median", SLOPE, "sum_values", "mean_abs_change")]
    assert of_levels == [None] * 6 if exponent > 36 else None not in of_levels
    assert (found["kurtosis"] is None) == (abs(exponent) > 70)


def test_an_event_counter_has_its_sum_and_its_burst_and_a_static_metric_its_level():
    frame = telemetry(
        drops=[0, 1, 0, 9, None, 0, 2, 0],
        size=[4, 4, 4, 4, 4, 8, 8, None],
        load=[1, 2, 4, 3, 1, 2, 4, 3],
        new=[1, 2, 4, 3, 1, 2, 4, 3],
    )
    settings = FeatureSettings(samples=3, stride=1)
    classes = {"drops": "event_counter", "size": "static", "load": "dynamic", "gone": "event_counter"}
    found = window_features(frame, settings, classes=classes)
    counted = found.filter(metric="drops")
    assert counted.select("window", "sum_values", "maximum").rows() == [(0, 1, 1), (1, 10, 9), (5, 2, 2)]
    assert counted.select(set(STORED_FEATURES) - {"sum_values", "maximum"}).null_count().row(0) == (3,) * 10
    sizes = found.filter(metric="size")
    assert sizes.select("window", "windows", "maximum").rows() == [(0, 3, 4), (3, 2, 8)]
    assert sizes.select(set(STORED_FEATURES) - {"maximum"}).null_count().row(0) == (2,) * 11
    everything = window_features(frame, settings).filter(pl.col("metric").is_in(["load", "new"]))
    assert found.filter(pl.col("metric").is_in(["load", "new"])).equals(everything)
    assert found.equals(found.sort("host", "metric", "window"))


def test_static_metrics_alone_give_their_level():
    found = window_features(telemetry(m=[1.0] * 40), FeatureSettings(), classes={"m": "static"})
    assert found.schema == WINDOW_FEATURES.schema
    assert found.select("window", "metric", "maximum").rows() == [(0, "m", 1), (1, "m", 1)]


@given(st.integers(5, 40), st.integers(3, 12), st.integers(1, 5), st.integers(0, 99))
@hypothesis_settings(max_examples=40)
def test_a_window_among_many_is_as_the_window_alone(length, samples, stride, seed):
    x = np.random.default_rng(seed).normal(size=length).round(1)
    found = window_features(telemetry(m=x), FeatureSettings(samples=samples, stride=stride))
    windows, matrix = feature_matrix(found, [("m", f) for f in FEATURES])
    assert windows["window"].to_list() == list(range(max(0, (length - samples) // stride + 1)))
    for window, row in enumerate(matrix):
        alone = nan_for_none(features_of(x[window * stride :][:samples]))
        np.testing.assert_array_equal(row, list(alone.values()))


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


def test_the_matrix_is_the_same_whatever_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    hosts = [telemetry("run", host, **{m: rng.normal(size=40) for m in "abc"}) for host in ("h2", "h1")]
    found = window_features(pl.concat(hosts), FeatureSettings(samples=4, stride=3))
    names = [(metric, feature) for metric in "cab" for feature in FEATURES]
    windows, matrix = feature_matrix(found, names)
    assert windows["host"].to_list() == ["h1"] * 13 + ["h2"] * 13
    last = found.filter(host="h2", window=12, metric="b").row(0, named=True)
    told = {"variance": last["standard_deviation"] ** 2, "sum_values": 4 * last["mean"]}
    np.testing.assert_array_equal(matrix[-1, -len(FEATURES) :], [(last | told)[f] for f in FEATURES])
    for seed in range(3):
        shuffled = feature_matrix(found.sample(fraction=1, shuffle=True, seed=seed), names)
        assert shuffled[0].equals(windows)
        np.testing.assert_array_equal(shuffled[1], matrix)


def test_features_of_some_windows_are_those_of_all():
    frame = telemetry(a=np.arange(40.0) // 9, b=np.random.default_rng(0).normal(size=40), size=[1.0] * 40)
    found = window_features(frame, FeatureSettings(samples=4, stride=3), classes={"size": "static"})
    names = [(metric, feature) for metric in ("a", "b", "size") for feature in FEATURES]
    windows, matrix = feature_matrix(found, names)
    chosen = [2, 3, 7, 12]
    some = of_windows(found, windows[chosen].select(WINDOW_KEY))
    assert set(some["windows"]) == {1}
    of_some = feature_matrix(some, names)
    assert of_some[0].equals(windows[chosen])
    np.testing.assert_array_equal(of_some[1], matrix[chosen])


def test_the_matrix_of_a_metric_alone_has_all_its_windows():
    found = window_features(
        telemetry(a=np.arange(9.0), size=[1.0] * 9), FeatureSettings(samples=3, stride=1), classes={"size": "static"}
    )
    windows, matrix = feature_matrix(found.filter(metric="size"), [("size", "maximum")])
    assert windows["window"].to_list() == list(range(7))
    assert windows["start_ts"].to_list() == [START, *[None] * 6]
    assert matrix[:, 0].tolist() == [1.0] * 7


def test_the_size_of_the_chunks_leaves_no_trace(monkeypatch):
    rng = np.random.default_rng(0)
    metrics = {f"m{i:02}": rng.normal(1e9, 1, size=200) for i in range(12)}
    frame = telemetry("run", "h", gap=[None] + [0.1] * 199, **metrics)
    classes = {"m03": "event_counter", "m07": "event_counter"}
    at_once = window_features(frame, FeatureSettings(), classes=classes)
    for values in (1, 30 * 18 * 5):
        monkeypatch.setattr("infrascope_core.anomalies.features._CHUNK_VALUES", values)
        assert window_features(frame, FeatureSettings(), classes=classes).equals(at_once)
