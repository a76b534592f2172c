"""Rows of a host: the moments at which it was read, last values within 1.5 intervals, counters with their resets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers import joining
from infrascope_core.importers.joining import join
from infrascope_core.importers.mapping import Mapping as MetricMapping
from infrascope_core.importers.mapping import targets
from infrascope_core.importers.samples import SCHEMA, Samples, Series

START = datetime(2026, 11, 20, 10)
END = START + timedelta(hours=1)
MAPPING = MetricMapping.model_validate(
    {
        "rules": [
            {"source": "gauge", "column": "G:{which}[-]", "type": "gauge"},
            {"source": "counter", "column": "C:{which}[s]", "type": "counter", "scale": 100},
            {"source": "sum", "column": "S:all[count]", "combine": "sum"},
            {"source": "max", "column": "M:all[count]", "combine": "max"},
        ]
    }
)


def samples(*series: tuple[Series, Mapping[float, float]]) -> Samples:
    """Samples by series, from values by seconds since the start."""
    rows = [
        (number, START + timedelta(seconds=second), value)
        for number, (_, values) in enumerate(series)
        for second, value in values.items()
    ]
    return Samples(tuple(one for one, _ in series), pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def gauge(which: str, group: str = "a") -> Series:
    return Series.of("gauge", {"which": which}, group)


def joined(found: Samples, end: datetime = END) -> joining.Joined:
    return join(found, targets(found.series, [MAPPING]), START, end)


def rows(result: joining.Joined) -> list[tuple]:
    """Seconds since the start, then the values."""
    return [((ts - START).total_seconds(), *values) for ts, *values in result.rows.iter_rows()]


def test_rows_are_the_moments_of_the_target_with_most_columns_and_others_show_their_last_value():
    result = joined(
        samples(
            (gauge("x"), {0: 1, 15: 2, 30: 3}),
            (gauge("y"), {0: 5, 15: 6, 30: 7}),
            (gauge("z", "other"), {8: 10, 23: 20, 38: 30}),
        )
    )
    assert rows(result) == [(0, 1, 5, None), (15, 2, 6, 10), (30, 3, 7, 20), (45, 3, 7, 30)]
    assert result.interval_s == 15


def test_a_scrape_that_is_late_is_a_row_of_its_own_moment_and_loses_nothing():
    """On a grid of 10 s, the sample of 19.9 s would be seen at 20 s, and that of 20.1 s not before 30 s."""
    values = {0: 0, 10.02: 1, 19.9: 2, 30.1: 3, 40: 4}
    assert rows(joined(samples((gauge("x"), values)))) == list(values.items())


def test_a_missed_scrape_leaves_a_value_for_half_an_interval_more_and_then_none():
    other = {float(s): float(s) for s in range(0, 80, 10)}
    clock = [(gauge("x"), other), (gauge("y"), other)]
    late = {0.0: 7.0, 12.0: 8.0, 50.0: 9.0, 60.0: 10.0, 70.0: 11.0}
    result = joined(samples(*clock, (gauge("z", "late"), late)))
    # read every 11 s, mostly: known until 16.5 s after it was read
    assert dict(zip(range(0, 80, 10), result.rows["G:z[-]"], strict=True)) == {
        0: 7, 10: 7, 20: 8, 30: None, 40: None, 50: 9, 60: 10, 70: 11,
    }  # fmt: skip


def test_of_several_samples_of_a_moment_the_last_counts_and_nan_is_missing():
    found = samples((gauge("x"), {0: 1, 10: 2, 20: float("nan"), 30: 4}))
    twice = pl.concat([found.values, pl.DataFrame([(0, START, 9.0)], schema=SCHEMA, orient="row")])
    assert rows(joined(Samples(found.series, twice))) == [(0, 9), (10, 2), (30, 4)]


def test_series_of_one_target_with_times_of_their_own_share_rows():
    result = joined(samples((gauge("x"), {0: 1, 10: 2, 20: 3}), (gauge("y"), {0.3: 5, 10.3: 6, 20.3: 7})))
    assert rows(result) == [(0.3, 1, 5), (10.3, 2, 6), (20.3, 3, 7)]


def test_series_that_are_each_read_at_a_time_of_their_own_are_no_single_row():
    staggered = [(gauge(f"{i:02}"), {10.0 * k + i / 2: float(k) for k in range(6)}) for i in range(20)]
    result = joined(samples(*staggered))
    assert result.rows.height == 40  # bunches of 1 s, of two or three moments
    assert all(result.rows[-1].drop("ts").select(name).item() == 5 for name in result.rows.columns[1:])


def test_endless_values_stay_endless():
    both: list[dict[float, float]] = [{0: float("inf"), 10: 1.0}, {0: float("-inf"), 10: 2.0}]
    parts = [(Series.of("sum", {"cpu": str(i)}), part) for i, part in enumerate(both)]
    counter = (Series.of("counter", {"which": "x"}), {0.0: float("inf"), 10.0: 1e308})
    result = joined(samples(*parts, counter)).rows
    assert result["S:all[count]"].to_list() == [None, 3]
    assert result["C:x[s]"].to_list() == [float("inf"), float("inf")]


def test_counters_keep_their_resets_and_are_scaled_to_the_unit():
    counter = Series.of("counter", {"which": "cpu"})
    result = joined(samples((counter, {0: 0.28, 10: 0.29, 20: 0.01, 30: 0.57})))
    # 0.29 * 100 is 28.999999999999996
    assert rows(result) == [(0, 28), (10, 29), (20, 1), (30, 57)]
    assert result.types.rows() == [("C:cpu[s]", "counter", "counter")]


def test_a_counter_that_is_read_less_often_than_its_host_stands_only_where_it_was_read():
    """Held, it would stand still and leap; its rate is that of its own interval."""
    often = {float(s): float(s) for s in range(0, 100, 10)}
    slow = {1.0: 5.0, 41.0: 6.0, 81.0: 7.0}
    result = joined(
        samples(
            (gauge("x"), often),
            (gauge("y"), often),
            (Series.of("counter", {"which": "slow"}, "slow"), slow),
            (gauge("slow", "slow"), slow),
        )
    )
    shown = dict(zip(range(0, 100, 10), result.rows["C:slow[s]"], strict=True))
    assert {second: value for second, value in shown.items() if value is not None} == {10: 500, 50: 600, 90: 700}
    assert result.rows["G:slow[-]"].to_list() == [None, 5, 5, 5, 5, 6, 6, 6, 6, 7]


def test_where_most_columns_fell_silent_the_others_go_on():
    clock = {0.0: 1.0, 10.0: 2.0, 60.0: 3.0, 70.0: 4.0}
    other = {float(s): float(s) for s in range(5, 75, 10)}
    result = joined(samples((gauge("x"), clock), (gauge("y"), clock), (gauge("z", "other"), other)))
    assert [(second, z) for second, *_, z in rows(result)] == [
        (0, None), (10, 5), (20, 15), (30, 25), (40, 35), (50, 45), (60, 55), (70, 65),
    ]  # fmt: skip


def test_a_sum_lacks_a_value_where_one_of_its_parts_does_and_a_maximum_does_not():
    """A core that is away would make the others look idle."""
    parts: list[dict[float, float]] = [{0: 1, 10: 2, 20: 3, 30: 4, 40: 5}, {0: 10, 10: 20, 40: 50}]
    found = samples(
        *((Series.of("sum", {"cpu": str(i)}, "a"), part) for i, part in enumerate(parts)),
        *((Series.of("max", {"cpu": str(i)}, "a"), part) for i, part in enumerate(parts)),
        *((gauge(str(i)), parts[0]) for i in range(3)),
    )
    result = joined(found).rows
    assert result["S:all[count]"].to_list() == [11, 22, 23, None, 55]  # 20 is known until 25 s
    assert result["M:all[count]"].to_list() == [10, 20, 20, 4, 50]


def test_two_servers_that_scrape_the_same_target_are_not_added_up():
    values = {float(s): 1.0 for s in range(0, 100, 10)}
    fewer = {float(s): 1.0 for s in range(3, 80, 10)}
    found = samples(
        *((Series.of("sum", {"cpu": c, "replica": "b"}, "b"), fewer) for c in "01"),
        *((Series.of("sum", {"cpu": c, "replica": "a"}, "a"), values) for c in "01"),
    )
    result = joined(found)
    assert set(result.rows["S:all[count]"].to_list()) == {2.0}
    assert result.notes == ("1 series say what another says, such as S:all[count], and were left out",)


def test_of_several_series_of_one_column_the_one_with_most_samples_is_taken_and_the_rest_is_said():
    found = samples(
        (Series.of("gauge", {"which": "x", "pod": "1"}), {0: 1}),
        (Series.of("gauge", {"which": "x", "pod": "2"}), {0: 2, 10: 3}),
    )
    result = joined(found)
    assert rows(result) == [(0, 2), (10, 3)]
    assert result.notes == ("1 series say what another says, such as G:x[-], and were left out",)


def test_series_of_one_column_that_follow_one_another_are_one():
    """A GPU's series change their labels with the job or the pod on it."""
    found = samples(
        (Series.of("gauge", {"which": "x", "job": ""}), {0: 1, 10: 2, 40: 5}),
        (Series.of("gauge", {"which": "x", "job": "7"}), {20: 3, 30: 4}),
    )
    result = joined(found)
    assert rows(result) == [(0, 1), (10, 2), (20, 3), (30, 4), (40, 5)]
    assert result.notes == ()


