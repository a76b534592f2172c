"""Structure: metrics that vanish, arrive late or stand still, held against themselves; and the alarms on them."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.findings import structural_findings, usual_kinds, with_findings
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.anomalies.structure import structural_changes
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, STRUCTURAL_CHANGES
from infrascope_core.contract import WINDOW_KEY

START = datetime(2026, 1, 1)
SAMPLES, FROM, TO = 900, 400, 600
WINDOWS = FeatureSettings()
GPU = [f"GPU: {name}.0[{unit}]" for name, unit in (("power.draw", "W"), ("clocks.sm", "MHz"), ("fan.speed", "%"))]


def noise(seed: int, level: float = 50.0) -> np.ndarray:
    return level + np.random.default_rng(seed).normal(size=SAMPLES)


def telemetry(**columns: np.ndarray) -> pl.DataFrame:
    metrics = {name: pl.Series(values, nan_to_null=True) for name, values in columns.items()}
    return pl.DataFrame(
        {
            "run_key": "r",
            "host": "h",
            "sample": np.arange(SAMPLES),
            "ts": [START + timedelta(milliseconds=100 * i) for i in range(SAMPLES)],
            **metrics,
        }
    )


def found(**columns: np.ndarray) -> list[tuple[str, str, float, float]]:
    table = structural_changes(telemetry(**columns), WINDOWS)
    return [
        (row["metric"], row["kind"], *((row[end] - START).total_seconds() for end in ("start_ts", "end_ts")))
        for row in table.iter_rows(named=True)
    ]


def gone(values: np.ndarray, first: int, end: int | None) -> np.ndarray:
    values = values.copy()
    values[first:end] = np.nan
    return values


def held(values: np.ndarray, first: int, end: int | None) -> np.ndarray:
    values = values.copy()
    values[first:end] = values[first]
    return values


@pytest.mark.parametrize(
    ("first", "end", "seconds"),
    [(FROM, None, (40.0, 89.9)), (FROM, TO, (40.0, 59.9)), (0, FROM, (0.0, 39.9)), (60, None, (6.0, 89.9))],
    ids=["vanishes", "is away for a while", "arrives late", "vanishes early"],
)
def test_a_metric_without_values_is_found_to_the_sample(first, end, seconds):
    assert found(a=gone(noise(0), first, end), b=noise(1)) == [("a", "missing", *seconds)]


def test_a_sensor_that_gives_half_of_its_values_is_found():
    values = noise(0)
    values[np.arange(FROM, TO, 2)] = np.nan
    ((metric, kind, start, end),) = found(a=values)
    assert (metric, kind) == ("a", "missing") and 38 <= start <= 41 and 58 <= end <= 61


@pytest.mark.parametrize("end", [None, TO])
def test_a_sensor_that_repeats_its_last_value_is_found_within_a_sample(end):
    values = noise(0)
    values[FROM] = 50.3
    ((metric, kind, start, until),) = found(a=held(values, FROM, end), b=noise(1))
    assert (metric, kind) == ("a", "still")
    assert start == pytest.approx(40.0, abs=0.2) and until == pytest.approx(89.9 if end is None else 59.9, abs=0.2)


def test_a_gpu_whose_readings_all_become_zero_is_found():
    columns = {name: noise(seed) for seed, name in enumerate(GPU)}
    for values in columns.values():
        values[FROM:] = 0.0
    assert {(metric, kind) for metric, kind, *_ in found(**columns, other=noise(9))} == {(m, "still") for m in GPU}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(noise(0), id="as always"),
        pytest.param(np.full(SAMPLES, np.nan), id="never had a value"),
        pytest.param(np.full(SAMPLES, 7.0), id="never moved"),
        pytest.param(np.where(np.arange(SAMPLES) % 10, np.nan, noise(0)), id="is read every ten samples"),
        pytest.param(np.where(np.random.default_rng(2).random(SAMPLES) < 0.3, np.nan, noise(0)), id="loses a third"),
        pytest.param(gone(noise(0), 400, 415), id="is away for less than a window"),
        pytest.param(np.where(np.arange(SAMPLES) // 90 % 2, np.nan, noise(0)), id="comes and goes"),
        pytest.param(np.where(np.arange(SAMPLES) < 200, 3.0, noise(0)), id="begins to move"),
        pytest.param(np.where(np.arange(SAMPLES) // 90 % 2, 0.0, noise(0)), id="pauses again and again"),
        pytest.param(np.minimum(noise(0), 50.0) + np.where(np.arange(SAMPLES) > 600, 99, 0), id="another level"),
        pytest.param(np.where(np.arange(SAMPLES) < FROM, np.round(noise(0)), 50.0), id="at a value where it often is"),
        pytest.param(np.where(np.arange(SAMPLES) < FROM, noise(0), 0.0), id="idle from some moment on"),
        pytest.param(held(np.cumsum(np.abs(noise(0))), FROM, None), id="a counter of nothing more"),
        pytest.param(held(np.cumsum(noise(0, 0.0)), FROM, TO), id="an amount that stays"),
    ],
)
def test_nothing_is_found_where_nothing_changes(values):
    assert found(a=values, b=noise(1)) == []


def test_no_packets_for_a_while_are_no_change_of_structure():
    names = [f"NetworkInterStat_diff:{n}.ib0[count]" for n in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")]
    values = {
        name: np.where((np.arange(SAMPLES) // 200) == 2, 0.0, np.round(noise(s) * 9)) for s, name in enumerate(names)
    }
    assert found(**values) == []


def test_hosts_are_looked_at_one_by_one_and_short_ones_passed_over():
    other = telemetry(a=gone(noise(0), FROM, None)).with_columns(host=pl.lit("g"))
    short = telemetry(a=gone(noise(0), 30, None)).with_columns(host=pl.lit("s")).head(59)
    table = structural_changes(pl.concat([telemetry(a=noise(0)), other, short]), WINDOWS)
    assert table["host"].to_list() == ["g"]
    assert structural_changes(short, WINDOWS).equals(STRUCTURAL_CHANGES.empty())


def windows(number: int = 88, **changed: object) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "run_key": "r",
            "host": "h",
            "window": np.arange(number),
            "start_ts": [START + timedelta(seconds=i) for i in range(number)],
            "flagged_by": [[]] * number,
            "agreement": 0,
            **changed,
        }
    )
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in ANOMALY_SCORES.schema.items()
    )


def alarms(changes: pl.DataFrame, scores: pl.DataFrame, reasons: pl.DataFrame | None = None, usual=frozenset()):
    findings = structural_findings(changes, usual, timedelta(seconds=3))
    return with_findings(scores, ANOMALY_REASONS.empty() if reasons is None else reasons, findings, DetectorSettings())


LOST = {"GPU: power.draw.0[W]": gone(noise(0), FROM, TO), "GPU: power.draw.1[W]": gone(noise(1), FROM, TO)}


def test_alarms_are_raised_also_where_nothing_else_judges():
    scores, reasons = alarms(structural_changes(telemetry(**LOST), WINDOWS), windows())
    raised = scores.filter("anomalous")["window"]
    assert (raised.min(), raised.max()) == (39, 58) and scores["anomalous"].null_count() == 88 - 20
    assert scores.filter("anomalous")["surprisal"].min() > 2
    # both GPUs are one family, which has all of the evidence
    assert reasons.select("window", "rank").rows() == [(window, 1) for window in range(39, 59)]
    assert set(reasons["subsystem"]) == {"GPU"} and set(reasons["contribution"]) == {1.0}
    assert reasons["claim"][0] == "GPU: power.draw.0[W]: no value for 19.9 s, where samples usually have one."


def test_a_window_that_is_anomalous_by_its_values_too_shares_its_evidence():
    reason = {"run_key": "r", "host": "h", "window": 45, "rank": 1, "subsystem": "CPU", "metric": "CPU:user[%]"}
    own = pl.DataFrame([reason | {"contribution": 1.0}], schema=ANOMALY_REASONS.schema)
    scores = windows(anomalous=[window == 45 for window in range(88)], surprisal=9.0)
    judged, reasons = alarms(structural_changes(telemetry(**LOST), WINDOWS), scores, own)
    shares = dict(reasons.filter(window=45).select("subsystem", "contribution").iter_rows())
    assert shares == {"GPU": 0.5, "CPU": 0.5}
    assert judged["surprisal"].to_list() == [9.0] * 88 and judged["anomalous"].null_count() == 0
    assert reasons.group_by(WINDOW_KEY).agg(pl.col("contribution").sum())["contribution"].unique().to_list() == [1.0]


def test_what_the_references_do_as_well_is_usual():
    changes = structural_changes(telemetry(**LOST), WINDOWS)
    both = [(metric, "missing") for metric in LOST]
    assert usual_kinds([both, []]) == set(both) and usual_kinds([both, [], []]) == set()
    scores = windows()
    assert alarms(changes, scores, usual=usual_kinds([both]))[0].equals(scores)
    assert alarms(changes, scores, usual={both[0]})[1]["metric"].unique().to_list() == [both[1][0]]
