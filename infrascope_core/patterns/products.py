"""What is mined over all runs: aliases of groups, frequent itemsets, rules and orders in time of every scope, and
contrasts between kinds of runs."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import polars as pl

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.numeric import Mask, one_thread
from infrascope_core.patterns.aliases import group_aliases
from infrascope_core.patterns.candidates import to_be_tested
from infrascope_core.patterns.contrasts import Unit, contrasts
from infrascope_core.patterns.counts import Counts, basket_counts, item_frequencies, item_pairs
from infrascope_core.patterns.held import Held, Items
from infrascope_core.patterns.identity import run_identity
from infrascope_core.patterns.itemsets import BasketBits, frequent_itemsets
from infrascope_core.patterns.phases import phase_changes
from infrascope_core.patterns.rules import association_rules
from infrascope_core.patterns.scopes import (
    all_items,
    bits_of_run,
    chosen_runs,
    held_by_run,
    mined_groups,
    runs_tested,
    same_scopes,
    scopes,
    unaliased_groups,
)
from infrascope_core.patterns.sequences import OrderTally, sequential_patterns
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.signatures import Signature, signatures, workload_signatures
from infrascope_core.patterns.tables import (
    ASSOCIATION_RULES,
    BASKET_COUNTS,
    CONTRASTS,
    FREQUENT_ITEMSETS,
    GROUP_ALIASES,
    ITEM_FREQUENCIES,
    ITEM_PAIRS,
    MINED_SCOPES,
    PHASE_CHANGES,
    RUN_IDENTITY,
    SEQUENTIAL_PATTERNS,
    WORKLOAD_SIGNATURES,
)
from infrascope_core.patterns.tallies import Tally
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.jobs import jobs_of
from infrascope_core.run_files.runs import accepted, platforms, rows_of_run, workloads
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Part, Product, Scope, Tick
from infrascope_core.symbols.levels import thresholds_of_run
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

_STAGE = "patterns"
_RUNS_AT_ONCE = 64
"""Runs that are looked at together by one process."""


def _group_aliases(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return pl.concat([GROUP_ALIASES.empty(), *folder.each(_aliases_of_platform, platforms(folder), tick)])


def _aliases_of_platform(folder: DataFolder, platform: str) -> pl.DataFrame:
    recipe, mining = recipe_of(folder), folder.settings.mining
    thresholds = folder.lake.read(THRESHOLDS).filter(~pl.col("degenerate"), platform=platform)
    informative = set(thresholds["metric_group"])
    groups = [group.name for group in recipe.groups if group.name in informative]
    runs = accepted(folder).filter(platform=platform)
    keys = chosen_runs(list(runs["run_key"]), mining.max_alias_runs, mining.random_state)
    return group_aliases((folder.lake.read(GROUP_WINDOWS, key) for key in keys), groups, platform, recipe)


def _frequent_itemsets(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    mined = _mined(scopes(accepted(folder)))
    found = folder.each(_itemsets_of_scope, list(mined.items()), tick)
    return pl.concat([FREQUENT_ITEMSETS.empty(), *found])


def _itemsets_of_scope(folder: DataFolder, unit: tuple[str, list[str]]) -> pl.DataFrame:
    scope, keys = unit
    items = _items(folder, scope)
    bits = [bits_of_run(folder, key, items) for key in keys]
    return frequent_itemsets(BasketBits.of_runs(bits, items.names), scope, folder.settings.mining)


def _items(folder: DataFolder, scope: str) -> Items:
    """The items that are mined in a scope: those of its platform."""
    return Items.of_groups(mined_groups(folder, scope.split("/", maxsplit=1)[0]))


def _mined(runs_of: dict[str, list[str]]) -> dict[str, list[str]]:
    """The scopes that are mined: not those with the same runs as a wider one."""
    same = same_scopes(runs_of)
    return {scope: keys for scope, keys in runs_of.items() if scope not in same}


def _association_rules(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    found = folder.each(_rules_of_scope, _scopes_tested(folder), tick)
    return pl.concat([ASSOCIATION_RULES.empty(), *found]).sort("scope", maintain_order=True)


def _rules_of_scope(folder: DataFolder, unit: _Scope) -> pl.DataFrame:
    mining, items = folder.settings.mining, _items(folder, unit.name)
    with one_thread():
        runs = _held_by_all(folder, unit, items)
        tally = Tally.of(runs, items, mining.max_antecedent)
        if tally.windows < mining.min_baskets:
            return ASSOCIATION_RULES.empty()
        return association_rules(tally, runs, unit.name, mining, recipe_of(folder))


def _sequential_patterns(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    found = folder.each(_orders_of_scope, _scopes_tested(folder), tick)
    return pl.concat([SEQUENTIAL_PATTERNS.empty(), *found]).sort("scope", maintain_order=True)


def _orders_of_scope(folder: DataFolder, unit: _Scope) -> pl.DataFrame:
    mining, items = folder.settings.mining, _items(folder, unit.name)
    with one_thread():
        runs = _held_by_all(folder, unit, items)
        tally = OrderTally.of(runs, items, mining.longest_lag_s)
        return sequential_patterns(tally, runs, unit.name, mining, recipe_of(folder))


class _Scope(NamedTuple):
    """A scope that rules and orders are tested in.

    Attributes
    ----------
    name : str
    jobs : dict of str to str
        By run key, in the order in which they are looked at, the job of each run that is tested.
    """

    name: str
    jobs: dict[str, str]


def _scopes_tested(folder: DataFolder) -> list[_Scope]:
    """Those that are mined, from wide to narrow; of many runs, those that rules and orders are tested on."""
    runs = accepted(folder).sort(*WORKLOAD_KEY, "run_key")
    (_, job_of), place = jobs_of(folder), {key: number for number, key in enumerate(runs["run_key"])}
    tested = runs_tested(runs, folder.settings.mining)
    return [
        _Scope(scope, {key: job_of.get(key, key) for key in sorted(tested[scope], key=place.__getitem__)})
        for scope in _mined(scopes(runs))
    ]


def _held_by_all(folder: DataFolder, unit: _Scope, items: Items) -> list[Held]:
    return [replace(one, job=job) for key, job in unit.jobs.items() for one in held_by_run(folder, key, items)]


def _contrasts(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return pl.concat([CONTRASTS.empty(), *folder.each(_contrasts_of_platform, platforms(folder), tick)])


def _contrasts_of_platform(folder: DataFolder, platform: str) -> pl.DataFrame:
    runs, items = accepted(folder).filter(platform=platform).sort(*WORKLOAD_KEY, "run_key"), _items(folder, platform)
    (_, job_of), own, units, faults = jobs_of(folder), [], [], []
    for key, phase, workload in runs.select("run_key", "phase", "workload").iter_rows():
        labels = folder.lake.read(FAULTS, key)
        for one in held_by_run(folder, key, items):
            own.append(replace(one, job=job_of.get(key, key)))
            units.append(Unit(phase, workload, one.host))
            faults.append(_windows_of_faults(one, labels))
    if not own or not items.names:
        return CONTRASTS.empty()
    return contrasts(own, units, faults, items, platform, recipe=recipe_of(folder))


def _windows_of_faults(run: Held, labels: pl.DataFrame) -> dict[str, Mask]:
    """By kind of fault, the windows that begin within one."""
    found: dict[str, Mask] = {}
    for name, start, end in labels.select("fault", "start", "end").iter_rows():
        inside = (run.start >= np.datetime64(start)) & (run.start <= np.datetime64(end))
        if inside.any():
            found[str(name)] = found.get(str(name), np.zeros(len(run.start), dtype=bool)) | inside
    return found


def _mined_scopes(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    """What there was to go by: counted from the baskets, because a scope without rules leaves none behind."""
    return pl.concat([MINED_SCOPES.empty(), *folder.each(_scopes_of_platform, platforms(folder), tick)])


def _scopes_of_platform(folder: DataFolder, platform: str) -> pl.DataFrame:
    runs, mining = accepted(folder).sort("run_key"), folder.settings.mining
    found = dict(folder.lake.read(ASSOCIATION_RULES).select("scope", "holding").unique().iter_rows())
    tested_on, items = runs_tested(runs, mining), _items(folder, platform)
    groups, of_platform = len(set(items.groups)), runs.filter(platform=platform)
    # of all runs no more is kept at once than how many windows each has
    windows = {key: [len(one.holds) for one in held_by_run(folder, key, items)] for key in of_platform["run_key"]}
    runs_of = scopes(of_platform)
    same, rows = same_scopes(runs_of), []
    for scope, keys in runs_of.items():
        chosen = [one for key in tested_on[same.get(scope, scope)] for one in held_by_run(folder, key, items)]
        holds = np.concatenate([np.zeros((0, len(items.names)), dtype=bool), *(one.holds for one in chosen)])
        tested = to_be_tested(holds, items, mining) if len(holds) >= mining.min_baskets else 0
        rules = int(found.get(same.get(scope, scope), 0))
        why = None if rules else _why_none(len(holds), len(chosen), groups, tested, mining)
        members = [count for key in keys for count in windows[key]]
        rows.append((scope, same.get(scope), len(members), len(chosen), sum(members), groups, tested, rules, why))
    return pl.DataFrame(rows, schema=MINED_SCOPES.schema, orient="row")


def _why_none(windows: int, runs: int, groups: int, tested: int, mining: MiningSettings) -> str:
    if windows < mining.min_baskets:
        return f"it takes {mining.min_baskets} windows, and there are {windows}"
    if runs < mining.min_runs:
        return f"it takes {mining.min_runs} runs, and there are {runs}"
    if groups < 2:
        return f"it takes two metric groups whose levels vary, and there are {groups}"
    if not tested:
        return f"no two levels hold {mining.min_support:.0%} of the windows each"
    return "nothing that was tested holds in most runs"


def _basket_counts(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return pl.concat([BASKET_COUNTS.empty(), *(counted.baskets for counted in _counted(folder, tick).values())])


def _item_frequencies(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    found = [item_frequencies(counts, items, scope) for scope, items, counts in _counted_scopes(folder, tick)]
    return pl.concat([ITEM_FREQUENCIES.empty(), *found])


def _item_pairs(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    found = [item_pairs(counts, items, scope) for scope, items, counts in _counted_scopes(folder, tick)]
    return pl.concat([ITEM_PAIRS.empty(), *found])


@dataclass(frozen=True, eq=False)
class _Counted:
    """What the runs of a platform hold, of all metric groups.

    Attributes
    ----------
    items : Items
        All of them.
    baskets : polars.DataFrame
        Table `basket_counts`.
    workloads : dict of str to Counts
        By scope of a workload: the runs of wider ones are those of several workloads.
    """

    items: Items
    baskets: pl.DataFrame
    workloads: dict[str, Counts]


def _counted(folder: DataFolder, tick: Tick) -> dict[str, _Counted]:
    """By platform; remembered with the folder, because three products ask for it."""
    state = fingerprint(folder.lake.version(THRESHOLDS) or "", *_baskets_made_from(folder, accepted(folder)))
    return folder.once(("counts", state), lambda: _count(folder, tick))


def _baskets_made_from(folder: DataFolder, runs: pl.DataFrame) -> list[str]:
    return [f"{key} {folder.lake.made_from(BASKETS, key)}" for key in runs["run_key"]]


def _count(folder: DataFolder, tick: Tick) -> dict[str, _Counted]:
    units = [("/".join(path), own["run_key"].to_list()) for path, own in workloads(folder)]
    parts: dict[str, list[tuple[str, pl.DataFrame, Counts]]] = {}
    for (scope, _), found in zip(units, folder.each(_count_workload, units, tick), strict=True):
        parts.setdefault(scope.split("/")[0], []).append((scope, *found))
    return {
        platform: _Counted(
            all_items(folder, platform),
            pl.concat([baskets for _, baskets, _ in own]).sort("platform", "run_key", "host"),
            {scope: counts for scope, _, counts in own},
        )
        for platform, own in parts.items()
    }


def _count_workload(folder: DataFolder, unit: tuple[str, list[str]]) -> tuple[pl.DataFrame, Counts]:
    """Its runs and hosts, added up as they pass."""
    scope, keys = unit
    platform = scope.split("/")[0]
    items, counts, baskets = all_items(folder, platform), [], [BASKET_COUNTS.empty()]
    with one_thread():  # matrices of a run are too small for several
        for key in keys:
            own = held_by_run(folder, key, items)
            counts.append(Counts.of(own, items))
            baskets.append(basket_counts(own, items, platform))
    return pl.concat(baskets), reduce(operator.add, counts)


def _counted_scopes(folder: DataFolder, tick: Tick) -> Iterator[tuple[str, Items, Counts]]:
    """Each scope that is mined, with the items of all metric groups, and what its runs add up to."""
    for platform, counted in _counted(folder, tick).items():
        for scope in _mined(scopes(accepted(folder).filter(platform=platform))):
            own = (counts for name, counts in counted.workloads.items() if f"{name}/".startswith(f"{scope}/"))
            yield scope, counted.items, reduce(operator.add, own)


def _workload_signatures(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    found = [workload_signatures(runs, groups) for groups, runs in _seen(folder, tick)]
    return pl.concat([WORKLOAD_SIGNATURES.empty(), *found])


def _run_identity(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return pl.concat([RUN_IDENTITY.empty(), *folder.each(_identity_of_platform, _seen(folder, tick), tick)])


def _identity_of_platform(folder: DataFolder, seen: _Seen) -> pl.DataFrame:
    groups, runs = seen
    with one_thread():
        return run_identity(runs, groups, folder.settings.identity)


_Seen = tuple[list[str], list[Signature]]
"""The metric groups of a platform, and its runs as wholes.