def test_what_lies_outside_of_the_job_is_left_out_and_without_samples_there_are_no_rows():
    found = samples((gauge("x"), {-5: 1, 0: 2, 10: 3, 11: 4}))
    assert rows(joined(found, START + timedelta(seconds=10))) == [(0, 2), (10, 3)]
    assert not joined(found, START - timedelta(seconds=1)).rows.height
    assert not join(found, [], START, END).rows.height


def test_a_single_sample_is_one_row():
    result = joined(samples((gauge("x"), {0: 1}), (gauge("y", "b"), {3: 1})))
    assert (result.rows.height, result.interval_s) == (2, 3)
    assert joined(samples((gauge("x"), {0: 1}))).interval_s is None


def test_hostile_times_make_no_endless_rows(monkeypatch):
    """A target that was read twice within a microsecond, and another an hour later."""
    monkeypatch.setattr(joining, "_MOST_ROWS", 1000)
    clock = {0.0: 1.0, 0.000001: 2.0}
    found = samples((gauge("x"), clock), (gauge("y"), clock), (gauge("z", "b"), {3599.0: 1.0}))
    assert joined(found).rows.height == 3
    many = samples((gauge("x"), {i / 100: 1.0 for i in range(1001)}))
    with pytest.raises(ImportSourceError, match="1,001 rows, more than a run file can have"):
        joined(many)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 600).map(float), min_size=1, max_size=60),
    st.lists(st.integers(0, 600).map(float), max_size=30),
    st.randoms(),
)
def test_the_order_of_samples_does_not_matter_and_values_are_never_newer_than_their_row(clock, other, random):
    often, rarely = dict(zip(clock, clock, strict=True)), dict(zip(other, other, strict=True))
    found = samples((gauge("x"), often), (gauge("y"), often), (gauge("z", "b"), rarely))
    mixed = found.values.sample(fraction=1, shuffle=True, seed=random.randint(0, 99))
    result = joined(found)
    assert result.rows.equals(joined(Samples(found.series, mixed)).rows)
    assert result.rows["ts"].is_sorted() and not result.rows["ts"].is_duplicated().any()
    for second, *values in rows(result):
        assert all(value is None or value <= second for value in values)
    # no row holds nothing, and every moment of the clock is one or falls to a neighbour
    assert all(any(value is not None for value in values) for _, *values in rows(result))
    assert len(set(clock)) == 1 or np.isin(max(clock), [second for second, *_ in rows(result)])
