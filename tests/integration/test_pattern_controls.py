"""Patterns of the recorded sample, and of the sample with what makes them taken away: nothing may be left.

Each test counts over many sets with fixed seeds; what a set of a few synthetic runs shows is in tests/core/patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.patterns.contrasts import Unit, contrasts
from infrascope_core.patterns.held import Held, Items, held
from infrascope_core.patterns.rules import Tally, association_rules, run_overlaps, worth_reading
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, GROUP_ALIASES
from infrascope_core.recipes import load_recipe
from infrascope_core.run_files.runs import accepted
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Mined:
    """The runs of the sample, their items and their rules."""

    runs: list[Held]
    items: Items
    rules: pl.DataFrame


@pytest.fixture(scope="module")
def mined(sample) -> Mined:
    lake = sample.lake
    groups = set(lake.read(THRESHOLDS).filter(~pl.col("degenerate"))["metric_group"])
    groups -= set(lake.read(GROUP_ALIASES)["metric_group"])
    runs = accepted(sample).sort("run_key")
    baskets = {key: lake.read(BASKETS, key).filter(pl.col("metric_group").is_in(groups)) for key in runs["run_key"]}
    items = Items.of([item for table in baskets.values() for item in table["item"].drop_nulls().unique()])
    found = [
        one
        for key, *path in runs.select("run_key", *WORKLOAD_KEY).iter_rows()
        for one in held(baskets[key], items, "/".join(path))
    ]
    return Mined(found, items, lake.read(ASSOCIATION_RULES).filter(scope="cpu"))


def mine(runs: list[Held], items: Items) -> pl.DataFrame:
    tally = Tally(items, 2)
    for one in runs:
        tally.add(run_overlaps(one.holds, items, 2))
    return association_rules(tally, runs, "cpu", MiningSettings(), load_recipe("default").subsystem_of)


def columns(items: Items) -> Iterator[np.ndarray]:
    """Of each group, which items are its own."""
    for group in sorted(set(items.groups)):
        yield np.array([name == group for name in items.groups])


def shifted(mined: Mined, rng: np.random.Generator) -> list[Held]:
    """Every group of every run shifted by itself in time: no alignment is left, all else is."""
    made = []
    for one in mined.runs:
        holds = one.holds.copy()
        for own in columns(mined.items):
            holds[:, own] = np.roll(holds[:, own], rng.integers(len(holds)), axis=0)
        made.append(replace(one, holds=holds))
    return made


def exchanged(mined: Mined, rng: np.random.Generator) -> list[Held]:
    """Every group dealt anew among the runs of each workload: schedules are left, times of their own are not."""
    made = [one.holds.copy() for one in mined.runs]
    for workload in sorted({one.workload for one in mined.runs}):
        members = [i for i, one in enumerate(mined.runs) if one.workload == workload]
        for own in columns(mined.items):
            for to, source in zip(members, rng.permutation(members), strict=True):
                length = min(len(made[to]), len(mined.runs[source].holds))
                made[to][:, own] = False
                made[to][:length, own] = mined.runs[source].holds[:length][:, own]
    return [replace(one, holds=holds) for one, holds in zip(mined.runs, made, strict=True)]


def test_what_is_found_in_the_sample_itself(mined):
    assert mine(mined.runs, mined.items).drop("scope").equals(mined.rules.drop("scope"))
    assert mined.rules.height > 100
    assert worth_reading(mined.rules, 5, ["own"]).height >= 3


def test_shifted_within_runs_nothing_is_left(mined):
    rng = np.random.default_rng(1)
    sets = [mine(shifted(mined, rng), mined.items) for _ in range(50)]
    assert sum(rules.height > 0 for rules in sets) <= 5
    assert sum(worth_reading(rules, 5).height > 0 for rules in sets) <= 1


def test_exchanged_between_runs_of_a_workload_nothing_is_its_own(mined):
    rng = np.random.default_rng(2)
    sets = [mine(exchanged(mined, rng), mined.items) for _ in range(20)]
    assert sum(worth_reading(rules, 5, ["own"]).height > 0 for rules in sets) <= 1
    assert min(rules.height for rules in sets) > 20  # schedules are still there, and called so


def test_a_group_of_another_workload_has_no_times_in_common(mined):
    """Shown are none at times of their own. What all workloads begin with is left, as the course of the job."""
    rng = np.random.default_rng(3)
    shown = 0
    for turn in range(50):
        (own,) = list(columns(mined.items))[turn % len(set(mined.items.groups)) :][:1]
        group = mined.items.groups[int(np.argmax(own))]
        made = []
        for one in mined.runs:
            other = mined.runs[rng.choice([i for i, o in enumerate(mined.runs) if o.workload != one.workload])]
            holds, length = one.holds.copy(), min(len(one.holds), len(other.holds))
            holds[:, own] = False
            holds[:length, own] = other.holds[:length][:, own]
            made.append(replace(one, holds=holds))
        told = worth_reading(mine(made, mined.items), 5, ["own"])
        sides = told.select(pl.concat_list("antecedent", "consequent").alias("items"))["items"].to_list()
        shown += any(item.rpartition("_")[0] == group for items in sides for item in items)
    assert shown <= 2


def test_rules_of_half_of_the_runs_hold_in_the_other_half(mined):
    rng = np.random.default_rng(4)
    confirmed = stored = 0
    for _ in range(10):
        order = rng.permutation(len(mined.runs))
        first, second = ([mined.runs[i] for i in half] for half in np.array_split(order, 2))
        rules = mine(first, mined.items)
        for row in rules.iter_rows(named=True):
            left = [mined.items.names.index(item) for item in row["antecedent"]]
            right = mined.items.names.index(row["consequent"][0])
            both = sum((one.holds[:, left].all(axis=1) & one.holds[:, right]).sum() for one in second)
            expected = sum(
                one.holds[:, left].all(axis=1).sum() * one.holds[:, right].mean() for one in second if len(one.holds)
            )
            confirmed += both > expected
        stored += rules.height
    assert stored > 500
    assert confirmed / stored >= 0.85


def test_with_labels_of_runs_dealt_anew_workloads_do_not_differ(mined):
    rng = np.random.default_rng(5)
    raised = 0
    for _ in range(50):
        names = rng.permutation([one.workload for one in mined.runs])
        units = [Unit("train", str(name), "h") for name in names]
        found = contrasts(mined.runs, units, [{} for _ in units], mined.items, "cpu")
        raised += found.filter(pl.col("q_value") < 0.05).height > 0
    assert raised <= 5
