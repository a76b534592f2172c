"""What the page of a comparison shows: effects with their intervals, shares before and after, and the runs.

What belongs here: from the figures of two sets of runs to words, and to places on axes in per cent of their width, so
that the template can draw them as markup: the page needs no script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from infrascope_core.comparing.figures import ANOMALOUS, LEVEL, METRIC, RUN, SHARE, SUBSYSTEM, Figure, RunFigures
from infrascope_core.comparing.sides import Sides
from infrascope_core.comparing.verdict import Change, Outcome, difference, interval_of, shown, values_of, worth_showing
from infrascope_core.reports.wording import named

OUTCOMES = {
    Outcome.BETTER: "Better after",
    Outcome.WORSE: "Worse after",
    Outcome.MIXED: "Better and worse",
    Outcome.UNCHANGED: "No change shown",
    Outcome.NOT_JUDGED: "No verdict",
}
_COLOURS = {Outcome.BETTER: "normal", Outcome.WORSE: "anomalous", Outcome.MIXED: "differs"}
"""Outcomes that have the colour of a run's verdict."""
_STEPS = 4
"""Steps that an axis has, about."""
_WIDEST = 1.0
"""Largest relative change that an axis shows: one of 5,000 % would leave no room for the others."""
_TIMES = 5.0
"""Relative change above which it is said how many times as much there is."""
_NAMED = 3
"""Most workloads that are named at the top."""


@dataclass(frozen=True)
class Axis:
    """A linear axis between two round values.

    Attributes
    ----------
    low, high : float
        Its ends, low < high.
    step : float
        Between ticks; both ends are multiples of it.
    """

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """The axis that holds all values; there is at least one."""
        known = list(values)
        low, high = min(known), max(known)
        if low == high:
            margin = abs(low) / 10 or 1.0
            low, high = low - margin, high + margin
        step = _round_step((high - low) / _STEPS)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step)

    def place(self, value: float) -> float:
        """Where a value lies, in per cent of the width; at an end if it lies beyond."""
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 2)

    @property
    def ticks(self) -> list[float]:
        """The values of the ticks."""
        number = round((self.high - self.low) / self.step)
        return [self.low + i * self.step for i in range(number + 1)]


