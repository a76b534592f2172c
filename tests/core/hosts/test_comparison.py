"""Hosts of one job: how far each departs, and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.hosts.comparison import aligned, compare, deviations, window_means
from infrascope_core.hosts.settings import HostSettings
from infrascope_core.run_files.jobs import JOBS

SETTINGS = HostSettings()
START = datetime(2026, 1, 1)


def test_windows_are_means_of_whole_seconds():
    telemetry = pl.DataFrame(
        {
            "ts": [START + timedelta(seconds=s) for s in (0.2, 0.7, 1.1, 3.0)],
            "m": [1.0, 3.0, None, np.inf],
        }
    )
    means = window_means(telemetry, ["m"], SETTINGS)
    second = int((START - datetime(1970, 1, 1)).total_seconds())
    assert means.rows() == [(second, 2.0), (second + 1, None), (second + 3, None)]


def test_hosts_are_aligned_by_time():
    first = pl.DataFrame({"sample": [1, 2], "m": [1.0, None], "only": [5.0, 6.0]})
    second = pl.DataFrame({"sample": [2, 3], "m": [7.0, 8.0]})
    values = aligned([first, second], ["m", "only"])
    nan = np.nan
    np.testing.assert_array_equal(values[..., 0], [[1, nan, nan], [nan, 7, 8]])
    np.testing.assert_array_equal(values[..., 1], [[5, 6, nan], [nan, nan, nan]])


def memory_of(hosts: int, windows: int = 60, noise: float = 1.0, extra: float = 40.0) -> np.ndarray:
    """Memory in use of hosts of one job, which rises with the work; the last host has more of it."""
    rng = np.random.default_rng(0)
    values = 100 + np.arange(windows) * 0.5 + rng.normal(0, noise, (hosts, windows)) + rng.normal(0, 2, (hosts, 1))
    values[-1] += extra
    return values[..., None]


def test_one_of_nine_hosts_with_more_memory():
    """The paper's case (section 6, HugePages)."""
    found = compare(memory_of(9), SETTINGS)
    assert found.hosts[:, 0].tolist() == [9] * 9
    assert found.value[8, 0] - found.expected[8, 0] == pytest.approx(40, abs=8)
    assert found.robust_z[8, 0] > 8
    assert found.persistence[8, 0] == 1.0
    assert np.abs(found.robust_z[:8, 0]).max() < 3.5


def test_what_does_not_move_is_compared_too_and_no_score_is_infinite():
    """Huge pages: 0 on eight hosts and 512 on one; the same on all hosts is not a deviation."""
    values = np.zeros((9, 20, 2))
    values[4, :, 0] = 512
    values[..., 1] = 7
    found = compare(values, SETTINGS)
    assert found.robust_z[4].tolist() == [50.0, 0.0]  # at most the inverse of `least_scale`
    assert found.steady.all()
    assert found.persistence[4].tolist() == [1.0, 0.0]


def test_a_short_burst_is_not_persistent():
    values = memory_of(5, extra=0.0)
    values[4, :10] += 80
    found = compare(values, SETTINGS)
    assert found.persistence[4, 0] < 0.9


def test_work_that_all_hosts_share_is_not_a_fluctuation():
    """A common rise from 100 to 130 does not hide a host that is 40 above the others all the time."""
    assert compare(memory_of(4, noise=0.0), SETTINGS).robust_z[3, 0] > 8


def test_hosts_that_were_never_watched_at_the_same_time():
    values = np.full((3, 30, 1), np.nan)
    for host in range(3):
        values[host, 10 * host : 10 * host + 10] = 10 if host < 2 else 20
    found = compare(values, SETTINGS)
    assert found.expected[2, 0] == 10 and found.value[2, 0] == 20
    assert found.windows[:, 0].tolist() == [10, 10, 10]


def test_a_metric_of_one_host_alone_is_not_compared():
    values = np.full((2, 12, 1), np.nan)
    values[0] = 1
    found = compare(values, SETTINGS)
    assert found.windows[:, 0].tolist() == [0, 0] and np.isnan(found.robust_z).all()
    job = pl.DataFrame([("a", f"a {h}", h, "cpu") for h in ("h1", "h2")], schema=JOBS, orient="row")
    assert deviations(job, ["Memory:X[kB]"], found).is_empty()


def test_hosts_have_no_order_and_metrics_no_unit():
    values = memory_of(6)
    order = [3, 0, 5, 1, 4, 2]
    plain, turned = compare(values, SETTINGS), compare(1024 * values[order], SETTINGS)
    np.testing.assert_allclose(turned.robust_z, plain.robust_z[order], rtol=1e-12)
    np.testing.assert_array_equal(turned.persistence, plain.persistence[order])
