"""From the figures of two sets of runs to what changed: effect, interval and probability, with runs as the cases.

What belongs here: the statistics, the verdict, and what stands against a comparison. The effect is Hodges and Lehmann's
(1963), the median of all differences between a run after and a run before, its interval is that of the rank test that
the probability is from (Mann and Whitney, 1947; exact for few runs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from scipy.stats import false_discovery_control

from infrascope_core.comparing.figures import ANOMALOUS, TIME, Figure, RunFigures
from infrascope_core.numeric import Array
from infrascope_core.patterns.contrasts import rank_test
from infrascope_core.quantities import quantity
from infrascope_core.reports.wording import count

LEVEL = 0.05
"""A verdict is wrong in so many of the comparisons between runs that are alike, at most."""
_EXACT = 30
"""Runs of a side up to which the interval is exact."""
_SHOWN_LEVELS = 12


@dataclass(frozen=True)
class Change:
    """A figure before and after.

    Attributes
    ----------
    before, after : float
        Medians over runs.
    effect, low, high : float or None
        Typical difference, after less before, and its 95 % interval; none where there are too few runs for one.
    p_value : float or None
        Of ranks that are at least as unequal if nothing changed; none where no ranks could be significant.
    q_value : float or None
        Over the two figures of the verdict by Holm, over all others by Benjamini and Hochberg.
    """

    figure: Figure
    runs_before: int
    runs_after: int
    before: float
    after: float
    effect: float
    low: float | None
    high: float | None
    p_value: float | None
    q_value: float | None = None

    @property
    def significant(self) -> bool:
        """Whether it is more than chance."""
        return self.q_value is not None and self.q_value < LEVEL


@dataclass(frozen=True)
class Comparison:
    """Two sets of runs, compared.

    Attributes
    ----------
    sentence : str
        What changed, in one sentence.
    judged : bool
        Whether there are runs enough for a verdict.
    changes : tuple of Change
        The figures of the verdict first, then energy, subsystems, and levels, the surest first.
    obstacles : tuple of str
        What is not comparable, or limits the comparison.
    """

    sentence: str
    judged: bool
    changes: tuple[Change, ...]
    obstacles: tuple[str, ...]


def compare(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Comparison:
    """Compare runs before a change with runs after it.

    Parameters
    ----------
    before, after : sequence of RunFigures
        At least one run each.
    """
    changes = _corrected(list(_changes(before, after)))
    leading = [change for change in changes if change.figure.name in (TIME, ANOMALOUS)]
    judged = any(change.p_value is not None for change in leading)
    obstacles = tuple(_obstacles(before, after, judged))
    return Comparison(_sentence(leading, judged), judged, tuple(changes), obstacles)


def _changes(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[Change]:
    known = {figure: None for run in (*before, *after) for figure in run.values}
    for figure in known:
        old = np.array([run.values[figure] for run in before if figure in run.values])
        new = np.array([run.values[figure] for run in after if figure in run.values])
        if len(old) and len(new):
            differences = np.sort((new[:, None] - old[None, :]).ravel())
            low, high = _interval(differences, len(old), len(new))
            few = 2 / comb(len(old) + len(new), len(old)) > LEVEL
            yield Change(
                figure=figure,
                runs_before=len(old),
                runs_after=len(new),
                before=float(np.median(old)),
                after=float(np.median(new)),
                effect=float(np.median(differences)),
                low=low,
                high=high,
                p_value=None if few else rank_test(new, old),
            )


def _interval(differences: Array, runs: int, others: int) -> tuple[float | None, float | None]:
    """The differences between which the shift lies in 95 % of such comparisons, from their sorted values."""
    rank = _rank_of_bound(runs, others)
    if rank is None:
        return None, None
    return float(differences[rank]), float(differences[-1 - rank])


@lru_cache(maxsize=256)
def _rank_of_bound(runs: int, others: int) -> int | None:
    """How many of the smallest differences lie outside; None where even none is too many."""
    if max(runs, others) > _EXACT:
        middle, spread = runs * others / 2, np.sqrt(runs * others * (runs + others + 1) / 12)
        return max(0, int(np.floor(middle - 1.96 * spread)))
    ways = [1] + [0] * (runs * others)  # of each value of the statistic, over the ways to order the runs
    for i in range(1, runs + 1):
        for value in range(runs * others, others + i - 1, -1):
            ways[value] -= ways[value - others - i]
        for value in range(i, runs * others + 1):
            ways[value] += ways[value - i]
    share = np.cumsum(ways) / comb(runs + others, runs)
    outside = int(np.searchsorted(share, LEVEL / 2, side="right"))
    return outside - 1 if outside else None


def _corrected(changes: list[Change]) -> list[Change]:
    leading = sorted(
        (c for c in changes if c.figure.name in (TIME, ANOMALOUS)),
        key=lambda c: 2.0 if c.p_value is None else c.p_value,
    )
    rest = [c for c in changes if c not in leading]
    found, largest = [], 0.0
    tested = sum(c.p_value is not None for c in leading)
    for place, change in enumerate(leading):
        if change.p_value is not None:
            largest = max(largest, min(1.0, change.p_value * (tested - place)))  # Holm, 1979
        found.append(_with_q(change, None if change.p_value is None else largest))
    found.sort(key=lambda c: c.figure.name != TIME)
    p = np.array([c.p_value for c in rest if c.p_value is not None], dtype=np.float64)
    q = iter(false_discovery_control(p).tolist() if len(p) else [])
    others = [_with_q(c, None if c.p_value is None else float(next(q))) for c in rest]
    order = {"run": 0, "subsystem": 1, "level": 2}
    others.sort(key=lambda c: (order[c.figure.kind], 2.0 if c.q_value is None else c.q_value, c.figure.name))
    return [*found, *others]


def _with_q(change: Change, q: float | None) -> Change:
    return Change(**{**change.__dict__, "q_value": q})


def _sentence(leading: Sequence[Change], judged: bool) -> str:
    said = [_moved(change) for change in leading if change.significant]
    if said:
        text = "; ".join(said)
        return f"{text[0].upper()}{text[1:]}."
    values = "; ".join(
        f"{c.figure.name} {shown(c.figure, c.before)} before, {shown(c.figure, c.after)} after" for c in leading
    )
    if not judged:
        return f"There are too few runs for a verdict: {values or 'nothing is known of them'}."
    return f"No change is shown beyond what runs differ by: {values}."


def _moved(change: Change) -> str:
    if change.figure.name == TIME:
        way = "shorter" if change.effect < 0 else "longer"
        share = abs(change.effect) / change.before
        bounds = ""
        if change.low is not None and change.high is not None:
            ends = sorted((abs(change.low) / change.before, abs(change.high) / change.before))
            bounds = f" [{ends[0]:.1%}, {ends[1]:.1%}]"
        return f"the run is {share:.2%} {way}{bounds}"
    way = "fell" if change.effect < 0 else "rose"
    return (
        f"{change.figure.name} {way} from {shown(change.figure, change.before)} to {shown(change.figure, change.after)}"
    )


def shown(figure: Figure, value: float) -> str:
    """A value as people read it."""
    return f"{value:.2%}" if figure.unit == "share" else quantity(value, figure.unit)


def worth_showing(comparison: Comparison) -> Iterator[Change]:
    """The figures of the verdict, energy and subsystems that anything was found of; of levels, those that moved."""
    levels = 0
    for change in comparison.changes:
        if change.figure.kind == "run":
            yield change
        elif change.figure.kind == "subsystem" and (change.before or change.after or change.significant):
            yield change
        elif change.figure.kind == "level" and change.significant and levels < _SHOWN_LEVELS:
            levels += 1
            yield change


def _obstacles(before: Sequence[RunFigures], after: Sequence[RunFigures], judged: bool) -> Iterator[str]:
    if not judged:
        yield (
            f"{count(len(before), 'run')} before and {len(after)} after: no ranks of so few could be significant "
            "(4 and 4 are enough)."
        )
    for what, of in (("workloads", "workload"), ("hosts", "host"), ("sampling intervals", "interval_s")):
        sides = [{_rounded(getattr(run, of)) for run in runs} for runs in (before, after)]
        if sides[0] != sides[1]:
            yield f"The {what} differ: {_list(sides[0])} before, {_list(sides[1])} after."
    baselines = [{run.baseline for run in runs} for runs in (before, after)]
    if baselines[0] != baselines[1] or len(baselines[0] | baselines[1]) > 1:
        yield "The runs were not all judged by the same baseline: their anomalous times are not of one measure."
    unjudged = sum(not run.baseline for run in (*before, *after))
    if unjudged:
        yield f"{count(unjudged, 'run')} could not be judged at all."


def _rounded(value: object) -> str:
    return f"{value:.3g} s" if isinstance(value, float) else str(value)


def _list(values: set[str]) -> str:
    names = sorted(values)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