Groups whose levels vary too little within runs to be mined are kept: what is the same throughout a run may be what
tells its workload.
"""


def _seen(folder: DataFolder, tick: Tick) -> list[_Seen]:
    """Signatures by platform; remembered with the folder, because two products ask for them."""
    pooled = (folder.lake.version(table) or "" for table in (THRESHOLDS, GROUP_ALIASES))
    state = fingerprint(*pooled, *_baskets_made_from(folder, accepted(folder)))
    return folder.once(("signatures", state), lambda: _signatures(folder, tick))


def _signatures(folder: DataFolder, tick: Tick) -> list[_Seen]:
    runs = accepted(folder).sort("run_key").select("run_key", *WORKLOAD_KEY)
    parts = [part.rows() for part in runs.iter_slices(_RUNS_AT_ONCE)]
    found: dict[str, list[Signature]] = {platform: [] for platform in platforms(folder)}
    for own in folder.each(_signatures_of_runs, parts, tick):
        for signature in own:
            found[signature.workload.split("/")[0]].append(signature)
    return [(unaliased_groups(folder, platform), own) for platform, own in found.items()]


def _signatures_of_runs(folder: DataFolder, runs: list[tuple[str, ...]]) -> list[Signature]:
    found: list[Signature] = []
    for key, platform, *path in runs:
        groups = unaliased_groups(folder, platform)
        found += signatures(folder.lake.read(BASKETS, key), groups, "/".join([platform, *path]))
    return found


def _phase_changes(folder: DataFolder, key: str) -> pl.DataFrame:
    informative = set(rows_of_run(folder, THRESHOLDS, key).filter(~pl.col("degenerate"))["metric_group"])
    # aliases that are found may change with every run; those that are declared do not
    aliases = {group.name for group in recipe_of(folder).groups if group.same_as in informative}
    return phase_changes(folder.lake.read(BASKETS, key), sorted(informative - aliases), folder.settings.phases)


def _one_job_within(folder: DataFolder) -> str:
    return str(folder.settings.hosts.start_within_s)


PRODUCTS = (
    Product(
        _STAGE,
        (GROUP_ALIASES,),
        Scope.MINED,
        _group_aliases,
        inputs=(GROUP_WINDOWS, THRESHOLDS),
        settings=("mining",),
        depends_on=lambda folder, _: recipe_of(folder).model_dump_json(),
        libraries=("pandas",),
        decisions=(31, 41),
    ),
    *(
        Product(_STAGE, (table,), Scope.MINED, make, inputs=(BASKETS, THRESHOLDS), libraries=("numpy",))
        for table, make in (
            (BASKET_COUNTS, _basket_counts),
            (ITEM_FREQUENCIES, _item_frequencies),
            (ITEM_PAIRS, _item_pairs),
        )
    ),
    Product(
        _STAGE,
        (FREQUENT_ITEMSETS,),
        Scope.MINED,
        _frequent_itemsets,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        settings=("mining",),
        libraries=("numpy",),
        decisions=(7,),
    ),
    Product(
        _STAGE,
        (ASSOCIATION_RULES,),
        Scope.MINED,
        _association_rules,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        code_version="5",
        settings=("mining",),
        depends_on=lambda folder, _: fingerprint(recipe_of(folder).model_dump_json(), _one_job_within(folder)),
        libraries=("numpy", "scipy"),
        decisions=(31, 41),
    ),
    Product(
        _STAGE,
        (MINED_SCOPES,),
        Scope.MINED,
        _mined_scopes,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES, ASSOCIATION_RULES),
        settings=("mining",),
        libraries=("numpy",),
        decisions=(31, 41),
    ),
    Product(
        _STAGE,
        (SEQUENTIAL_PATTERNS,),
        Scope.MINED,
        _sequential_patterns,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        settings=("mining",),
        libraries=("numpy", "scipy"),
        decisions=(31, 41),
    ),
    Product(
        _STAGE,
        (CONTRASTS,),
        Scope.MINED,
        _contrasts,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES, FAULTS),
        code_version="4",
        depends_on=lambda folder, _: _one_job_within(folder),
        libraries=("numpy", "scipy"),
        decisions=(31,),
    ),
    Product(
        _STAGE,
        (WORKLOAD_SIGNATURES,),
        Scope.MINED,
        _workload_signatures,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        libraries=("numpy",),
        decisions=(32,),
    ),
    Product(
        _STAGE,
        (RUN_IDENTITY,),
        Scope.COMPARED,
        _run_identity,
        inputs=(BASKETS, THRESHOLDS, GROUP_ALIASES),
        settings=("identity",),
        libraries=("numpy",),
        decisions=(32,),
    ),
    Product(
        _STAGE,
        (PHASE_CHANGES,),
        Scope.PER_RUN,
        _phase_changes,
        inputs=(BASKETS, Part(THRESHOLDS, thresholds_of_run)),
        settings=("phases",),
        depends_on=lambda folder, _: recipe_of(folder).model_dump_json(),
        libraries=("ruptures",),
        decisions=(32,),
    ),
)
