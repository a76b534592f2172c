"""Patterns of recorded runs, and of the same runs with what makes them taken away or put in: what is found of each.

What belongs here: how runs are changed, and what is counted. `tests/integration/test_pattern_controls.py` holds the
counts to their targets, `patterns` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy.stats import false_discovery_control, hypergeom

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.numeric import Mask
from infrascope_core.patterns.candidates import SIGNIFICANT
from infrascope_core.patterns.co_occurrence import by_shift, chance_of_as_much
from infrascope_core.patterns.contrasts import Unit, contrasts
from infrascope_core.patterns.held import Held, Items, group_of, held
from infrascope_core.patterns.rules import association_rules, worth_reading
from infrascope_core.patterns.scopes import mined_groups
from infrascope_core.patterns.sequences import OrderTally, onsets, order_of_run, sequential_patterns
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tallies import Tally, pairs_of
from infrascope_core.recipes import Recipe, recipe_of
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS

SHOWN = 5
"""Rules of a timing that `summary` shows."""
_LEAST_RUNS, _LEAST_SHARE, _MOST_SHARE = 8, 0.03, 0.35
"""What is planted: an item that at least so many runs hold now and then, in a share of all windows between these."""


@dataclass(frozen=True)
class Mined:
    """Runs of one platform, and what is needed to mine them."""

    platform: str
    runs: list[Held]
    items: Items
    settings: MiningSettings
    recipe: Recipe

    @classmethod
    def of(cls, folder: DataFolder, platform: str, baskets: dict[str, pl.DataFrame] | None = None) -> Mined:
        """The runs of a folder; `baskets` by run key instead of its own, if given."""
        lake, groups = folder.lake, mined_groups(folder, platform)
        runs = accepted(folder).filter(platform=platform).sort("run_key")
        tables = {key: lake.read(BASKETS, key) if baskets is None else baskets[key] for key in runs["run_key"]}
        tables = {key: table.filter(pl.col("metric_group").is_in(groups)) for key, table in tables.items()}
        items = Items.of([item for table in tables.values() for item in table["item"].drop_nulls().unique()])
        found = [
            one
            for key, *path in runs.select("run_key", *WORKLOAD_KEY).iter_rows()
            for one in held(tables[key], items, "/".join(path))
        ]
        # what holds up is counted, not what is stored of it
        mining = folder.settings.mining.model_copy(update={"max_rules": np.iinfo(np.int64).max})
        return cls(platform, found, items, mining, recipe_of(folder))

    def rules(self) -> pl.DataFrame:
        """What holds up."""
        tally = Tally.of(self.runs, self.items, self.settings.max_antecedent)
        return association_rules(tally, self.runs, self.platform, self.settings, self.recipe)

    def orders(self) -> pl.DataFrame:
        """What follows what."""
        tally = OrderTally(self.items, self.settings.longest_lag_s)
        for one in self.runs:
            tally.add(order_of_run(one, self.items, self.settings.longest_lag_s))
        return sequential_patterns(tally, self.runs, self.platform, self.settings, self.recipe)

    def with_runs(self, runs: list[Held]) -> Mined:
        """The same with other runs."""
        return replace(self, runs=runs)

    def columns(self) -> Iterator[Mask]:
        """Of each group, which items are its own."""
        for group in sorted(set(self.items.groups)):
            yield np.array([name == group for name in self.items.groups])


# --- what is taken away ---


def shifted(mined: Mined, rng: np.random.Generator) -> Mined:
    """Every group of every run shifted by itself in time: no alignment is left, all else is."""
    made = []
    for one in mined.runs:
        holds = one.holds.copy()
        for own in mined.columns():
            holds[:, own] = np.roll(holds[:, own], rng.integers(max(len(holds), 1)), axis=0)
        made.append(replace(one, holds=holds))
    return mined.with_runs(made)


def exchanged(mined: Mined, rng: np.random.Generator) -> Mined:
    """Every group dealt anew among the runs of each workload: schedules are left, times of their own are not."""
    made = [one.holds.copy() for one in mined.runs]
    for workload in sorted({one.workload for one in mined.runs}):
        members = [i for i, one in enumerate(mined.runs) if one.workload == workload]
        for own in mined.columns():
            for to, source in zip(members, rng.permutation(members), strict=True):
                length = min(len(made[to]), len(mined.runs[source].holds))
                made[to][:, own] = False
                made[to][:length, own] = mined.runs[source].holds[:length][:, own]
    return mined.with_runs([replace(one, holds=holds) for one, holds in zip(mined.runs, made, strict=True)])


def foreign(mined: Mined, rng: np.random.Generator, group: str) -> Mined:
    """A group as it was in runs of other workloads."""
    own = np.array([name == group for name in mined.items.groups])
    made = []
    for one in mined.runs:
        others = [i for i, other in enumerate(mined.runs) if other.workload != one.workload]
        other = mined.runs[rng.choice(others)]
        holds, length = one.holds.copy(), min(len(one.holds), len(other.holds))
        holds[:, own] = False
        holds[:length, own] = other.holds[:length][:, own]
        made.append(replace(one, holds=holds))
    return mined.with_runs(made)


# --- what is put in ---


def planted(mined: Mined, rng: np.random.Generator, share: float) -> tuple[Mined, str, str]:
    """Shifted runs in which, in a share of the windows that hold one item, one of another group holds as well."""
    base = shifted(mined, rng)
    left, right = _two_items(base, rng)
    of_group = np.array([group == base.items.groups[right] for group in base.items.groups])
    made = []
    for one in base.runs:
        holds = one.holds.copy()
        hit = holds[:, left] & (rng.random(len(holds)) < share)
        holds[np.ix_(hit, of_group)] = False
        holds[hit, right] = True
        made.append(replace(one, holds=holds))
    return base.with_runs(made), base.items.names[left], base.items.names[right]


def planted_lag(mined: Mined, rng: np.random.Generator, windows: int, share: float) -> tuple[Mined, str, str] | None:
    """Shifted runs in which a group rises some windows after another did, in a share of the times; it rests else.

    Rises are those of the recorded runs. None if no group rises often enough that 10 joint onsets can be expected.
    """
    base = shifted(mined, rng)
    names = [name for name in base.items.names if name.endswith("_HIGH")]
    rng.shuffle(names)
    for first in names:
        a = base.items.names.index(first)
        begins = [onsets(one.holds, base.items) for one in base.runs]
        column = begins[0][1].index(first)
        rises = [int(own[:, column].sum()) for own, _ in begins]
        if sum(rises) < 2 * base.settings.min_joint_onsets or np.count_nonzero(rises) < _LEAST_RUNS:
            continue
        stretches = [_stretches(one.holds[:, a]) for one in base.runs]
        then = next(name for name in names if group_of(name) != group_of(first))
        c = base.items.names.index(then)
        of_group = np.array([group == base.items.groups[c] for group in base.items.groups])
        low = next(i for i in np.flatnonzero(of_group) if i != c)
        made = []
        for one, own in zip(base.runs, stretches, strict=True):
            holds = one.holds.copy()
            holds[:, of_group] = False
            for begin, end in own:
                if rng.random() < share:
                    holds[begin + windows : end + windows, c] = True
            holds[~holds[:, c], low] = True
            made.append(replace(one, holds=holds))
        return base.with_runs(made), first, then
    return None


def _stretches(holds: Mask) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0, append=0))
    found = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    return [(b, e) for b, e in found if e - b >= 2 and b >= 2]


def _two_items(mined: Mined, rng: np.random.Generator) -> tuple[int, int]:
    holds = np.concatenate([one.holds for one in mined.runs])
    share = holds.mean(axis=0)
    varies = np.stack([(one.holds.mean(axis=0) % 1) > 0 for one in mined.runs])
    fits = [
        (left, right)
        for left in np.flatnonzero((share >= _LEAST_SHARE) & (share <= _MOST_SHARE))
        for right in np.flatnonzero((share > 0) & (share <= _MOST_SHARE))
        if mined.items.groups[left] != mined.items.groups[right]
        and (varies[:, left] & varies[:, right]).sum() >= _LEAST_RUNS
    ]
    if not fits:
        raise ValueError("no two items hold now and then in enough runs")
    left, right = fits[rng.integers(len(fits))]
    return int(left), int(right)


# --- what is counted ---


def sets_with_rules(mined: Mined, sets: int, seed: int) -> dict[str, float]:
    """Of runs with shifted groups: in how many sets anything is stored or shown; and what pooled windows would say."""
    rng = np.random.default_rng(seed)
    old = pooled_fisher(mined)
    stored = shown = 0
    survive = []
    for turn in range(sets):
        made = shifted(mined, rng)
        rules = made.rules()
        stored += rules.height > 0
        shown += worth_reading(rules, SHOWN).height > 0
        if turn < 5 and old.height:
            again = old.select("antecedent", "consequent").join(
                pooled_fisher(made, old), on=["antecedent", "consequent"], how="left"
            )
            survive.append(again.filter(pl.col("q_value") < SIGNIFICANT).height / old.height)
    return {"sets": sets, "stored": stored, "shown": shown, "pooled": float(np.mean(survive)) if survive else 0.0}


def sets_with_own(mined: Mined, sets: int, seed: int) -> dict[str, float]:
    """Of runs with groups dealt anew within workloads: in how many sets a rule is shown as having its own times."""
    rng = np.random.default_rng(seed)
    rules = [exchanged(mined, rng).rules() for _ in range(sets)]
    shown = sum(worth_reading(found, SHOWN, ["own"]).height > 0 for found in rules)
    return {"sets": sets, "shown": shown, "rules": min(found.height for found in rules)}


def sets_with_foreign(mined: Mined, sets: int, seed: int) -> dict[str, float]:
    """Of runs with one group of another workload: in how many sets a rule of it is shown, by timing and in all."""
    rng = np.random.default_rng(seed)
    groups = sorted(set(mined.items.groups))
    own = course = shown = 0
    for turn in range(sets):
        group = groups[turn % len(groups)]
        rules = foreign(mined, rng, group).rules()
        own += _about(worth_reading(rules, SHOWN, ["own"]), group)
        course += _about(worth_reading(rules, SHOWN, ["course"]), group)
        shown += _about(rules.filter(pl.col("shown").is_not_null()), group)
    return {"sets": sets, "own": own, "course": course, "shown": shown}


def _about(rules: pl.DataFrame, group: str) -> bool:
    sides = rules.select(items=pl.concat_list("antecedent", "consequent"))["items"].to_list()
    return any(group_of(item) == group for items in sides for item in items)


def found_planted(mined: Mined, sets: int, share: float, seed: int) -> dict[str, float]:
    """Of sets with a planted co-occurrence: in how many it is found, and is said to have times of its own."""
    rng = np.random.default_rng(seed)
    found = own = 0
    for _ in range(sets):
        made, left, right = planted(mined, rng, share)
        rules = made.rules()
        timing = rules.filter(antecedent=[left], consequent=[right])["timing"].to_list()
        found += bool(timing)
        own += timing == ["own"]
    return {"sets": sets, "found": found, "own": own}


def found_lags(mined: Mined, sets: int, lag_s: float, seed: int) -> dict[str, float]:
    """Of sets with a planted lag: in how many it is found, is the right one, or is found the other way round."""
    rng = np.random.default_rng(seed)
    found = right = reversed_ = planted_sets = 0
    for _ in range(sets):
        window_s = next((one.window_s for one in mined.runs if one.window_s), 1.0)
        made = planted_lag(mined, rng, max(1, round(lag_s / window_s)), 0.7)
        if made is None:
            continue
        planted_sets += 1
        runs, first, then = made
        orders = runs.orders()
        own = orders.filter(first=first, then=then)
        found += own.height > 0
        right += bool(own.height) and abs(own["lag_s"][0] - lag_s) < window_s
        reversed_ += orders.filter(first=then, then=first).height > 0
    return {"sets": planted_sets, "found": found, "right": right, "reversed": reversed_}


def confirmed(mined: Mined, splits: int, seed: int) -> dict[str, float]:
    """Rules of half of the runs that are significant by themselves in the other half."""
    rng = np.random.default_rng(seed)
    stored = held_up = 0
    names = mined.items.names
    for _ in range(splits):
        order = rng.permutation(len(mined.runs))
        first, second = ([mined.runs[i] for i in half] for half in np.array_split(order, 2))
        rules = mined.with_runs(first).rules()
        for row in rules.iter_rows(named=True):
            left = [names.index(item) for item in row["antecedent"]]
            right = names.index(row["consequent"][0])
            sides = [(one.holds[:, left].all(axis=1), one.holds[:, right]) for one in second if len(one.holds)]
            both = sum(int((a & c).sum()) for a, c in sides)
            p = chance_of_as_much(both, [by_shift(a[:, None], c[:, None])[0] for a, c in sides])
            held_up += p < SIGNIFICANT
        stored += rules.height
    return {"splits": splits, "rules": stored, "confirmed": held_up}


def sets_with_contrasts(mined: Mined, sets: int, seed: int) -> dict[str, float]:
    """Of runs whose names are dealt anew: in how many sets a contrast between workloads is significant."""
    rng = np.random.default_rng(seed)
    raised = 0
    for _ in range(sets):
        names = rng.permutation([one.workload for one in mined.runs])
        units = [Unit("train", str(name), "h") for name in names]
        found = contrasts(mined.runs, units, [{} for _ in units], mined.items, mined.platform, recipe=mined.recipe)
        raised += found.filter(pl.col("q_value") < SIGNIFICANT).height > 0
    return {"sets": sets, "raised": raised}


# --- what was done before ---


def pooled_fisher(mined: Mined, rules: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rules as they were: over pooled windows, confidence at least 0.6, Fisher's exact test, Benjamini-Hochberg.

    With `rules`, just these are tested. What is listed has antecedents of one or two items, as the rules of today.
    """
    holds = np.concatenate([one.holds for one in mined.runs]).astype(np.float64)
    windows, count = len(holds), holds.sum(axis=0).astype(np.int64)
    pairs = pairs_of(mined.items)
    both = holds[:, pairs[:, 0]] * holds[:, pairs[:, 1]]
    left = np.concatenate([np.stack([np.arange(len(count)), np.full(len(count), -1)], axis=1), pairs])
    overlap = np.concatenate([holds.T @ holds, both.T @ holds]).astype(np.int64)
    size = np.concatenate([count, both.sum(axis=0).astype(np.int64)])
    group = np.append(mined.items.group, -2)
    fits = (group[left][:, :, None] != mined.items.group[None, None, :]).all(axis=1)
    if rules is None:
        fits &= (overlap >= mined.settings.min_support * windows) & (overlap >= 0.6 * np.maximum(size, 1)[:, None])
        fits &= overlap * windows > size[:, None] * count[None, :]
    rows, right = np.nonzero(fits)
    found = pl.DataFrame(
        {
            "antecedent": [[mined.items.names[i] for i in left[row] if i >= 0] for row in rows],
            "consequent": [[mined.items.names[i]] for i in right],
            "p_value": hypergeom.sf(overlap[rows, right] - 1, windows, size[rows], count[right]),
        },
        schema={"antecedent": pl.List(pl.String), "consequent": pl.List(pl.String), "p_value": pl.Float64},
    )
    if rules is not None:
        found = found.join(rules.select("antecedent", "consequent"), on=["antecedent", "consequent"], how="semi")
    p = found["p_value"]
    return found.with_columns(
        q_value=false_discovery_control(p.to_numpy()) if len(p) else pl.Series([], dtype=pl.Float64)
    )
