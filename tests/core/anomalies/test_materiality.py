"""What matters of a metric, by its name and unit."""

from __future__ import annotations

import polars as pl
import pytest

from infrascope_core.anomalies.materiality import by_feature, least_changes, of_shapes
from infrascope_core.anomalies.tables import WINDOW_FEATURES


def of(*metrics: tuple[str, float]) -> pl.DataFrame:
    rows = [{"run_key": "r", "host": "h", "window": 0, "metric": name, "maximum": value} for name, value in metrics]
    return pl.DataFrame(rows, schema=WINDOW_FEATURES.schema)


GIB = 2.0**20
"""In kB."""


def test_memory_matters_as_a_share_of_the_host():
    found = least_changes(of(("Memory:MemTotal[kB]", 24 * GIB), ("Memory:Shmem[kB]", 0), ("Memory:Dirty[kB]", 9)), 0.1)
    assert found["Memory:Shmem[kB]"] == found["Memory:Dirty[kB]"] == pytest.approx(24 * GIB * 0.0005)
    # 2 MB of 24 GB are less than a sixth of what matters
    assert 2048 / found["Memory:Shmem[kB]"] < 1 / 6
    without = least_changes(of(("Memory:Shmem[kB]", 5.0)), 0.1)
    assert "Memory:Shmem[kB]" not in without


def test_what_counts_per_sample_matters_by_its_rate():
    names = [(name, 1.0) for name in ("Storage_diff:reads_merged[count]", "Storage:reads_merged[count]")]
    differenced, rate = (least_changes(of(*names), 0.1)[name] for name, _ in names)
    assert differenced == pytest.approx(0.1 * rate)


@pytest.mark.parametrize(
    ("metric", "least"),
    [
        ("GPU: ecc.errors.uncorrected.volatile.total.0[count]", 0.1),  # one of them matters
        ("Turbostat:Busy%.3[%]", 1.0),
        ("NetworkProtocolCounts:TCP_time_wait[count]", 5.0),  # one socket does not
        ("Procstat:user.7[count]", 2.0),
        ("GPU: pcie.link.width.current.0[count]", 1.0),
        ("Perf:IPC[-]", 0.01),
        ("Server:d04[-]", None),
        ("Nobody:knows[furlong]", None),
    ],
)
def test_units_and_names(metric, least):
    assert least_changes(of((metric, 1.0)), 1.0).get(metric) == least


def test_features_follow_the_metric():
    names = [("m", f) for f in ("mean", "maximum", "variance", "sum_values", "skewness", "missing")] + [("n", "mean")]
    assert by_feature(names, {"m": 3.0}, 30).tolist() == [3, 6, 9, 90, 0, 0.1, 0]
    assert of_shapes(names, {"m": 3.0}).tolist() == [0, 0, 0, 0, 3, 0, 0]
    assert of_shapes([("m", "still")], {"m": 3.0}) == pytest.approx([0.3])


def test_what_overflows_is_not_known():
    names = [("m", f) for f in ("mean", "maximum", "variance", "sum_values")]
    assert by_feature(names, {"m": 1e200}, 30).tolist() == pytest.approx([1e200, 2e200, 0, 3e201])
    assert by_feature(names, {"m": 1.7e308}, 30).tolist() == [1.7e308, 0, 0, 0]
