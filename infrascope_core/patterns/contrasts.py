"""Contrasts: what one kind of run does more of than another, and what a known fault changes.

What belongs here: the comparisons and their tests. A run has one value an item, the share of its windows that hold it;
so two kinds of runs are two samples of a few values each (Mann and Whitney, 1947). Hosts of one job see the same things
happen and are one value, their mean. A fault is held against the rest of the same runs, by the test of `co_occurrence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
import polars as pl
from scipy import stats
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.candidates import SIGNIFICANT
from infrascope_core.patterns.co_occurrence import Overlap, by_shift, chance_of_as_much
from infrascope_core.patterns.held import MEDIUM, Held, Items, group_of, jobs
from infrascope_core.patterns.sentences import contrast_sentence
from infrascope_core.patterns.tables import CONTRASTS
from infrascope_core.patterns.telling import Row, few, in_words
from infrascope_core.recipes import Recipe

TESTED, TOO_FEW = "tested", "too_few_runs"
PHASE, WORKLOAD, HOST, FAULT = "phase", "workload", "host", "fault"
_MOST_ARRANGEMENTS = 20_000
"""Ways to deal runs to two sides, up to which all are tried."""
_TIE = 1e-9
"""Sums of ranks that are nearer than this are equal: ranks are halves."""
_TOLD = 5
"""Most contrasts of a platform that are shown."""
_LEAST_DIFFERENCE = 0.2
"""Difference between shares of windows from which a contrast is told."""


@dataclass(frozen=True)
class Unit:
    """What is known of a run and host beside what it holds, by the names of the tables."""

    phase: str
    workload: str
    host: str


def contrasts(
    runs: Sequence[Held],
    units: Sequence[Unit],
    faults: Sequence[dict[str, Mask]],
    items: Items,
    platform: str,
    *,
    recipe: Recipe,
) -> pl.DataFrame:
    """All contrasts of a platform.

    Parameters
    ----------
    runs : sequence of Held
        Its runs and hosts.
    units : sequence of Unit
        What each of them is.
    faults : sequence of dict of str to ndarray of bool
        By kind of fault, the windows of each run that lie in one.
    items : Items
        What the runs hold.
    platform : str
        Written into the column `scope`.
    recipe : Recipe
        Words of the metric groups.

    Returns
    -------
    polars.DataFrame
        Table `contrasts`. A comparison that could not be significant, however the values fall, has no p and is
        `too_few_runs`. Benjamini and Hochberg's correction is over all that were tested.
    """
    shares = np.stack([run.holds.mean(axis=0) if len(run.holds) else np.zeros(len(items.names)) for run in runs])
    job = np.zeros(len(runs), dtype=np.int64)
    for number, hosts in enumerate(jobs(runs)):
        job[hosts] = number
    rows = [row for sides in _comparisons(units) for row in _compared(sides, shares, job, items)]
    rows += list(_of_faults(runs, faults, items))
    table = pl.DataFrame(
        [{"scope": platform, **row} for row in rows],
        schema={
            name: dtype for name, dtype in CONTRASTS.schema.items() if name not in {"q_value", "shown", "sentence"}
        },
        orient="row",
    )
    tested = table["p_value"].is_not_null().to_numpy()
    q = np.full(len(table), np.nan)
    if tested.any():
        q[tested] = false_discovery_control(table["p_value"].drop_nulls().to_numpy())
    found = table.with_columns(q_value=pl.Series(q, nan_to_null=True)).sort("kind", "within", "of", "against", "item")
    told = (row["place"] for row in told_contrasts(found.with_row_index("place"), _TOLD))
    worded = in_words(found, CONTRASTS, told, lambda row: contrast_sentence(row, recipe))
    return worded.select(CONTRASTS.schema.names())


@dataclass(frozen=True)
class _Sides:
    """Two kinds of runs that are compared, by number."""

    kind: str
    within: str
    of: str
    against: str
    own: Ints
    other: Ints


def _comparisons(units: Sequence[Unit]) -> Iterator[_Sides]:
    """Phases of a workload; a workload and the others of its phase; a host and its peers with the same work."""
    numbered = range(len(units))
    for workload in sorted({unit.workload for unit in units}):
        phases = sorted({unit.phase for unit in units if unit.workload == workload})
        of_phase = {p: [i for i in numbered if (units[i].workload, units[i].phase) == (workload, p)] for p in phases}
        for i, first in enumerate(phases):
            for second in phases[i + 1 :]:
                yield _Sides(PHASE, workload, first, second, np.array(of_phase[first]), np.array(of_phase[second]))
    for phase in sorted({unit.phase for unit in units}):
        here = [i for i in numbered if units[i].phase == phase]
        workloads = sorted({units[i].workload for i in here})
        for place, workload in enumerate(workloads):
            own = [i for i in here if units[i].workload == workload]
            rest = [i for i in here if units[i].workload != workload]
            if len(workloads) > 2 or (rest and not place):  # of two, one comparison says all
                against = "the other workloads" if len(workloads) > 2 else workloads[1]
                yield _Sides(WORKLOAD, phase, workload, against, np.array(own), np.array(rest))
            hosts = sorted({units[i].host for i in own})
            for host in hosts if len(hosts) > 1 else ():
                mine = [i for i in own if units[i].host == host]
                peers = [i for i in own if units[i].host != host]
                yield _Sides(HOST, f"{phase} {workload}", host, "the other hosts", np.array(mine), np.array(peers))


def _by_job(shares: Array, job: Ints) -> Array:
    """The mean of each job's hosts: jobs x items."""
    numbers, which, hosts = np.unique(job, return_inverse=True, return_counts=True)
    total = np.zeros((len(numbers), shares.shape[1]))
    np.add.at(total, which, shares)
    return total / hosts[:, None]


