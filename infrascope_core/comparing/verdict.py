"""From the figures of two sets of runs to what changed: effect, interval and probability, with runs as the cases.

What belongs here: the statistics, the verdict, and what stands against a comparison. The effect is Hodges and Lehmann's
(1963), the median of all differences between a run after and a run before, its interval is that of the rank test that
the probability is from (Mann and Whitney, 1947; exact for few runs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import comb

import numpy as np
from scipy.stats import false_discovery_control

from infrascope_core.comparing.figures import (
    ENERGY,
    LEADING,
    LEVEL,
    METRIC,
    RUN,
    SHARE,
    SUBSYSTEM,
    THROUGHPUT,
    TIME,
    Figure,
    RunFigures,
    by_job,
)
from infrascope_core.patterns.contrasts import rank_test
from infrascope_core.quantities import quantity
from infrascope_core.reports.wording import count, named

SIGNIFICANT = 0.05
"""A verdict is wrong in so many of the comparisons between runs that are alike, at most."""
_EXACT = 30
"""Runs of a side up to which the interval is exact."""
_MOST_SHOWN = 12
"""Levels, and metrics, that are shown."""
_AS_LONG = 1.5
"""Ratio of run times from which it is said that the runs may have done other work."""
_ONE_LENGTH = 0.001
"""Runs whose lengths differ by a smaller share are as long as each other: none of them ended when its work was done."""
_NAMED = 3
"""Most names that a sentence lists."""
_IN_POINTS = (SHARE, "%")
_ORDER = (RUN, SUBSYSTEM, METRIC, LEVEL)


class Outcome(StrEnum):
    """What a comparison comes to, by the two figures of the verdict."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "mixed"
    UNCHANGED = "unchanged"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True)
