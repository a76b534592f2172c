"""Trends: amounts that grow steadily for longer than a window, as leaks do, and as they do not in the references.

What belongs here: growth over many windows. A leak moves each window by less than phases do, and is told by its going
on: nearly every window has more than the one before (the idea of Mann, Econometrica 1945, and Kendall), and together it
is more than references grow by at about the same place. Which metrics are amounts is in `trends.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import polars as pl
import yaml

from infrascope_core.anomalies.alarms import stretches
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.findings import FINDINGS, sentence
from infrascope_core.anomalies.levels import by_host
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.quantities import quantity
from infrascope_core.run_files.columns import unit

_SPAN = 15
"""Windows that growth is measured over: 15 s with a stride of 1 s."""
_STEADY = 0.8
"""Share of the steps within a span that go up ..."""
_BACK = 0.25
"""... and how much the others take back, at most, as a share of the growth: else it goes up and down."""
_TIMES = 2.0
"""How many times as much as references grow by."""
_BEGUN = 0.1
"""Share of the growth at which it has begun, and that is left when it has ended."""
_MOST_SURPRISAL = 20.0


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    sign: int
    least: float


def growing(baseline: Baseline, residuals: Residuals) -> pl.DataFrame:
    """Find the amounts that grow steadily, and more than in the references.

    Parameters
    ----------
    baseline : Baseline
        The one that judges the windows.
    residuals : Residuals
        All windows of a run.

    Returns
    -------
    polars.DataFrame
        `findings.FINDINGS`, by host, metric and time: `value` is the amount at the end, `expected` at the beginning.

    Notes
    -----
    The surprisal extrapolates: of n places of the references one grows most, which has a probability of 1 / (n + 2)
    (rule of succession), and beyond it the probability falls exponentially.
    """
    parts = [pl.DataFrame(schema=FINDINGS)]
    columns = [(column, rule) for column, rule in _amounts(baseline) if baseline.moments.least[column] > 0]
    for (run_key, host), rows in by_host(residuals.windows) if columns else ():
        windows = residuals.windows["window"].gather(rows).to_numpy()
        starts = residuals.windows["start_ts"].gather(rows)
        for column, rule in columns:
            amount = _by_place(windows, residuals.values[rows, column] * rule.sign)
            usual, known = _usual_growth(baseline, column, rule.sign, run_key, len(amount))
            least = rule.least * baseline.moments.least[column]
            for first, last, surprisal in _steady(amount, usual, known, least):
                begin, end = np.searchsorted(windows, [first, last])
                parts.append(
                    pl.DataFrame(
                        {
                            "run_key": run_key,
                            "host": host,
                            "metric": baseline.names[column][0],
                            "feature": "mean",
                            "start_ts": starts[int(begin)],
                            "end_ts": starts[int(end)],
                            "surprisal": surprisal,
                            "value": amount[last] * rule.sign,
                            "expected": amount[first] * rule.sign,
                            "claim": _claim(baseline.names[column][0], rule, amount[first], amount[last]),
                        },
                        schema=FINDINGS,
                    )
                )
    return pl.concat(parts)


def _amounts(baseline: Baseline) -> Iterator[tuple[int, _Rule]]:
    """Columns of means of amounts, with their rules."""
    for column, (metric, feature) in enumerate(baseline.names):
        if feature == "mean":
            rule = next((rule for rule in _rules() if rule.pattern.search(metric)), None)
            if rule is not None:
                yield column, rule


def _by_place(place: Ints, values: Array) -> Array:
    """Values at their places; NaN where there is none."""
    amount = np.full(int(place.max()) + 1, np.nan)
    amount[place] = values
    return amount


def _growth(amount: Array) -> Array:
    """Growth over a span up to each place; NaN where it is not known."""
    grown = np.full(len(amount), np.nan)
    grown[_SPAN:] = amount[_SPAN:] - amount[:-_SPAN]
    return grown


def _usual_growth(baseline: Baseline, column: int, sign: int, run_key: str, places: int) -> tuple[Array, Array]:
    """The most that references grow by near each place, and how many places of them that is known from."""
    references, moments = baseline.references, baseline.moments
    values = sign * (moments.location[column] + references.z[:, column].astype(np.float64) * moments.scale[column])
    length = max(places, int(references.place.max()) + 1)
    most, known = np.full(length, -np.inf), np.zeros(length)
    for number, run in enumerate(references.runs):
        own = np.flatnonzero(references.run == number) if run != run_key else np.zeros(0, dtype=np.int64)
        # a run's hosts follow one another, each from its first place on
        for host in np.split(own, np.flatnonzero(np.diff(references.place[own]) <= 0) + 1):
            grown = _growth(_by_place(references.place[host], values[host])) if len(host) else np.zeros(0)
            here = np.flatnonzero(~np.isnan(grown))
            most[here] = np.maximum(most[here], grown[here])
            known[here] += 1
    place = np.arange(places)
    reach = np.full(places, length)
    if references.band is not None:
        reach = np.maximum(references.band[0], (references.band[1] * place).astype(np.int64))
    # pairs of bounds; what is between the end of one pair and the beginning of the next is not looked at
    low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, length)
    bounds = np.column_stack([low, high]).ravel()
    usual = np.maximum.reduceat(np.append(most, -np.inf), bounds)[::2]
    total = np.concatenate([[0.0], np.cumsum(known)])
    number = total[high] - total[low]
    # a run may outlast every reference; then all that they did counts
    nothing = number == 0
    usual[nothing], number[nothing] = most.max(), known.sum()
    return usual, number


def _steady(amount: Array, usual: Array, known: Array, least: float) -> Iterator[tuple[int, int, float]]:
    """First and last place of each steady growth beyond the usual, and its surprisal."""
    grown = _growth(amount)
    step = np.diff(amount, prepend=np.nan)
    steady = (_over_span(step > 0) >= _STEADY * _SPAN) & (_over_span(np.fmax(-step, 0.0)) <= _BACK * grown)
    limit = _TIMES * np.maximum(usual, 0.0) + least
    for stretch in stretches((grown > limit) & steady & (known > 0), gap=_SPAN - 1):
        first, last = int(stretch[0]) - _SPAN, int(stretch[-1])
        # the span of the first of them holds the beginning, and that of the last the end
        risen = _risen(amount[first : stretch[0] + 1])
        before = risen[: max(1, int(np.argmax(risen > _BEGUN)))]
        begun = first + int(np.flatnonzero(~np.isnan(before))[-1])
        ended = last - _SPAN + int(np.argmax(_risen(amount[last - _SPAN : last + 1]) >= 1.0 - _BEGUN))
        times = (grown[stretch] / np.maximum(usual[stretch], least / _TIMES)).max()
        surprisal = np.log10(known[stretch].max() + 2.0) * times
        yield begun, ended, min(float(surprisal), _MOST_SURPRISAL)


def _over_span(steps: Array | Mask) -> Array:
    """Sum of the steps of the span up to each place; 0 where there is no whole span."""
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(steps))])
    summed = np.zeros(len(steps))
    summed[_SPAN:] = total[_SPAN + 1 :] - total[1:-_SPAN]
    return summed


def _risen(course: Array) -> Array:
    """Share of the whole growth that is reached at each place."""
    return np.asarray((course - course[0]) / (course[-1] - course[0]))


def _claim(metric: str, rule: _Rule, first: float, last: float) -> str:
    before, after = (quantity(float(rule.sign * amount), unit(metric)) for amount in (first, last))
    return sentence("rises" if rule.sign > 0 else "falls", metric=metric, before=before, after=after)


@cache
def _rules() -> tuple[_Rule, ...]:
    rules = yaml.safe_load((files(__package__) / "trends.yaml").read_text(encoding="utf-8"))
    return tuple(_Rule(re.compile(r["pattern"], re.IGNORECASE), r["sign"], r["least"]) for r in rules)
