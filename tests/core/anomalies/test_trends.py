"""Trends: an amount that grows on and on is found, one that grows as the references do is not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.tables import FEATURES
from infrascope_core.anomalies.trends import growing
from tests.core.anomalies.generated import features, fitted, noise

WINDOWS = 160
USED, LEFT = "Memory:MemoryUtilization[%]", "Memory:MemAvailable[kB]"
MEMORY_KB = 32e6


def run(key: str, seed: int, leaked: np.ndarray | float = 0.0) -> pl.DataFrame:
    """A run whose memory grows by 20 % within its first 30 windows; `leaked` in % of it, window by window."""
    rng = np.random.default_rng(seed)
    used = 10 + np.minimum(np.arange(WINDOWS), 30) * 20 / 30 + leaked

    def of(amount: np.ndarray, spread: float) -> np.ndarray:
        return amount[:, None] + rng.normal(0, spread, (WINDOWS, len(FEATURES)))

    total = {"Memory:MemTotal[kB]": np.full((WINDOWS, len(FEATURES)), MEMORY_KB)}
    metrics = {USED: of(used, 0.02), LEFT: of(MEMORY_KB * (1 - used / 100), 6e3), "a": noise(WINDOWS, seed)} | total
    return features(key, WINDOWS, 0, "h", **metrics)


@pytest.fixture(scope="module", params=[1, 3])
def baseline(request) -> Baseline:
    return fitted(pl.concat([run(f"r{i}", i) for i in range(request.param)]))


def found(baseline: Baseline, table: pl.DataFrame) -> pl.DataFrame:
    return growing(baseline, baseline.judge(table))


def leak(first: int, last: int, percent: float) -> np.ndarray:
    return np.interp(np.arange(WINDOWS), [first, last], [0.0, percent])


@pytest.mark.parametrize("percent", [1.5, 6.0])
def test_a_leak_is_found_from_its_begin_to_its_end(baseline, percent):
    table = found(baseline, run("new", 9, leak(80, 110, percent)))
    assert set(table["metric"]) == {USED, LEFT}
    windows = (table["start_ts"] - table["start_ts"].min(), table["end_ts"] - table["start_ts"].min())
    (used,) = table.filter(metric=USED).iter_rows(named=True)
    start, end = ((used[at].minute * 60 + used[at].second) for at in ("start_ts", "end_ts"))
    assert abs(start - 80) <= 8 and abs(end - 110) <= 4, windows
    assert used["expected"] == pytest.approx(30, abs=0.4) and used["value"] == pytest.approx(30 + percent, abs=0.4)
    assert used["surprisal"] > 2
    assert used["claim"].startswith(f"{USED}: rises from 30") and "steadily" in used["claim"]
    assert table.filter(metric=LEFT)["claim"][0].startswith(f"{LEFT}: falls from 21.4 GB")


def test_a_claim_holds_two_known_amounts_whatever_windows_are_missing(baseline):
    leaking = run("new", 9, leak(80, 110, 6.0))
    for lost in [*([window] for window in range(74, 92)), [78, 79, 80, 81], [109, 110, 111]]:
        for row in found(baseline, leaking.filter(~pl.col("window").is_in(lost))).iter_rows(named=True):
            assert np.isfinite([row["value"], row["expected"]]).all(), lost
            assert "nan" not in row["claim"], lost


@pytest.mark.parametrize(
    "leaked",
    [
        pytest.param(0.0, id="as the references"),
        pytest.param(leak(80, 81, 6.0), id="a step"),
        pytest.param(-leak(80, 110, 6.0), id="memory that is given back"),
        pytest.param(leak(80, 110, 0.1), id="too little to matter"),
        pytest.param(np.arange(WINDOWS) % 10 / 5, id="up and down"),
        pytest.param(leak(0, 30, 6.0), id="a start that takes somewhat more than usual"),
    ],
)
def test_nothing_else_is_a_trend(baseline, leaked):
    assert found(baseline, run("new", 9, leaked)).is_empty()


def test_a_reference_is_not_held_against_itself():
    leaking = run("r0", 0, leak(80, 110, 4.0))
    baseline = fitted(pl.concat([leaking, run("r1", 1), run("r2", 2)]))
    assert USED in found(baseline, leaking)["metric"].to_list()
    assert found(baseline, run("new", 9, leak(80, 110, 4.0))).is_empty()
    alone = fitted(leaking)
    assert found(alone, leaking).is_empty()


def test_hosts_of_a_reference_are_kept_apart():
    two = pl.concat([run("r0", 0), run("r0", 1, 40.0).with_columns(host=pl.lit("i"))])
    baseline = fitted(two.sort("run_key", "host", "window", "metric"))
    assert USED in found(baseline, run("new", 9, leak(80, 110, 4.0)))["metric"].to_list()


def test_few_windows_and_other_metrics_have_no_trend(baseline):
    few = run("new", 9, leak(0, 10, 6.0)).filter(pl.col("window") < 12)
    assert found(baseline, few).is_empty()
    assert found(fitted(features("r0")), features("new", seed=3)).is_empty()
