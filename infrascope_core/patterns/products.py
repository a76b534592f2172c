"""What is mined over all runs: aliases of groups, frequent itemsets, rules and orders in time of every scope, and
contrasts between kinds of runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol, TypeVar

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
from infrascope_core.patterns.sequences import OrderTally, order_of_run, sequential_patterns
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
from infrascope_core.patterns.tallies import Tally, run_overlaps
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.jobs import jobs_of
from infrascope_core.run_files.runs import accepted, rows_of_run
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Part, Product, Scope, Tick
from infrascope_core.symbols.levels import thresholds_of_run
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

_STAGE = "patterns"


def _group_aliases(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    recipe, thresholds, mining = recipe_of(folder), folder.lake.read(THRESHOLDS), folder.settings.mining
    parts = [GROUP_ALIASES.empty()]
    for (name,), runs in sorted(accepted(folder).partition_by("platform", as_dict=True).items()):
        informative = set(thresholds.filter(~pl.col("degenerate"), platform=name)["metric_group"])
        groups = [group.name for group in recipe.groups if group.name in informative]
        keys = chosen_runs(list(runs["run_key"]), mining.max_alias_runs, mining.random_state)
        windows = (folder.lake.read(GROUP_WINDOWS, key) for key in keys)
        parts.append(group_aliases(windows, groups, str(name), recipe))
    return pl.concat(parts)


def _frequent_itemsets(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    mining, runs, done = folder.settings.mining, accepted(folder).sort("run_key"), 0
    mined, found = _mined(scopes(runs)), {}
    for platform, items in _platforms(folder, runs):
        bits = {key: bits_of_run(folder, key, items) for key in runs.filter(platform=platform)["run_key"]}
        for scope, keys in mined.items():
            if scope.split("/")[0] == platform:
                own = BasketBits.of_runs([bits[key] for key in keys], items.names)
                found[scope] = frequent_itemsets(own, scope, mining)
                done += 1
                tick(done, len(mined))
    return pl.concat([FREQUENT_ITEMSETS.empty(), *(found[scope] for scope in mined)])


def _mined(runs_of: dict[str, list[str]]) -> dict[str, list[str]]:
    """The scopes that are mined: not those with the same runs as a wider one."""
    same = same_scopes(runs_of)
    return {scope: keys for scope, keys in runs_of.items() if scope not in same}


def _association_rules(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    mining, recipe = folder.settings.mining, recipe_of(folder)
    with one_thread():
        found = [
            association_rules(tally, own, scope, mining, recipe)
            for scope, tally, own in _scopes(
                folder,
                tick,
                lambda items: Tally(items, mining.max_antecedent),
                lambda run, items: run_overlaps(run.holds, items, mining.max_antecedent),
            )
            if tally.windows >= mining.min_baskets
        ]
    return pl.concat([ASSOCIATION_RULES.empty(), *found]).sort("scope", maintain_order=True)


def _sequential_patterns(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    mining, recipe = folder.settings.mining, recipe_of(folder)
    with one_thread():
        found = [
            sequential_patterns(tally, own, scope, mining, recipe)
            for scope, tally, own in _scopes(
                folder,
                tick,
                lambda items: OrderTally(items, mining.longest_lag_s),
                lambda run, items: order_of_run(run, items, mining.longest_lag_s),
            )
        ]
    return pl.concat([SEQUENTIAL_PATTERNS.empty(), *found]).sort("scope", maintain_order=True)


def _contrasts(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    runs, done = accepted(folder).sort(*WORKLOAD_KEY, "run_key"), 0
    (_, job_of), found = jobs_of(folder), [CONTRASTS.empty()]
    for platform, items in _platforms(folder, runs):
        own, units, faults = [], [], []
        of_platform = runs.filter(platform=platform)
        for key, phase, workload in of_platform.select("run_key", "phase", "workload").iter_rows():
            labels = folder.lake.read(FAULTS, key)
            for one in held_by_run(folder, key, items):
                own.append(replace(one, job=job_of.get(key, key)))
                units.append(Unit(phase, workload, one.host))
                faults.append(_windows_of_faults(one, labels))
        if own and items.names:
            found.append(contrasts(own, units, faults, items, platform, recipe=recipe_of(folder)))
        done += of_platform.height
        tick(done, runs.height)
    return pl.concat(found)


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
    runs, mining = accepted(folder).sort("run_key"), folder.settings.mining
    found = dict(folder.lake.read(ASSOCIATION_RULES).select("scope", "holding").unique().iter_rows())
    tested_on = runs_tested(runs, mining)
    rows = []
    for platform, items in _platforms(folder, runs):
        groups = len(set(items.groups))
        of_platform = runs.filter(platform=platform)
        # of all runs no more is kept at once than how many windows each has
        windows = {key: [len(one.holds) for one in held_by_run(folder, key, items)] for key in of_platform["run_key"]}
        runs_of = scopes(of_platform)
        same = same_scopes(runs_of)
        for scope, keys in runs_of.items():
            chosen = [one for key in tested_on[same.get(scope, scope)] for one in held_by_run(folder, key, items)]
            holds = np.concatenate([np.zeros((0, len(items.names)), dtype=bool), *(one.holds for one in chosen)])
            tested = to_be_tested(holds, items, mining) if len(holds) >= mining.min_baskets else 0
            rules = int(found.get(same.get(scope, scope), 0))
            why = None if rules else _why_none(len(holds), len(chosen), groups, tested, mining)
            members = [count for key in keys for count in windows[key]]
            counts = (len(members), len(chosen), sum(members), groups, tested, rules)
            rows.append((scope, same.get(scope), *counts, why))
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
    runs = accepted(folder).sort(*WORKLOAD_KEY, "run_key")
    state = fingerprint(folder.lake.version(THRESHOLDS) or "", *_baskets_made_from(folder, runs))
    with one_thread():  # matrices of a run are too small for several
        return folder.once(("counts", state), lambda: _count(folder, runs, tick))


def _baskets_made_from(folder: DataFolder, runs: pl.DataFrame) -> list[str]:
    return [f"{key} {folder.lake.made_from(BASKETS, key)}" for key in runs["run_key"]]


def _count(folder: DataFolder, runs: pl.DataFrame, tick: Tick) -> dict[str, _Counted]:
    found, done = {}, 0

    def one_after_the_other(platform: str, items: Items, workloads: dict[str, Counts]) -> Iterator[Held]:
        """Its runs and hosts, added up as they pass."""
        nonlocal done
        for key, *path in runs.filter(platform=platform).select("run_key", *WORKLOAD_KEY).iter_rows():
            own, scope = held_by_run(folder, key, items), "/".join(path)
            counts = Counts.of(own, items)
            workloads[scope] = workloads[scope] + counts if scope in workloads else counts
            yield from own
            done += 1
            tick(done, runs.height)

    for platform in runs["platform"].unique().sort():
        items, workloads = all_items(folder, platform), dict[str, Counts]()
        baskets = basket_counts(one_after_the_other(platform, items, workloads), items, platform)
        found[platform] = _Counted(items, baskets, workloads)
    return found


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
    with one_thread():
        found = [run_identity(runs, groups, folder.settings.identity) for groups, runs in _seen(folder, tick)]
    return pl.concat([RUN_IDENTITY.empty(), *found])


def _seen(folder: DataFolder, tick: Tick) -> list[tuple[list[str], list[Signature]]]:
    """Signatures by platform; remembered with the folder, because two products ask for them."""
    pooled = (folder.lake.version(table) or "" for table in (THRESHOLDS, GROUP_ALIASES))
    state = fingerprint(*pooled, *_baskets_made_from(folder, accepted(folder)))
    return folder.once(("signatures", state), lambda: list(_signatures(folder, tick)))


def _signatures(folder: DataFolder, tick: Tick) -> Iterator[tuple[list[str], list[Signature]]]:
    """The metric groups of each platform, and its runs as wholes.

    Groups whose levels vary too little within runs to be mined are kept: what is the same throughout a run may be what
    tells its workload.
    """
    runs, done = accepted(folder).sort("run_key"), 0
    for platform in runs["platform"].unique().sort():
        groups = unaliased_groups(folder, platform)
        own: list[Signature] = []
        for key, *path in runs.filter(platform=platform).select("run_key", *WORKLOAD_KEY).iter_rows():
            own += signatures(folder.lake.read(BASKETS, key), groups, "/".join(path))
            done += 1
            tick(done, runs.height)
        yield groups, own


def _platforms(folder: DataFolder, runs: pl.DataFrame) -> Iterator[tuple[str, Items]]:
    """Each platform with the items that are mined."""
    for platform in runs["platform"].unique().sort():
        yield platform, Items.of_groups(mined_groups(folder, platform))


class _Adds(Protocol):
    """What runs of a scope add up to."""

    def add(self, run: Any) -> None: ...


_Sum = TypeVar("_Sum", bound=_Adds)


def _scopes(
    folder: DataFolder, tick: Tick, empty: Callable[[Items], _Sum], of_run: Callable[[Held, Items], object]
) -> Iterator[tuple[str, _Sum, list[Held]]]:
    """Each scope with what its runs add up to, and the runs: none is looked at twice, and few sums are kept at once.

    Of many runs, those that rules and orders are tested on.
    """
    every = accepted(folder).sort(*WORKLOAD_KEY, "run_key")
    (_, job_of), mined = jobs_of(folder), _mined(scopes(every))
    tested = {scope: set(keys) for scope, keys in runs_tested(every, folder.settings.mining).items() if scope in mined}
    runs, done = every.filter(pl.col("run_key").is_in(set[str]().union(*tested.values()))), 0
    for platform, items in _platforms(folder, runs):
        open_scopes: list[tuple[str, _Sum, list[Held]]] = []
        for key, *path in runs.filter(platform=platform).select("run_key", *WORKLOAD_KEY).iter_rows():
            scopes_of_run = [s for depth in range(len(path)) if (s := "/".join(path[: depth + 1])) in mined]
            while open_scopes and open_scopes[-1][0] not in scopes_of_run:
                yield open_scopes.pop()
            open_scopes += [(scope, empty(items), []) for scope in scopes_of_run[len(open_scopes) :]]
            for one in held_by_run(folder, key, items):
                part = of_run(one, items)
                for _, total, own in (each for each in open_scopes if key in tested[each[0]]):
                    total.add(part)
                    own.append(replace(one, job=job_of.get(key, key)))
            done += 1
            tick(done, runs.height)
        while open_scopes:
            yield open_scopes.pop()


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
