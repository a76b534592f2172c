"""Phases: changes that last are found where they are, and states that come and go are not changes."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
import ruptures

from infrascope_core.patterns.phases import Lengths, change_points, phase_changes
from infrascope_core.patterns.settings import PhaseSettings
from infrascope_core.patterns.tables import PHASE_CHANGES
from infrascope_core.symbols.tables import BASKETS

START = datetime(2026, 11, 1, 10)
GROUPS = ("CPU_busy", "Disk_read", "GPU_util", "Mem_util", "Net_rx")
NAMES = ("LOW", "MED", "HIGH")


def noise(windows: int, groups: int, seed: int, lasting: float = 1.0) -> np.ndarray:
    """Levels without a course; each lasts so many windows on average."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 3, (windows, groups))
    changes = rng.random((windows, groups)) < 1 / lasting
    changes[:1] = True
    last = np.maximum.accumulate(np.where(changes, np.arange(windows)[:, None], 0), axis=0)
    return np.take_along_axis(drawn, last, axis=0)


def baskets(levels: np.ndarray, every_s: float = 1.0, host: str = "h") -> pl.DataFrame:
    rows = [
        ("r", host, i, group, START + timedelta(seconds=i * every_s), float(level), NAMES[level], f"{group}_{level}")
        for i, row in enumerate(levels)
        for group, level in zip(GROUPS, row, strict=False)
        if level >= 0
    ]
    return pl.DataFrame(rows, schema=BASKETS.schema, orient="row")


def changes(levels: np.ndarray, **changed: float) -> pl.DataFrame:
    return phase_changes(baskets(levels), GROUPS, PhaseSettings(**changed))


def in_phases(*lengths: int, seed: int = 0) -> np.ndarray:
    """CPU and GPU go from LOW to HIGH and back from phase to phase, a tenth of the windows apart; all else is noise."""
    rng = np.random.default_rng(seed)
    levels = noise(sum(lengths), len(GROUPS), seed)
    state = np.repeat(np.arange(len(lengths)) % 2 * 2, lengths)
    for column in (0, 2):
        levels[:, column] = np.where(rng.random(len(state)) < 0.9, state, 1)
    return levels


@pytest.mark.parametrize("seed", range(10))
def test_planted_phases_are_found_within_two_seconds(seed):
    found = changes(in_phases(30, 60, 40, seed=seed))
    assert found.schema == PHASE_CHANGES.schema
    assert found["offset_s"].to_list() == pytest.approx([30, 90], abs=2)
    assert found["change"].to_list() == [0, 1]
    assert [set(groups) for groups in found["rises"]] == [{"CPU_busy", "GPU_util"}, set()]
    assert [set(groups) for groups in found["falls"]] == [set(), {"CPU_busy", "GPU_util"}]
    assert found["start_ts"][0] == START + timedelta(seconds=found["offset_s"][0])


@pytest.mark.parametrize("windows", [50, 200, 1000])
@pytest.mark.parametrize("lasting", [1.0, 2.0])
def test_states_that_come_and_go_are_not_phases(windows, lasting):
    raised = sum(changes(noise(windows, 5, seed, lasting)).height > 0 for seed in range(40))
    assert raised <= 2


def test_nor_are_they_if_all_groups_move_together():
    raised = 0
    for seed in range(40):
        levels = noise(200, 5, seed, 2.0)
        levels[:] = levels[:, :1]
        raised += changes(levels).height > 0
    assert raised <= 2


def test_changes_are_those_of_the_least_cost():
    """PELT against dynamic programming over all partitions with as many changes, by the same library."""
    levels = in_phases(25, 30, 20, seed=4) / 2
    ends = change_points(levels, Lengths(block=1, noise=5, phase=10))
    spread = [levels[:, i] for i in (0, 2)]
    *oracle, _ = ruptures.Dynp(model="l2", min_size=10).fit(np.stack(spread, axis=1)).predict(n_bkps=2)
    assert ends.tolist() == oracle


def test_a_single_block_of_a_state_is_no_phase_if_it_is_short():
    levels = np.ones((120, 5), dtype=int)
    levels[60:64] = 2
    assert changes(levels).height == 0
    levels[60:90] = 2
    assert changes(levels)["offset_s"].to_list() == pytest.approx([60, 90], abs=2)


def test_the_shortest_phase_is_in_seconds():
    levels = in_phases(30, 60, 40)
    assert changes(levels, shortest_s=50).height < 2
    slow = phase_changes(baskets(levels, every_s=60), GROUPS, PhaseSettings())
    assert slow["offset_s"].to_list() == pytest.approx([1800, 5400], abs=180)


def test_hosts_of_a_file_have_phases_of_their_own():
    both = pl.concat([baskets(in_phases(30, 60), host="a"), baskets(in_phases(60, 30), host="b")])
    found = phase_changes(both, GROUPS, PhaseSettings())
    assert found.group_by("host").agg("offset_s").sort("host")["offset_s"].to_list() == [
        pytest.approx([30], abs=2),
        pytest.approx([60], abs=2),
    ]


def test_holes_are_no_changes():
    levels = noise(200, 5, 1)
    levels[80:120] = -1
    assert changes(levels).height == 0
    levels = in_phases(60, 60)
    levels[::3, 0] = -1
    assert changes(levels)["offset_s"].to_list() == pytest.approx([60], abs=2)


@pytest.mark.parametrize("windows", [0, 1, 7, 19])
def test_a_run_that_is_too_short_has_none(windows):
    assert changes(noise(windows, 5, 0)).equals(PHASE_CHANGES.empty())


def test_nor_has_one_whose_clock_stands_still():
    assert phase_changes(baskets(in_phases(30, 60, 40), every_s=0), GROUPS, PhaseSettings()).is_empty()


def test_without_groups_or_variation_there_is_none():
    assert phase_changes(baskets(in_phases(30, 60)), [], PhaseSettings()).equals(PHASE_CHANGES.empty())
    assert phase_changes(baskets(in_phases(30, 60)), ["Nobody"], PhaseSettings()).equals(PHASE_CHANGES.empty())
    assert changes(np.ones((100, 5), dtype=int)).equals(PHASE_CHANGES.empty())


def test_the_order_of_rows_does_not_matter():
    rows = baskets(in_phases(30, 60, 40))
    assert phase_changes(rows.sample(fraction=1, shuffle=True, seed=1), GROUPS, PhaseSettings()).equals(
        phase_changes(rows, GROUPS, PhaseSettings())
    )
