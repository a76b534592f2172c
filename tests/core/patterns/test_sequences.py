"""Order in time: onsets by hand, counts by brute force, planted lags, and nothing where there is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from infrascope_core.patterns.held import Held, Items
from infrascope_core.patterns.sequences import OrderTally, onsets, order_of_run, sequential_patterns, told_sequences
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import SEQUENTIAL_PATTERNS
from tests.core.patterns.generated import GROUPS, ITEMS, RECIPE, independent, levels, run


def orders(runs: Sequence[Held]) -> pl.DataFrame:
    tally = OrderTally(ITEMS, 5)
    for one in runs:
        tally.add(order_of_run(one, ITEMS, 5))
    return sequential_patterns(tally, runs, "gpu", MiningSettings(), RECIPE)


def following(runs: int, lag: int, share: float, seed: int) -> list[Held]:
    """Disk writes take the level of CPU some windows later, in a share of its stretches."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(runs):
        busy, _, *free = (levels(150, rng, 6) for _ in GROUPS)
        disk = levels(150, rng, 6)
        begins = np.flatnonzero(np.diff(busy, prepend=-1))
        for begin, end in zip(begins, [*begins[1:], 150], strict=True):
            if rng.random() < share:
                disk[begin + lag : end + lag] = busy[begin]
        made.append(run(number, [busy, disk, *free]))
    return made


def test_an_onset_is_a_level_that_lasts_after_another_that_did():
    items = Items.of(["A_HIGH", "A_LOW", "A_MED"])
    high, low, med = (items.names.index(f"A_{level}") for level in ("HIGH", "LOW", "MED"))
    course = [low, low, high, high, low, high, high, med, med, low, low, low]
    holds = np.zeros((len(course), 3), dtype=bool)
    holds[np.arange(len(course)), course] = True
    begins, names = onsets(holds, items)
    assert names == ("A_HIGH", "A_LOW")
    assert np.argwhere(begins).tolist() == [[2, 0], [9, 1]]  # not at 5: LOW lasted a single window
    holds[10] = False
    assert np.argwhere(onsets(holds, items)[0]).tolist() == [[2, 0]]  # nobody knows what came after 9
    assert not onsets(holds[:1], items)[0].any()


def test_joint_onsets_are_those_counted_one_by_one():
    (one,) = independent(1, 80, 0)
    found = order_of_run(one, ITEMS, 5)
    assert found is not None
    begins, names = onsets(one.holds, ITEMS)
    for place, lag in enumerate(range(-5, 6)):
        for a in range(len(names)):
            for b in range(len(names)):
                at = [t for t in range(80) if begins[t, a] and 0 <= t + lag < 80 and begins[t + lag, b]]
                assert found.joint[place, a, b] == len(at)


def test_a_planted_lag_is_found_and_none_is_reversed():
    found, right, reversed_order = 0, 0, 0
    for seed in range(20):
        rows = orders(following(10, 2, 0.6, seed)).rows(named=True)
        own = [r for r in rows if (r["first"], r["then"]) == ("CPU_busy_HIGH", "Disk_write_HIGH")]
        found += bool(own)
        right += bool(own) and own[0]["lag_s"] == 2
        reversed_order += any(r["first"].startswith("Disk") and r["then"].startswith("CPU") for r in rows)
    assert (found, right) >= (16, 16)
    assert reversed_order == 0


def test_what_begins_at_once_has_no_order():
    rows = orders(following(10, 0, 0.8, 1))
    assert rows.filter(pl.col("first").str.starts_with("CPU") & pl.col("then").str.starts_with("Disk")).is_empty()


def test_nothing_follows_where_there_is_nothing():
    assert sum(orders(independent(10, 150, seed)).height > 0 for seed in range(20)) <= 2


def test_the_table_and_its_figures():
    runs = following(8, 1, 0.9, 3)
    found = orders(runs)
    assert found.schema == SEQUENTIAL_PATTERNS.schema
    row = found.row(0, named=True)
    assert row["lag_s"] == 1
    assert row["times"] > 2 * row["expected"] and row["times"] > row["mirrored"]
    assert row["times"] <= row["of"]
    assert 3 <= row["agreeing_runs"] <= row["informative_runs"] <= 8
    assert_frame_equal(orders(runs[::-1]), found)


@pytest.mark.parametrize("seconds", [3.0, None])
def test_windows_that_are_too_long_show_no_order(seconds):
    runs = following(8, 1, 0.9, 3)
    if seconds is None:
        runs = [replace(one, holds=one.holds[:1], start=one.start[:1]) for one in runs]
    else:
        runs = [replace(one, start=one.start[0] + (one.start - one.start[0]) * seconds) for one in runs]
    assert [one.window_s for one in runs] == [seconds] * 8
    assert orders(runs).is_empty()


def test_a_clock_that_stands_still_shows_no_order():
    runs = [replace(one, start=one.start[:1].repeat(len(one.start))) for one in following(8, 1, 0.9, 3)]
    assert [one.window_s for one in runs] == [None] * 8
    assert orders(runs).is_empty()


def test_half_as_long_windows_have_the_same_lags():
    runs = following(8, 2, 0.9, 4)
    finer = [replace(one, start=one.start[0] + (one.start - one.start[0]) / 2) for one in runs]
    (lag,) = {
        row["lag_s"]
        for row in orders(finer).rows(named=True)
        if row["first"] == "CPU_busy_HIGH" and row["then"] == "Disk_write_HIGH"
    }
    assert lag == 1


def test_each_pair_of_groups_is_told_once():
    rows = [
        ("A_HIGH", "B_HIGH", 5.0),
        ("A_LOW", "B_LOW", 6.0),
        ("C_HIGH", "B_LOW", 4.0),
        ("D_HIGH", "B_LOW", 3.0),
        ("A_HIGH", "E_LOW", 2.0),
    ]
    frame = pl.DataFrame(rows, schema=["first", "then", "z"], orient="row")
    told = [(row["first"], row["then"]) for row in told_sequences(frame, 5)]
    assert told == [("A_LOW", "B_LOW"), ("C_HIGH", "B_LOW"), ("A_HIGH", "E_LOW")]
