"""What the choices of mining cost and change: how many itemsets at lower support, which rules with longer windows.

What belongs here: the studies behind `mining_feasibility` and `window_sensitivity` (steps 5 and 6 of the InfraScope
notebook), for whole platforms.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from math import comb
from pathlib import Path

import numpy as np
import polars as pl

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.patterns.held import LEVELS, Held, Items, held
from infrascope_core.patterns.itemsets import BasketBits, count_itemsets, least_count
from infrascope_core.patterns.rules import association_rules
from infrascope_core.patterns.scopes import bits_of_run, mined_groups, unaliased_groups
from infrascope_core.patterns.tallies import Tally
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.store.product import Tick
from infrascope_core.studies.tables import MINING_FEASIBILITY, WINDOW_SENSITIVITY
from infrascope_core.symbols.discretization import baskets, fit_thresholds
from infrascope_core.symbols.tables import CURATED_METRICS, GROUP_WINDOWS
from infrascope_core.symbols.windows import group_windows, window_samples


def count_at_supports(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Count the frequent itemsets of each platform at several supports: table `mining_feasibility`."""
    settings, choices = folder.settings.mining, folder.settings.mining_choices
    rows, done, runs = [], 0, accepted(folder)
    platforms = runs["platform"].unique().sort()
    for platform in platforms:
        groups = mined_groups(folder, platform)
        items = Items.of_groups(groups)
        keys = runs.filter(platform=platform)["run_key"].sort()
        own = BasketBits.of_runs([bits_of_run(folder, key, items) for key in keys], items.names)
        total, held_items = own.total, int(own.bits.any(axis=1).sum())
        for support in choices.supports:
            if total >= settings.min_baskets:
                counts = count_itemsets(own, support, settings.max_size)
                possible = [comb(len(groups), size) * len(LEVELS) ** size for size in range(1, settings.max_size + 1)]
                for size, (found, most) in enumerate(zip(counts, possible, strict=True), start=1):
                    rows.append((platform, support, size, total, least_count(total, support), held_items, found, most))
            done += 1
            tick(done, len(platforms) * len(choices.supports))
    return pl.DataFrame(rows, schema=MINING_FEASIBILITY.schema, orient="row")


def compare_window_lengths(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Mine the rules of each platform with windows of several lengths, and compare them: table `window_sensitivity`.

    Windows are cut, levels fitted and rules tested anew with each length; the first length is what the others are
    compared with.
    """
    runs, done = accepted(folder), 0
    lengths = folder.settings.mining_choices.window_seconds
    platforms = runs["platform"].unique().sort()
    rows = []
    for platform in platforms:
        of_platform = runs.filter(platform=platform).sort("run_key")
        found = []
        for seconds in lengths:
            found.append(_mined_with(folder, of_platform, platform, seconds))
            done += 1
            tick(done, len(platforms) * len(lengths))
        first = _sides(found[0][2])
        for seconds, (windows, groups, rules) in zip(lengths, found, strict=True):
            own = _sides(rules)
            common, either = len(own & first), len(own | first)
            supports = rules["support"].mean()
            rows.append(
                (
                    *(platform, seconds, windows, groups, rules.height, common),
                    common / either if either else None,
                    common / len(first) if first else None,
                    supports if isinstance(supports, float) else None,
                )
            )
    return pl.DataFrame(rows, schema=WINDOW_SENSITIVITY.schema, orient="row")


def _mined_with(folder: DataFolder, runs: pl.DataFrame, platform: str, seconds: float) -> tuple[int, int, pl.DataFrame]:
    """Windows, metric groups and rules of a platform, with windows of so many seconds."""
    recipe, mining = recipe_of(folder).model_copy(update={"windows": "seconds"}), folder.settings.mining
    cut = folder.settings.windows.model_copy(update={"seconds": seconds})
    with tempfile.TemporaryDirectory(prefix="infrascope-") as place:
        aside = Lake(Path(place))
        for key, interval_s in runs.select("run_key", "interval_s").iter_rows():
            samples = window_samples(recipe, cut, interval_s)
            aside.write(group_windows([folder.lake.path(CURATED_METRICS, key)], recipe, samples), GROUP_WINDOWS, key)
        keys = runs["run_key"].to_list()
        groups = unaliased_groups(folder, platform)
        levels = fit_thresholds(
            folder.lake.files(CURATED_METRICS, keys), aside.files(GROUP_WINDOWS, keys), runs, recipe, groups
        )
        mined = sorted(levels.filter(~pl.col("degenerate"))["metric_group"])
        items = Items.of_groups(mined)
        own = list(_runs(aside, runs, levels, platform, items))
    tally = Tally.of(own, items, mining.max_antecedent)
    if tally.windows < mining.min_baskets:
        return tally.windows, len(mined), association_rules(Tally(items, 1), [], platform, mining, recipe)
    # all that hold up are compared, not the first so many; their timing is not
    everything = mining.model_copy(update={"max_rules": np.iinfo(np.int64).max, "exchanges": 99})
    return tally.windows, len(mined), association_rules(tally, own, platform, everything, recipe)


def _runs(lake: Lake, runs: pl.DataFrame, levels: pl.DataFrame, platform: str, items: Items) -> Iterator[Held]:
    for key, *path in runs.select("run_key", *WORKLOAD_KEY).iter_rows():
        rows = baskets([lake.path(GROUP_WINDOWS, key)], levels, platform)
        yield from held(rows.filter(pl.col("metric_group").is_in(set(items.groups))), items, "/".join(path))


def _sides(rules: pl.DataFrame) -> set[tuple[str, ...]]:
    return {(*left, *right) for left, right in rules.select("antecedent", "consequent").iter_rows()}
