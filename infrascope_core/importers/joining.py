"""Samples of one host become rows: every series as it stood at the moments at which the host was read.

What belongs here: the rows of a run file, and the value of each column in them. Frames in, frames out.

The rows are the moments at which most of the host's columns were read (docs/adr/0038), not those of a grid: a grid that
is as dense as the scrapes sees some of them twice and some never, which a counter's rate shows as a stop and a leap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.mapping import Rule, Target
from infrascope_core.importers.samples import Samples
from infrascope_core.numeric import Array, Ints
from infrascope_core.run_files.tables import METRIC_TYPES

_LATE = 1.5
"""A value is known until so many intervals after it was read."""
_TOGETHER = 0.1
"""Moments within this share of an interval are one row: an exporter that gives its metrics times of its own."""
_MOST_ROWS = 10_000_000
_ROUNDING = 1e-14
_NUMBERS = re.compile(r"(\d+)")

_Times = npt.NDArray[np.int64]
"""Microseconds since 1970."""


@dataclass(frozen=True)
class Joined:
    """The rows of one host.

    Attributes
    ----------
    rows : polars.DataFrame
        ts, then a column per metric; missing is null.
    types : polars.DataFrame
        metric, type and origin of the columns that are declared.
    interval_s : float or None
        Median time between rows.
    notes : tuple of str
        What was left out, in a sentence each.
    """

    rows: pl.DataFrame
    types: pl.DataFrame = field(default_factory=lambda: METRIC_TYPES.empty().drop("run_key"))
    interval_s: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    """A series in order: moments, strictly ascending, and values."""

    times: _Times
    values: Array


@dataclass(frozen=True)
class _Part:
    """A column, or what is added up to one: what a rule makes of a series, or of several that follow one another."""

    metric: str
    group: str
    rule: Rule
    origin: str
    read: _Read


def join(samples: Samples, targets: Sequence[Target], start: datetime, end: datetime) -> Joined:
    """Put the samples of one host into rows.

    Parameters
    ----------
    samples : Samples
        Of this host.
    targets : sequence of Target
        What its series become.
    start, end : datetime
        Naive UTC, both inclusive: rows lie between them.

    Returns
    -------
    Joined
        Without rows where there is no sample in time. Of samples of one moment the last counts. A value is the last one
        within 1.5 intervals, else missing; a counter that is read less often than the host stands only where it was
        read, so that its rate is that of its own interval. Counters keep their resets.

    Raises
    ------
    ImportSourceError
        More rows than a run file can have.
    """
    read = _in_order(samples, {target.series for target in targets}, start, end)
    parts, doubled = _parts(samples, [target for target in targets if target.series in read], read)
    if not parts:
        return Joined(pl.DataFrame(schema={"ts": pl.Datetime("us")}))
    groups: dict[str, list[_Times]] = {}
    for part in parts:
        groups.setdefault(part.group, []).append(part.read.times)
    intervals = {group: _interval(times) for group, times in groups.items()}
    rows = _rows(groups, intervals)
    if len(rows) > _MOST_ROWS:
        raise ImportSourceError(f"{start} to {end} are {len(rows):,} rows, more than a run file can have; ask for less")
    interval = _interval([rows])
    columns, further = _columns(parts, rows, {group: max(own, interval) for group, own in intervals.items()}, interval)
    doubled += further
    frame = pl.DataFrame(
        {
            "ts": pl.Series(rows, dtype=pl.Datetime("us")),
            **{metric: pl.Series(values, nan_to_null=True) for metric, values in columns.items()},
        }
    )
    notes = (
        (f"{len(doubled)} series say what another says, such as {doubled[0]}, and were left out",) if doubled else ()
    )
    return Joined(frame, _types(parts), interval / 1e6 if len(rows) > 1 else None, notes)


def _in_order(samples: Samples, wanted: Iterable[int], start: datetime, end: datetime) -> dict[int, _Read]:
    """Each series with known values in time, by ascending moment; the last sample of a moment counts."""
    values = (
        samples.values.filter(
            pl.col("series").is_in(sorted(wanted)), pl.col("ts").is_between(start, end), pl.col("value").is_not_nan()
        )
        .with_row_index("read")
        .sort("series", "ts", "read")
    )
    if values.is_empty():
        return {}
    number, ts = values["series"].to_numpy(), values["ts"].dt.timestamp("us").to_numpy()
    last = np.append((number[1:] != number[:-1]) | (ts[1:] != ts[:-1]), True)
    number, ts, value = number[last], ts[last], values["value"].to_numpy()[last]
    begins = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    ends = np.append(begins[1:], len(number))
    return {
        int(number[first]): _Read(ts[first:after], value[first:after])
        for first, after in zip(begins, ends, strict=True)
    }


def _interval(times: Iterable[_Times]) -> float:
    """Median over series of the median time between their samples, in microseconds; 0 where none has two."""
    medians = [float(np.median(np.diff(each))) for each in times if len(each) > 1]
    return float(np.median(medians)) if medians else 0.0


def _parts(samples: Samples, targets: Sequence[Target], read: Mapping[int, _Read]) -> tuple[list[_Part], list[str]]:
    """Parts of columns in the order of the rules, and the columns of series that say what another says.

    Of one column and target, series that follow one another are one: labels such as the job or the pod on a GPU come
    and go. Where they meet, that with more samples counts.
    """
    by_column: dict[tuple[str, str], list[Target]] = {}
    for target in sorted(targets, key=lambda t: (t.rank, _natural(t.metric), samples.series[t.series].labels)):
        by_column.setdefault((target.metric, samples.series[target.series].group), []).append(target)
    parts: list[_Part] = []
    doubled: list[str] = []
    for (metric, group), members in by_column.items():
        combining = [target for target in members if target.rule.combine is not None]
        if members[0].rule.combine is None:
            merged, contradicting = _merged([read[target.series] for target in members])
            doubled += [metric] * contradicting
            members, reads = members[:1], [merged]  # noqa: PLW2901
        else:  # what is not to be added up says the same once more: the memory of a GPU beside that of its instances
            doubled += [metric] * (len(members) - len(combining))
            members, reads = combining, [read[target.series] for target in combining]  # noqa: PLW2901
        for target, one in zip(members, reads, strict=True):
            parts.append(_Part(metric, group, target.rule, samples.series[target.series].name, one))
    return parts, doubled


def _merged(reads: Sequence[_Read]) -> tuple[_Read, int]:
    """Series as one, and how many of them say something else at a moment than another that has more."""
    merged, *others = sorted(reads, key=lambda one: -len(one.times))
    contradicting = 0
    for one in others:
        place = np.minimum(np.searchsorted(merged.times, one.times), len(merged.times) - 1)
        known = merged.times[place] == one.times
        contradicting += bool((merged.values[place[known]] != one.values[known]).any())
        times = np.concatenate([merged.times, one.times[~known]])
        order = np.argsort(times)
        merged = _Read(times[order], np.concatenate([merged.values, one.values[~known]])[order])
    return merged, contradicting


def _rows(groups: Mapping[str, Sequence[_Times]], intervals: Mapping[str, float]) -> _Times:
    """The moments of the group with most series; where it was silent and others were not, moments at its interval."""
    clock = max(groups, key=lambda group: (intervals[group] > 0, len(groups[group]), -intervals[group], group))
    own = _apart(_moments(groups[clock]), _TOGETHER * intervals[clock])
    others = _moments(times for group, of in groups.items() if group != clock for times in of)
    step = round(intervals[clock] or max(intervals.values()))
    if not len(others) or not step:
        return own if len(own) > 1 or not len(others) else np.asarray(np.union1d(own, others))
    if (max(own[-1], others[-1]) - min(own[0], others[0])) / step > _MOST_ROWS:
        return np.asarray(np.union1d(own, others))  # as good as any: it is refused for its length
    # what lies before, between and after the clock's own moments
    bounds = np.concatenate([[min(own[0], others[0]) - step], own, [max(own[-1], others[-1]) + step]])
    silent = np.flatnonzero(np.diff(bounds) > _LATE * step)
    filled = [np.arange(bounds[i] + step, bounds[i + 1] - step // 2, step) for i in silent]
    extra = np.concatenate([*filled, np.empty(0, np.int64)])
    heard = np.searchsorted(others, extra, "right") > np.searchsorted(others, extra - step, "right")
    return np.asarray(np.union1d(own, extra[heard]))


def _moments(times: Iterable[_Times]) -> _Times:
    """All distinct moments; series that are read together share theirs, and are looked at once."""
    distinct = {each.tobytes(): each for each in times}
    return np.unique(np.concatenate([*distinct.values(), np.empty(0, np.int64)]))


def _apart(moments: _Times, least: float) -> _Times:
    """The last moment of each bunch: a row is to hold everything that was read in its bunch.

    A bunch are the moments within `least` after its first. (After one another, the moments of series that are each read
    at a time of its own would be one bunch from the first to the last.)
    """
    if not len(moments) or (np.diff(moments) > least).all():
        return moments
    first, ends = moments[0], []
    for place, moment in enumerate(moments):
        if moment - first > least:
            ends.append(place - 1)
            first = moment
    return np.asarray(moments[[*ends, len(moments) - 1]])


def _places(times: _Times, rows: _Times, interval: float, *, once: bool) -> Ints:
    """Which sample each row shows; -1 where none is recent enough or, if `once`, a row before shows it already."""
    place = np.searchsorted(times, rows, "right") - 1
    age = rows - times[np.maximum(place, 0)]
    known = (place >= 0) & (age <= _LATE * interval)
    if once:
        known &= np.append(True, place[1:] != place[:-1])[: len(place)]
    return np.where(known, place, -1)


def _columns(
    parts: Sequence[_Part], rows: _Times, holds: Mapping[str, float], interval: float
) -> tuple[dict[str, Array], list[str]]:
    """Values of each column in the rows, NaN where missing; and the columns that several targets have.

    `holds` is how long a value of a group is that of the host: its interval, or that of the rows if it is longer.
    """
    by_column: dict[str, dict[str, list[_Part]]] = {}
    for part in parts:
        by_column.setdefault(part.metric, {}).setdefault(part.group, []).append(part)
    places: dict[tuple[bytes, float, bool], Ints] = {}
    columns: dict[str, Array] = {}
    doubled: list[str] = []
    for metric, of_groups in by_column.items():
        # of several targets that tell of one column, such as two servers' replicas, that with most samples is taken
        group = max(of_groups, key=lambda group: (sum(len(part.read.times) for part in of_groups[group]), group))
        doubled += [metric] * (len(of_groups) - 1)
        values = []
        for part in of_groups[group]:
            hold = holds[group]
            once = part.rule.type == "counter" and hold > _LATE * interval
            # series that were read together have their values in the same rows
            key = (part.read.times.tobytes(), hold, once)
            if key not in places:
                places[key] = _places(part.read.times, rows, hold, once=once)
            place = places[key]
            shown = np.where(place >= 0, part.read.values[np.maximum(place, 0)], np.nan)
            values.append(_scaled(shown, part.rule.scale))
        # a sum of which a part is missing is not known; the largest of what is there is
        with np.errstate(invalid="ignore"):  # infinite values of both signs
            combined = np.fmax.reduce(values) if part.rule.combine == "max" else np.sum(values, axis=0)
        columns[metric] = values[0] if len(values) == 1 else np.asarray(combined)
    return columns, doubled


def _scaled(values: Array, scale: float) -> Array:
    """Values in the column's unit; one that is whole but for rounding (0.29 s as 28.999999999999996 ticks) is whole."""
    if scale == 1:
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * scale
        whole = np.rint(scaled)
        return np.where(np.abs(scaled - whole) <= _ROUNDING * np.abs(scaled), whole, scaled)


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that orders names with numbers as a person does."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _NUMBERS.split(text))


def _types(parts: Sequence[_Part]) -> pl.DataFrame:
    """What is declared about the columns, by the first part of each."""
    declared = {part.metric: (part.metric, part.rule.type, part.origin) for part in reversed(parts)}
    schema = {name: dtype for name, dtype in METRIC_TYPES.schema.items() if name != "run_key"}
    rows = [row for row in declared.values() if row[1] is not None]
    return pl.DataFrame(rows, schema=schema, orient="row").sort("metric")