def _compared(sides: _Sides, shares: Array, job: Ints, items: Items) -> Iterator[dict[str, object]]:
    of_own, of_other = (_by_job(shares[side], job[side]) for side in (sides.own, sides.other))
    needed = runs_needed(len(of_own), len(of_other))
    for column, item in enumerate(items.names):
        own, other = of_own[:, column], of_other[:, column]
        if not own.any() and not other.any():
            continue
        low, high = sorted((own.mean(), other.mean()))
        yield {
            "kind": sides.kind,
            "within": sides.within,
            "of": sides.of,
            "against": sides.against,
            "item": item,
            "share": float(own.mean()),
            "other_share": float(other.mean()),
            "runs": len(own),
            "other_runs": len(other),
            "growth_rate": float(high / low) if low > 0 else float("inf"),
            "separated": bool(own.min() > other.max() or own.max() < other.min()),
            "status": TOO_FEW if needed else TESTED,
            "needed_runs": needed,
            "p_value": None if needed else rank_test(own, other),
        }


def runs_needed(own: int, other: int) -> int | None:
    """How many runs the smaller side would need for the test to be able to be significant; None if it has them."""
    few, many = sorted((own, other))
    if 2 / comb(few + many, few) <= SIGNIFICANT:
        return None
    return next(n for n in range(few + 1, 1_000) if 2 / comb(n + many, n) <= SIGNIFICANT)


def rank_test(own: Array, other: Array) -> float:
    """Probability of ranks that are at least as unequal, two-sided (Mann and Whitney, 1947).

    Over all ways to deal the values to the sides, where there are few enough of them: exact, ties or not. Else scipy's
    normal approximation with its correction for ties. Equal values throughout are no difference.
    """
    values = np.concatenate([own, other])
    if (values == values[0]).all():
        return 1.0
    if comb(len(values), len(own)) > _MOST_ARRANGEMENTS:
        return float(stats.mannwhitneyu(own, other, alternative="two-sided", method="asymptotic").pvalue)
    rank = stats.rankdata(values)
    sums = rank[_arrangements(len(values), len(own))].sum(axis=1)
    seen = rank[: len(own)].sum()
    above, below = np.mean(sums >= seen - _TIE), np.mean(sums <= seen + _TIE)
    return float(min(1.0, 2.0 * min(above, below)))


@lru_cache(maxsize=16)
def _arrangements(values: int, own: int) -> Ints:
    """All ways to choose so many of the values: ways x chosen."""
    return np.array(list(combinations(range(values), own)), dtype=np.int64)


def _of_faults(runs: Sequence[Held], faults: Sequence[dict[str, Mask]], items: Items) -> Iterator[dict[str, object]]:
    """Each kind of known fault against the rest of the runs that have it: whether items hold more of the time."""
    for kind in sorted({kind for of_run in faults for kind in of_run}):
        sides = [(of_run[kind], run.holds) for run, of_run in zip(runs, faults, strict=True) if kind in of_run]
        total = Overlap.nothing(1, len(items.names))
        for inside, holds in sides:
            total.add(Overlap.of_run(inside[:, None], holds))
        within = sum(int(inside.sum()) for inside, _ in sides)
        windows = sum(len(inside) for inside, _ in sides)
        if not 0 < within < windows:
            continue
        held = sum(holds.sum(axis=0) for _, holds in sides)
        shifted = [by_shift(np.repeat(inside[:, None], holds.shape[1], axis=1), holds) for inside, holds in sides]
        # no shift of so few windows is rarer than this
        least = float(np.prod([1 / len(inside) for inside, _ in sides]))
        for column, item in enumerate(items.names):
            both = total.both[0, column]
            share, rest = both / within, (held[column] - both) / (windows - within)
            if total.informative[0, column] == 0:
                continue
            low, high = sorted((share, rest))
            yield {
                "kind": FAULT,
                "within": "runs with it",
                "of": kind,
                "against": "the rest of the same runs",
                "item": item,
                "share": float(share),
                "other_share": float(rest),
                "runs": len(sides),
                "other_runs": len(sides),
                "growth_rate": float(high / low) if low > 0 else float("inf"),
                "separated": bool(high == 1 and low == 0),
                "status": TOO_FEW if least > SIGNIFICANT else TESTED,
                "needed_runs": 2 if least > SIGNIFICANT else None,
                "p_value": None
                if least > SIGNIFICANT
                else chance_of_as_much(round(both), [s[column] for s in shifted]),
            }


def told_contrasts(found: pl.DataFrame, limit: int) -> Iterator[Row]:
    """The few contrasts that a person should read first: of what is HIGH or LOW more often than on the other side.

    Significant ones, the largest first; one a comparison, and two a metric group.
    """
    size = pl.col("share") - pl.col("other_share")
    said = found.filter(
        pl.col("q_value") < SIGNIFICANT, size >= _LEAST_DIFFERENCE, ~pl.col("item").str.ends_with(f"_{MEDIUM}")
    ).sort(size.round(6), "kind", "of", "item", descending=[True, False, False, False])
    return few(
        said.iter_rows(named=True),
        limit,
        says=lambda row: [(row["kind"], row["within"], row["of"])],
        about=lambda row: group_of(row["item"]),
    )