def _round_step(size: float) -> float:
    """The next larger of 1, 2, 5 and 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= size * (1 - 1e-9))


def comparison_view(name: str, sides: Sides, link_of: Callable[[str], str], index: str) -> dict[str, Any]:
    """What the template of a comparison's page shows.

    Parameters
    ----------
    name : str
        What the comparison goes by.
    sides : Sides
        Both sets of runs, compared.
    link_of : callable
        Address of the page of a run, by its key, relative to this page.
    index : str
        Address of the index.
    """
    comparison, both = sides.comparison, (*sides.before, *sides.after)
    shown_changes = list(worth_showing(comparison))
    of_kind = {kind: [c for c in shown_changes if c.figure.kind == kind] for kind in (RUN, SUBSYSTEM, METRIC, LEVEL)}
    figures = [change.figure for change in of_kind[RUN]]
    return {
        "name": name,
        "index": index,
        "sentence": comparison.sentence,
        "outcome": OUTCOMES[comparison.outcome],
        "colour": _COLOURS.get(comparison.outcome, "not_judged"),
        "judged": comparison.judged,
        "limits": comparison.obstacles,
        "number": sides.number,
        "workloads": named(sorted({run.workload for run in both}), _NAMED),
        "whole": _relative([c for c in of_kind[RUN] if c.figure.unit != SHARE]),
        "anomalous": _in_points([c for c in of_kind[RUN] if c.figure.unit == SHARE]),
        "shares": [(heading, _bars(of_kind[kind])) for heading, kind in (("subsystem", SUBSYSTEM), ("metric", METRIC))],
        "levels": _relative(of_kind[LEVEL]),
        "levels_tested": any(c.q_value is not None for c in comparison.changes if c.figure.kind == LEVEL),
        "strips": [_strip(figure, sides) for figure in figures],
        "figures": [figure.name for figure in figures],
        "sides": [
            (heading, [_run(run, figures, link_of) for run in runs])
            for heading, runs in (("before", sides.before), ("after", sides.after))
        ],
        "all": [_told(change) for change in comparison.changes],
    }


def _told(change: Change) -> dict[str, Any]:
    """A change in words."""
    figure = change.figure
    interval = "no interval" if change.low is None else f"95 % interval {interval_of(change)}"
    if change.q_value is None:
        chance = "no test: too few runs"
    else:
        chance = f"{'more than' if change.significant else 'within'} chance (q = {change.q_value:.2g})"
    return {
        "name": figure.name,
        "before": shown(figure, change.before),
        "after": shown(figure, change.after),
        "effect": difference(figure, change.effect),
        "bounds": interval_of(change),
        "interval": interval,
        "chance": chance,
        "moved": change.significant,
        "runs": f"{change.runs_before} and {change.runs_after}",
    }


def _relative(changes: Sequence[Change]) -> dict[str, Any]:
    """Changes as shares of the median before; those of nothing stay without a drawing."""
    return _forest(
        changes,
        scale=lambda change: 1 / abs(change.before) if change.before else None,
        bounds=(-_WIDEST, _WIDEST),
        label=lambda value: f"{100 * value:+.4g} %" if value else "0 %",
    )


def _in_points(changes: Sequence[Change]) -> dict[str, Any]:
    """Changes of shares, in percentage points."""
    return _forest(
        changes,
        scale=lambda change: 1.0,
        bounds=(-1.0, 1.0),
        label=lambda value: f"{100 * value:+.4g}" if value else "0",
    )


def _forest(
    changes: Sequence[Change],
    scale: Callable[[Change], float | None],
    bounds: tuple[float, float],
    label: Callable[[float], str],
) -> dict[str, Any]:
    """Effects with their intervals on one axis that holds 0 and ends at the bounds."""
    drawn: list[tuple[dict[str, Any], list[float]]] = []
    for change in changes:
        factor = scale(change)
        ends = [change.effect if end is None else end for end in (change.low, change.high)]
        places = [] if factor is None else [value * factor for value in (change.effect, *ends)]
        drawn.append((_told(change) | {"relative": _in_per_cent(change)}, places))
    values = [min(bounds[1], max(bounds[0], value)) for _, places in drawn for value in places]
    axis = Axis.over([0.0, *values])
    return {
        "zero": axis.place(0.0),
        "ticks": [(axis.place(value), label(round(value, 12))) for value in axis.ticks],
        "rows": [
            row
            | {
                "places": [axis.place(value) for value in places],
                "inside": [axis.low - 1e-9 <= value <= axis.high + 1e-9 for value in places],
            }
            for row, places in drawn
        ],
    }


def _in_per_cent(change: Change) -> str:
    """A change as a share of the median before; empty for shares, whose changes are in points, and for those of 0."""
    if change.figure.unit == SHARE or not change.before:
        return ""
    relative = change.effect / abs(change.before)
    if relative > _TIMES:
        return f"{1 + relative:.3g} times as much"
    return f"{100 * relative:+.3g} %" if relative else "0 %"


def _bars(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Shares before and after, as lengths, the largest change first; the largest share fills the width."""
    changes = sorted(changes, key=lambda change: (-abs(change.effect), change.figure.name))
    largest = max((share for change in changes for share in (change.before, change.after)), default=0.0)
    axis = Axis(0.0, largest or 1.0, largest or 1.0)
    return [
        _told(change)
        | {
            "name": change.figure.name.removeprefix(f"{ANOMALOUS}, "),
            "lengths": [axis.place(change.before), axis.place(change.after)],
        }
        for change in changes
    ]


def _strip(figure: Figure, sides: Sides) -> dict[str, Any]:
    """Every run's value of a figure, side by side."""
    values = [sorted(values_of(runs, figure)) for runs in sides.cases]
    axis = Axis.over([value for side in values for value in side])
    return {
        "name": figure.name,
        "ends": [shown(figure, axis.low), shown(figure, axis.high)],
        "sides": [
            (heading, [axis.place(value) for value in side])
            for heading, side in zip(("before", "after"), values, strict=True)
        ],
    }


def _run(run: RunFigures, figures: Sequence[Figure], link_of: Callable[[str], str]) -> dict[str, Any]:
    return {
        "key": run.run_key,
        "link": link_of(run.run_key),
        "host": run.host,
        "values": [shown(figure, run.values[figure]) if figure in run.values else "not known" for figure in figures],
    }