class Change:
    """A figure before and after.

    Attributes
    ----------
    before, after : float
        Medians over runs.
    effect, low, high : float or None
        Typical difference, after less before, and its 95 % interval; none where there are too few runs for one.
    direction : int
        -1 if a run after has less than a run before more often than it has more, 1 if less often, else 0. Of values
        that are mostly 0 the typical difference may be 0 although the ranks are not equal.
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
    direction: int
    low: float | None
    high: float | None
    p_value: float | None
    q_value: float | None = None

    @property
    def significant(self) -> bool:
        """Whether it is more than chance."""
        return self.q_value is not None and self.q_value < SIGNIFICANT


@dataclass(frozen=True)
class Comparison:
    """Two sets of runs, compared.

    Attributes
    ----------
    sentence : str
        What changed, in one sentence.
    outcome : Outcome
        Whether the runs after are better, by that; `not_judged` where there are too few for a verdict.
    changes : tuple of Change
        The figures of the verdict first, then those of the whole run, subsystems, metrics and levels, the surest first.
    obstacles : tuple of str
        What is not comparable, or limits the comparison.
    """

    sentence: str
    outcome: Outcome
    changes: tuple[Change, ...]
    obstacles: tuple[str, ...]

    @property
    def judged(self) -> bool:
        """Whether there are runs enough for a verdict."""
        return self.outcome is not Outcome.NOT_JUDGED


def compare(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Comparison:
    """Compare runs before a change with runs after it.

    Parameters
    ----------
    before, after : sequence of RunFigures
        No run is on both sides. If a side has none, nothing is compared, and the sentence says so. Hosts of one job are
        one case; runs of different workloads get no verdict.
    """
    if not before or not after:
        missing = " and ".join(name for name, runs in (("before", before), ("after", after)) if not runs)
        return Comparison(f"There are no runs {missing} the change yet.", Outcome.NOT_JUDGED, (), ())
    before, after = by_job(before), by_job(after)
    changes = _corrected(list(_changes(before, after)))
    leading = [change for change in changes if change.figure.name in LEADING]
    if {run.workload for run in before} != {run.workload for run in after}:
        values = _values_of(leading)
        sentence = "The runs are of different workloads, so there is no verdict" + (f": {values}." if values else ".")
        return Comparison(sentence, Outcome.NOT_JUDGED, tuple(changes), tuple(_obstacles(before, after, judged=True)))
    outcome = _outcome(leading)
    return Comparison(
        sentence=_sentence(leading, outcome is not Outcome.NOT_JUDGED, bool(changes)),
        outcome=outcome,
        changes=tuple(changes),
        obstacles=tuple(_obstacles(before, after, outcome is not Outcome.NOT_JUDGED)),
    )


def _outcome(leading: Sequence[Change]) -> Outcome:
    """Less time and less of it anomalous is better."""
    if not any(change.p_value is not None for change in leading):
        return Outcome.NOT_JUDGED
    better = [change.direction < 0 for change in leading if change.significant]
    if not better:
        return Outcome.UNCHANGED
    return Outcome.BETTER if all(better) else Outcome.MIXED if any(better) else Outcome.WORSE


def _changes(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[Change]:
    known = {figure: None for run in (*before, *after) for figure in run.values}
    for figure in known:
        old, new = (np.array(values_of(runs, figure)) for runs in (before, after))
        if len(old) and len(new):
            differences = (new[:, None] - old[None, :]).ravel()
            rank = _rank_of_bound(len(old), len(new))
            bounds = (None, None) if rank is None else np.partition(differences, (rank, -1 - rank))[[rank, -1 - rank]]
            yield Change(
                figure=figure,
                runs_before=len(old),
                runs_after=len(new),
                before=float(np.median(old)),
                after=float(np.median(new)),
                effect=float(np.median(differences)),
                direction=int(np.sign(np.sign(differences).sum())),
                low=None if bounds[0] is None else float(bounds[0]),
                high=None if bounds[1] is None else float(bounds[1]),
                p_value=None if _too_few(len(old), len(new), figure) else rank_test(new, old),
            )


def values_of(runs: Sequence[RunFigures], figure: Figure) -> list[float]:
    """The values of a figure, of those runs that have it.

    A metric that is never the reason of an alarm has a share of 0 in every run that was judged.
    """
    if figure.kind == METRIC:
        return [run.values.get(figure, 0.0) for run in runs if run.judged]
    return [run.values[figure] for run in runs if figure in run.values]


def _too_few(runs: int, others: int, figure: Figure | None = None) -> bool:
    """Whether no ranks of so few could be significant; for a figure of the verdict, after the correction for two."""
    tests = 1 if figure is not None and figure.name not in LEADING else len(LEADING)
    return tests * 2 / comb(runs + others, runs) > SIGNIFICANT


@lru_cache(maxsize=256)
def _rank_of_bound(runs: int, others: int) -> int | None:
    """Place, among the sorted differences, of the lower end of the 95 % interval; None where there is none.

    The shift lies outside the interval in 5 % of such comparisons at most: as many differences lie below its lower end
    as above its upper one.
    """
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
    outside = int(np.searchsorted(share, SIGNIFICANT / 2, side="right"))
    return outside - 1 if outside else None


def _corrected(changes: list[Change]) -> list[Change]:
    leading = sorted(
        (c for c in changes if c.figure.name in LEADING),
        key=lambda c: 2.0 if c.p_value is None else c.p_value,
    )
    rest = [c for c in changes if c not in leading]
    found, largest = [], 0.0
    tested = sum(c.p_value is not None for c in leading)
    for place, change in enumerate(leading):
        if change.p_value is not None:
            largest = max(largest, min(1.0, change.p_value * (tested - place)))  # Holm, 1979
        found.append(replace(change, q_value=None if change.p_value is None else largest))
    found.sort(key=lambda c: c.figure.name != TIME)
    p = np.array([c.p_value for c in rest if c.p_value is not None], dtype=np.float64)
    q = iter(false_discovery_control(p).tolist() if len(p) else [])
    others = [replace(c, q_value=None if c.p_value is None else float(next(q))) for c in rest]
    others.sort(key=lambda c: (_ORDER.index(c.figure.kind), 2.0 if c.q_value is None else c.q_value, c.figure.name))
    return [*found, *others]


def _sentence(leading: Sequence[Change], judged: bool, something: bool) -> str:
    if not leading:
        others = "; other figures are shown without a verdict" if something else ""
        return f"Neither run time nor anomalous time is known on both sides{others}."
    if said := [_moved(change) for change in leading if change.significant]:
        text = "; ".join(said)
        return f"{text[0].upper()}{text[1:]}."
    if not judged:
        return f"There are too few runs for a verdict: {_values_of(leading)}."
    return f"No change is shown beyond what runs differ by: {_values_of(leading)}."


def _values_of(leading: Sequence[Change]) -> str:
    return "; ".join(
        f"{c.figure.name} {shown(c.figure, c.before)} before, {shown(c.figure, c.after)} after" for c in leading
    )


def _moved(change: Change) -> str:
    if change.figure.name == TIME and change.effect:
        way = "shorter" if change.effect < 0 else "longer"
        share = abs(change.effect) / change.before
        bounds = ""
        if change.low is not None and change.high is not None:
            ends = sorted((abs(change.low) / change.before, abs(change.high) / change.before))
            bounds = f" [{ends[0]:.1%}, {ends[1]:.1%}]"
        return f"the run is {share:.2%} {way}{bounds}"
    way = "fell" if change.direction < 0 else "rose"
    old, new = shown(change.figure, change.before), shown(change.figure, change.after)
    if old == new:
        return f"{change.figure.name} {way}, although its median is {new} before and after"
    return f"{change.figure.name} {way} from {old} to {new}"


def shown(figure: Figure, value: float) -> str:
    """A value as people read it."""
    return f"{value:.2%}" if figure.unit == SHARE else quantity(value, figure.unit)


def difference(figure: Figure, value: float) -> str:
    """A difference between two values, with its sign; between shares and per cents, in percentage points."""
    if figure.unit in _IN_POINTS:
        digits = f"{100 * value:+.2f}" if figure.unit == SHARE else f"{value:+.3g}"
        return f"{digits if value else 0} points"
    return f"{'+' if value > 0 else ''}{quantity(value, figure.unit)}"


def interval_of(change: Change) -> str:
    """The interval of a change, in the unit of its effect; `too few runs` where it has none."""
    if change.low is None or change.high is None:
        return "too few runs"
    low, high = difference(change.figure, change.low), difference(change.figure, change.high)
    return f"{low.removesuffix(' points')} to {high}"


def worth_showing(comparison: Comparison) -> Iterator[Change]:
    """The figures of whole runs, subsystems and metrics that anything was found of, and the levels that moved.

    Of metrics and levels, the first twelve.
    """
    number = dict.fromkeys((METRIC, LEVEL), 0)
    for change in comparison.changes:
        kind, found = change.figure.kind, change.significant or (change.before or change.after) > 0
        if kind == RUN or (kind == SUBSYSTEM and found):
            yield change
        elif (kind == METRIC and found) or (kind == LEVEL and change.significant):
            number[kind] += 1
            if number[kind] <= _MOST_SHOWN:
                yield change


# --- what stands against a comparison ---


def _obstacles(before: Sequence[RunFigures], after: Sequence[RunFigures], judged: bool) -> Iterator[str]:
    if _too_few(len(before), len(after)):
        yield (
            f"{count(len(before), 'run')} before and {len(after)} after: no ranks of so few could be significant "
            "(4 and 5 are enough)."
        )
    elif not judged:
        yield "Too few of the runs have what a verdict rests on, run time and anomalous time."
    yield from _unlike(before, after)
    yield from _lengths(before, after)
    yield from _settings(before, after)
    yield from _judging(before, after)
    yield from _not_measured(before, after)


def _unlike(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[str]:
    """Workloads, hosts and sampling that the sides do not share."""
    for what, of in (("workloads", "workload"), ("hosts", "host"), ("sampling intervals", "interval_s")):
        sides = [sorted({_as_text(getattr(run, of)) for run in runs}) for runs in (before, after)]
        if sides[0] != sides[1]:
            yield f"The {what} differ: {named(sides[0], _NAMED)} before, {named(sides[1], _NAMED)} after."
        elif of == "workload" and len(sides[0]) > 1:
            yield f"The runs are of several workloads, whose differences count as chance: {named(sides[0], _NAMED)}."


def _as_text(value: object) -> str:
    if value is None:
        return "not known"
    return f"{value:.2g} s" if isinstance(value, float) else str(value)


def _lengths(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[str]:
    sides = [[s for run in runs for figure, s in run.values.items() if figure.name == TIME] for runs in (before, after)]
    if not all(sides):
        return
    short, long = min(map(min, sides)), max(map(max, sides))
    old, new = (float(np.median(side)) for side in sides)
    if max(old, new) >= _AS_LONG * min(old, new):
        ratio, where, other = (old / new, "before", "after") if old > new else (new / old, "after", "before")
        yield f"The runs {where} are {ratio:.2g} times as long as those {other}: they may have done other work."
    elif long - short < _ONE_LENGTH * long and len(sides[0]) + len(sides[1]) > 2:
        yield f"All runs are as long as each other ({long:.4g} s): if that was set beforehand, run time tells nothing."


def _settings(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[str]:
    """What does not move in any run, is the same in all runs of a side, and differs between the sides."""
    steady = set.intersection(*(set(run.steady) for run in (*before, *after)))
    found = []
    for name in sorted(steady):
        old, new = ({run.steady[name] for run in runs} for runs in (before, after))
        if len(old) == len(new) == 1 and old != new:
            found.append(f"{name} is {old.pop():.6g} before, {new.pop():.6g} after")
    if found:
        more = f"; and so do {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        yield (
            "Some metrics keep one value throughout all runs of a side, as settings do, and differ between the sides: "
            f"{'; '.join(found[:_NAMED])}{more}."
        )


def _judging(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[str]:
    """What anomalous time rests on, on either side."""
    runs = (*before, *after)
    if len({run.baseline for run in runs if run.judged}) > 1:
        yield "The runs were not all judged by the same baseline: their anomalous times are not of one measure."
    (old, of_old), (new, of_new) = ((sum(run.reference for run in side), len(side)) for side in (before, after))
    if old * of_new != new * of_old:
        yield (
            f"What is normal was learnt from {old} of {count(of_old, 'run')} before and {new} of {of_new} after: "
            "what only the others do counts as anomalous."
        )
    if unjudged := sum(not run.judged for run in runs):
        yield f"{count(unjudged, 'run')} could not be judged at all."


def _not_measured(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Iterator[str]:
    sides = [{figure.name for run in runs for figure in run.values} for runs in (before, after)]
    nowhere = [what for what in (THROUGHPUT, ENERGY) if not any(name.startswith(what) for name in sides[0] | sides[1])]
    if nowhere:
        yield f"No metric of these runs tells their {' or '.join(nowhere)}."
    of_metrics = {figure.name for run in (*before, *after) for figure in run.values if figure.kind == METRIC}
    if one_sided := sorted((sides[0] ^ sides[1]) - of_metrics):
        yield f"Known on one side only, and so not compared: {named(one_sided, _NAMED)}."
