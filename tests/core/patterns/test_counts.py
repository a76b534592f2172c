"""What baskets hold, counted by hand and by pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrascope_core.patterns.counts import Counts, basket_counts, item_frequencies, item_pairs
from infrascope_core.patterns.tables import BASKET_COUNTS, ITEM_FREQUENCIES, ITEM_PAIRS
from tests.core.patterns.generated import GROUPS, ITEMS, independent, run


def one_hot(runs) -> pd.DataFrame:
    return pd.DataFrame(np.concatenate([one.holds for one in runs]).astype(int), columns=ITEMS.names)


def test_items_are_counted_over_windows_and_runs():
    runs = independent(4, 60, seed=1)
    found = item_frequencies(Counts.of(runs, ITEMS), ITEMS, "gpu")
    assert found.schema == ITEM_FREQUENCIES.schema
    expected = one_hot(runs).sum()
    assert dict(found.select("item", "count").iter_rows()) == expected.to_dict()
    assert found["support"].to_list() == pytest.approx([count / 240 for count in found["count"]])
    assert found["count"].to_list() == sorted(found["count"], reverse=True)
    occurs = {name: sum(one.holds[:, i].any() for one in runs) for i, name in enumerate(ITEMS.names)}
    assert dict(found.select("item", "runs").iter_rows()) == occurs


def test_pairs_are_those_of_different_groups_and_never_is_listed():
    constant = [np.zeros(30, dtype=int) for _ in GROUPS]
    constant[1] = np.repeat([0, 2], 15)
    constant[2] = np.repeat([2, 0], 15)
    runs = [run(0, constant)]
    found = item_pairs(Counts.of(runs, ITEMS), ITEMS, "gpu")
    assert found.schema == ITEM_PAIRS.schema
    matrix = one_hot(runs).T.dot(one_hot(runs))
    for first, second, count in found.select("first", "second", "count").iter_rows():
        assert count == matrix.loc[first, second]
    never = found.filter(count=0)
    assert never.select("first", "second").rows() == [
        ("Disk_write_HIGH", "GPU_util_HIGH"),
        ("Disk_write_LOW", "GPU_util_LOW"),
    ]
    assert found.filter(first="CPU_busy_LOW", second="Disk_write_LOW")["lift"].item() == 1.0
    assert not found.filter(found["first"].str.slice(0, 4) == found["second"].str.slice(0, 4)).height


def test_baskets_are_counted_by_run_and_host():
    levels = [np.array([0, 0, 1, 1, 2]) for _ in GROUPS]
    one = run(0, levels)
    one.holds[0] = False  # no group has a level
    (row,) = basket_counts([one], ITEMS, "gpu").iter_rows(named=True)
    assert basket_counts([one], ITEMS, "gpu").schema == BASKET_COUNTS.schema
    assert (row["baskets"], row["window_s"], row["groups"]) == (5, 1.0, 5)
    assert (row["least_items"], row["most_items"], row["mean_items"], row["distinct"]) == (0, 5, 4.0, 4)


def test_nothing_gives_empty_tables():
    assert item_frequencies(Counts.of([], ITEMS), ITEMS, "gpu").equals(ITEM_FREQUENCIES.empty())
    assert item_pairs(Counts.of([], ITEMS), ITEMS, "gpu").equals(ITEM_PAIRS.empty())
    assert basket_counts([], ITEMS, "gpu").equals(BASKET_COUNTS.empty())
