"""Baskets as nobody wants them: every kind of pattern gives its table, and says why there is nothing in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from infrascope_core.patterns.products import PRODUCTS
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, FREQUENT_ITEMSETS, MINED_SCOPES
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

POOLED = [product.name for product in GRAPH.order if product in PRODUCTS and not product.scope.per_run]
GROUPS = ("CPU_busy", "Disk_write", "Mem_dirty", "Net_rx")
LEVELS = np.array(["LOW", "MED", "HIGH"])


def levels(seed: int, windows: int = 60) -> np.ndarray:
    """Levels of each group, windows x groups: two of them go together."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 3, (windows, len(GROUPS)))[np.arange(windows) // 4 * 4]
    found[:, 1] = np.where(rng.random(windows) < 0.8, found[:, 0], found[:, 1])
    return found


def baskets(key: str, of: np.ndarray, host: str = "h", number: int = 0) -> pl.DataFrame:
    """Rows of the table; -1 is missing."""
    start = datetime(2026, 11, 1) + timedelta(hours=number)
    return BASKETS.conform(
        pl.DataFrame(
            [
                {
                    "run_key": key,
                    "host": host,
                    "window": window,
                    "metric_group": group,
                    "start_ts": start + timedelta(seconds=window),
                    "value": float(level) if level >= 0 else None,
                    "level": LEVELS[level] if level >= 0 else None,
                    "item": f"{group}_{LEVELS[level]}" if level >= 0 else None,
                }
                for window, row in enumerate(of.tolist())
                for group, level in zip(GROUPS, row, strict=False)
            ],
            schema=BASKETS.schema,
        )
    )


def usual(runs: int = 6) -> dict[str, pl.DataFrame]:
    return {f"r{number}": baskets(f"r{number}", levels(number), number=number) for number in range(runs)}


def fill(place: Path, runs: dict[str, pl.DataFrame], settings: Settings, degenerate: bool = False) -> DataFolder:
    """A folder that holds what patterns are mined from, written by hand."""
    folder = DataFolder(place, settings)
    for key, rows in runs.items():
        described = {
            "run_key": key,
            "platform": "cpu",
            "phase": "train",
            "workload": "W",
            "host": "h",
            "hosts": ["h"],
            "started_at": datetime(2026, 11, 1),
            "status": "accepted",
        }
        schema = RUN_FILES.schema
        folder.lake.write(pl.DataFrame([dict.fromkeys(schema) | described], schema=schema), RUN_FILES, key)
        folder.lake.write(rows, BASKETS, key)
        columns = [name for name in GROUP_WINDOWS.schema if name in rows.columns]
        values = rows.drop_nulls("value").select(columns).with_columns(samples=pl.lit(10), metrics=pl.lit(1))
        folder.lake.write(values, GROUP_WINDOWS, key)
    seen = sorted({group for rows in runs.values() for group in rows["metric_group"]})
    fitted = [
        dict.fromkeys(THRESHOLDS.schema) | {"platform": "cpu", "metric_group": g, "degenerate": degenerate}
        for g in seen
    ]
    folder.lake.write(pl.DataFrame(fitted, schema=THRESHOLDS.schema), THRESHOLDS)
    return folder


def mined(
    place: Path, runs: dict[str, pl.DataFrame], degenerate: bool = False, **mining: object
) -> dict[str, pl.DataFrame]:
    """Every pooled table of the stage."""
    settings = Settings(mining=MiningSettings(**{"exchanges": 199, **mining}))
    folder = fill(place, runs, settings, degenerate)
    return {name: GRAPH.make_pooled(folder, name) for name in POOLED}


def every(of: Callable[[np.ndarray], np.ndarray], runs: int = 6) -> dict[str, pl.DataFrame]:
    return {f"r{i}": baskets(f"r{i}", of(levels(i)), number=i) for i in range(runs)}


def always_low(of: np.ndarray) -> np.ndarray:
    return np.zeros_like(of)


def one_always_high(of: np.ndarray) -> np.ndarray:
    return np.column_stack([of[:, :3], np.full(len(of), 2)])


NOTHING: dict[str, tuple[dict[str, pl.DataFrame], str]] = {
    "one group": (every(lambda of: of[:, :1]), "it takes two metric groups whose levels vary, and there are 1"),
    "one run": ({"r0": baskets("r0", levels(0, 200))}, "it takes 3 runs, and there are 1"),
    "runs of one window": (every(lambda of: of[:1]), "it takes 100 windows, and there are 6"),
    "all missing": (every(lambda of: np.full_like(of, -1)), "no two levels hold 1% of the windows each"),
    "constant items": (every(always_low), "nothing that was tested holds in most runs"),
    "identical rests": (every(lambda of: of * 0 + 1), "nothing that was tested holds in most runs"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_nothing_can_be_found_the_reason_is_told(tmp_path, name):
    runs, why = NOTHING[name]
    found = mined(tmp_path, runs)
    assert found[ASSOCIATION_RULES.name].is_empty()
    assert found[MINED_SCOPES.name].filter(scope="cpu").select("rules", "why").rows() == [(0, why)]


def test_all_groups_degenerate_are_no_groups(tmp_path):
    found = mined(tmp_path, usual(), degenerate=True)
    assert found[FREQUENT_ITEMSETS.name].is_empty()
    assert found[MINED_SCOPES.name]["why"][0] == "it takes 100 windows, and there are 0"


def test_no_run_gives_every_table_with_its_columns(tmp_path):
    found = mined(tmp_path, {})
    assert all(frame.is_empty() for frame in found.values())
    assert {name: frame.schema for name, frame in found.items()} == {name: GRAPH.tables[name].schema for name in POOLED}


SOMETHING: dict[str, dict[str, pl.DataFrame]] = {
    "as usual": usual(),
    "one item always": every(one_always_high),
    "holes in the window numbers": {k: rows.filter(pl.col("window") % 20 < 17) for k, rows in usual().items()},
    "runs of different length": {f"r{i}": baskets(f"r{i}", levels(i, 30 + 20 * i), number=i) for i in range(6)},
    "two hosts in a file": {
        k: pl.concat([rows, baskets(k, levels(90 + i), "g", i)]) for i, (k, rows) in enumerate(usual().items())
    },
    "identical runs": {f"r{i}": baskets(f"r{i}", levels(0), number=i) for i in range(6)},
    "rows in no order": {k: rows.sample(fraction=1, shuffle=True, seed=1) for k, rows in usual().items()},
}


@pytest.mark.parametrize("name", SOMETHING)
def test_what_goes_together_is_found_all_the_same(tmp_path, name):
    found = mined(tmp_path, SOMETHING[name])
    rules = {
        (*left, *right) for left, right in found[ASSOCIATION_RULES.name].select("antecedent", "consequent").iter_rows()
    }
    assert ("CPU_busy_HIGH", "Disk_write_HIGH") in rules
    assert {name: frame.schema for name, frame in found.items()} == {name: GRAPH.tables[name].schema for name in POOLED}


@pytest.mark.parametrize(
    "changed", [{"max_size": 1}, {"min_support": 1.0}, {"max_antecedent": 1}, {"max_antecedent": 3}]
)
def test_settings_at_their_ends_do_no_harm(tmp_path, changed):
    found = mined(tmp_path, usual(), **changed)
    sizes = found[FREQUENT_ITEMSETS.name]["size"]
    assert sizes.is_empty() or sizes.max() <= changed.get("max_size", 4)
    if changed.get("min_support") == 1.0:
        assert sizes.is_empty()
        assert found[MINED_SCOPES.name]["why"][0] == "no two levels hold 100% of the windows each"
