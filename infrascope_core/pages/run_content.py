"""What the page of a run draws: traces with what was expected, causes over time, levels, and a heat map of all metrics.

What belongs here: from the tables of a run to numbers of a size that a page can hold. Words are those of the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from infrascope_core.contract import HOST_KEY
from infrascope_core.frames import numbered
from infrascope_core.numeric import Array, Ints, Mask, buckets, least_and_largest
from infrascope_core.pages.packing import as_bytes, as_singles
from infrascope_core.pages.settings import PageSettings
from infrascope_core.patterns.held import LEVELS
from infrascope_core.recipes import Recipe
from infrascope_core.run_files.columns import SUBSYSTEMS, family, subsystem, unit

_GAP = 3.0
"""Samples that are further apart than so many times the usual interval have a gap between them."""
_CELLS, _FEWEST = 250_000, 20
"""Most cells of the heat map, but at least so many columns."""
_ROUNDING = 1e-6
"""Share of a column that is rounding: a stretch that ends where a column begins does not reach into it."""
_RANK = {name: place for place, name in enumerate(SUBSYSTEMS)}
"""Order of the heat map."""
_SCALE = 25.4
"""A cell of 254 is a deviation of 10 scales or more."""


@dataclass(frozen=True, eq=False)
class RunTables:
    """What is known of a run.

    Attributes
    ----------
    times : dict of str to ndarray
        Samples of each host, seconds since 1970.
    scores, reasons, episodes, offsets, deviations, faults, baskets : polars.DataFrame
        Its tables; `deviations` is `metric_deviations`.
    window_s : float
        Length of a feature window, seconds.
    """

    times: Mapping[str, Array]
    scores: pl.DataFrame
    reasons: pl.DataFrame
    episodes: pl.DataFrame
    offsets: pl.DataFrame
    deviations: pl.DataFrame
    faults: pl.DataFrame
    baskets: pl.DataFrame
    window_s: float

    @cached_property
    def start(self) -> float:
        """First sample, seconds since 1970."""
        return min((float(t[0]) for t in self.times.values() if len(t)), default=0.0)

    @cached_property
    def end(self) -> float:
        """Last sample, seconds since 1970."""
        return max((float(t[-1]) for t in self.times.values() if len(t)), default=0.0)

    @cached_property
    def stride_s(self) -> float:
        """Seconds from one feature window to the next; the length of one where there is no other."""
        return usual_step(self.scores, self.window_s)

    @cached_property
    def stretches(self) -> dict[str, tuple[Array, Array]]:
        """Of each host, when each stretch of `deviations` begins and ends, seconds from the start.

        A window stands for the stride around its middle, so that neighbours meet and do not overlap.
        """
        margin = (self.window_s - self.stride_s) / 2
        of_host = self.deviations.unique(["host", "stretch"]).sort("host", "stretch").partition_by("host", as_dict=True)
        return {
            str(host): (
                epoch(own["start_ts"]) - self.start + margin,
                epoch(own["end_ts"]) - self.start - margin,
            )
            for (host,), own in of_host.items()
        }

    def expected(self, host: str, metric: str) -> pl.DataFrame | None:
        """Rows of `deviations` of a metric that has an expected value, in time."""
        rows, place, number = self._expected
        return rows[np.flatnonzero(number == place[host, metric])] if (host, metric) in place else None

    @cached_property
    def _expected(self) -> tuple[pl.DataFrame, dict[tuple[object, ...], int], Ints]:
        # a page shows a few of hundreds of metrics: a frame for each would take longer than all else
        rows = self.deviations.drop_nulls("expected_low")
        metrics, number = numbered(rows, ("host", "metric"))
        return rows, {key: place for place, key in enumerate(metrics.iter_rows())}, number


def usual_step(windows: pl.DataFrame, otherwise: float) -> float:
    """Seconds from one `start_ts` of a table to the next, the median over its hosts; a number where there is none."""
    apart = np.diff(epoch(windows.unique(["host", "start_ts"]).sort("host", "start_ts")["start_ts"]))
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else otherwise


def epoch(times: pl.Series) -> Array:
    """Naive UTC times as seconds since 1970."""
    seconds: Array = times.dt.timestamp("us").to_numpy().astype(np.float64) / 1e6
    return seconds


def chosen_metrics(tables: RunTables, settings: PageSettings) -> list[tuple[str, str]]:
    """Host and metric of each evidence chart, the most telling first.

    Those that carry the episodes, in turn; then those of single windows, those in which the run differs as a whole,
    and, up to `least_charts`, those that depart most from what is expected.
    """
    of_episodes = tables.episodes.sort("total_surprisal", descending=True, nulls_last=True)
    lists = [[(str(host), str(m)) for m in metrics] for host, metrics in of_episodes.select("host", "metrics").rows()]
    longest = max(map(len, lists), default=0)
    found = dict.fromkeys(one[place] for place in range(longest) for one in lists if place < len(one))
    windows = tables.reasons.sort("contribution", "host", "metric", descending=[True, False, False])
    found |= dict.fromkeys(
        windows.select("host", "metric").unique(maintain_order=True).head(settings.least_charts).rows()
    )
    found |= dict.fromkeys(tables.offsets.filter("differs").sort("host", "rank").select("host", "metric").rows())
    chosen = list(found)[: settings.most_charts]
    if len(chosen) < settings.least_charts:
        rest = [pair for pair in _departing(tables.deviations) if pair not in found]
        chosen += rest[: settings.least_charts - len(chosen)]
    return [(str(host), str(metric)) for host, metric in chosen]


def _departing(deviations: pl.DataFrame) -> list[tuple[str, str]]:
    """Host and metric by their median deviation over the run, the farthest first."""
    typical = deviations.group_by("host", "metric").agg(pl.col("deviation").fill_null(0.0).median())
    return typical.sort("deviation", "host", "metric", descending=[True, False, False]).select("host", "metric").rows()


def run_data(
    tables: RunTables,
    traces: Mapping[tuple[str, str], Array],
    recipe: Recipe,
    settings: PageSettings,
    beside: Sequence[Beside] = (),
) -> dict[str, Any]:
    """Everything that the scripts of the page draw.

    Parameters
    ----------
    tables : RunTables
        The run.
    traces : mapping
        Samples of each chosen host and metric, in the order of the charts.
    recipe : Recipe
        Words of the metric groups.
    settings : PageSettings
        Sizes.
    beside : sequence of Beside
        Metrics in which a host departs from the others of its job.

    Returns
    -------
    dict
        Ready for JSON: times are seconds from `start`, which is in seconds since 1970.
    """
    columns = _Columns.of(tables, settings.columns)
    return {
        "start": tables.start,
        "end": tables.end,
        "ribbon": [_ribbon(tables, host, settings) for host in sorted(tables.times)],
        "episodes": [_episode(row, tables.start) for row in _worst_first(tables.episodes)],
        "faults": [
            {"from": _since(start, tables.start), "to": _since(end, tables.start), "name": str(name)}
            for start, end, name in tables.faults.select("start", "end", "fault").iter_rows()
        ],
        "axes": {
            host: _axis(tables, host, settings)
            for host in sorted({host for host, _ in traces} | {one.host for one in beside})
        },
        "charts": [_chart(tables, host, metric, values, settings) for (host, metric), values in traces.items()],
        "hosts": [_beside_hosts(tables, one, settings) for one in beside],
        "strips": {
            "subsystems": _subsystems(tables, columns),
            "detectors": _detectors(tables, columns),
            "levels": _levels(tables, columns, recipe),
        },
        "heat": _heat(tables, settings),
    }


def _worst_first(episodes: pl.DataFrame) -> Iterable[dict[str, Any]]:
    order = ["total_surprisal", "host", "first_window"]
    return episodes.sort(order, descending=[True, False, False], nulls_last=True).iter_rows(named=True)


def _since(time: datetime, start: float) -> float:
    return round((time - datetime(1970, 1, 1)).total_seconds() - start, 3)


def _episode(row: Mapping[str, Any], start: float) -> dict[str, Any]:
    return {"host": row["host"], "from": _since(row["start_ts"], start), "to": _since(row["end_ts"], start)}


def _ribbon(tables: RunTables, host: str, settings: PageSettings) -> dict[str, Any]:
    """Surprisal of a host's windows, its alarms and the gaps in its sampling."""
    own = tables.scores.filter(host=host).sort("window")
    at = epoch(own["start_ts"]) - tables.start + tables.window_s / 2
    bounds = buckets(len(at), 2 * settings.points)
    surprisal = own["surprisal"].to_numpy().astype(np.float64)[:, None]
    _, highest = least_and_largest(surprisal, bounds)
    alarms = own["anomalous"].fill_null(value=False).to_numpy()
    times = tables.times[host]
    apart = np.diff(times)
    usual = float(np.median(apart)) if len(apart) else 0.0
    gaps = np.flatnonzero(apart > _GAP * usual) if usual > 0 else np.zeros(0, dtype=np.int64)
    half = tables.stride_s / 2
    return {
        "host": host,
        "x": as_singles(_middle(at, bounds)),
        "surprisal": as_singles(highest[:, 0]),
        "alarms": [[round(float(at[a] - half), 3), round(float(at[b - 1] + half), 3)] for a, b in _stretches(alarms)],
        "judged": bool(own["surprisal"].is_not_null().any()),
        "gaps": [
            [round(float(times[i] - tables.start), 3), round(float(times[i + 1] - tables.start), 3)] for i in gaps
        ],
    }


def _stretches(holds: Mask) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _middle(at: Array, bounds: Ints) -> Array:
    """Time in the middle of each bucket."""
    if len(bounds) < 2:
        return np.zeros(0)
    middle: Array = (at[bounds[:-1]] + at[bounds[1:] - 1]) / 2
    return middle


def _axis(tables: RunTables, host: str, settings: PageSettings) -> dict[str, Any]:
    """The points in time that all charts of a host share: of the whole run, of details, and of what was expected."""
    at = tables.times[host] - tables.start
    begin, end = tables.stretches.get(host, (np.zeros(0), np.zeros(0)))
    return {
        "x": as_singles(_middle(at, buckets(len(at), settings.points))),
        "expected": as_singles((begin + end) / 2),
        "details": [as_singles(_middle(at[rows], bounds)) for rows, bounds in _details(tables, host, settings)],
    }


def _chart(tables: RunTables, host: str, metric: str, values: Array, settings: PageSettings) -> dict[str, Any]:
    """A trace over the whole run, at full sampling around the worst episodes, and what was expected."""
    return {
        "host": host,
        "metric": metric,
        "unit": unit(metric),
        "subsystem": subsystem(metric),
        "whole": _packed(values, buckets(len(values), settings.points)),
        "details": [_packed(values[rows], bounds) for rows, bounds in _details(tables, host, settings)],
        "expected": _expected(tables, host, metric),
    }


def _packed(values: Array, bounds: Ints) -> dict[str, str]:
    """Least and largest values; where each point is a single sample, once."""
    low, high = least_and_largest(values[:, None], bounds)
    if len(bounds) - 1 == len(values):
        return {"low": as_singles(low[:, 0])}
    return {"low": as_singles(low[:, 0]), "high": as_singles(high[:, 0])}


def _details(tables: RunTables, host: str, settings: PageSettings) -> list[tuple[Ints, Ints]]:
    """Samples around the worst episodes, and their points, the finest first.

    All samples of a short episode; of a long one those around its peaks, and the whole of it in points.
    """
    at = tables.times[host] - tables.start
    if len(at) <= settings.points:
        return []
    worst = [row for row in list(_worst_first(tables.episodes))[: settings.detailed_episodes] if row["host"] == host]
    lasting = [_episode(row, tables.start) for row in worst]
    peaks = [_since(row["peak_ts"], tables.start) for row in worst]
    around, most = settings.around_s, 2 * settings.points
    fine, coarse = [], []
    for begin, end in _merged([(one["from"] - around, one["to"] + around) for one in lasting]):
        rows = np.flatnonzero((at >= begin) & (at <= end))
        if len(rows) <= most:
            fine.append((rows, buckets(len(rows), most)))
            continue
        for first, last in _merged([(peak - around, peak + around) for peak in peaks if begin <= peak <= end]):
            near = np.flatnonzero((at >= first) & (at <= last))
            fine.append((near, buckets(len(near), most)))
        coarse.append((rows, buckets(len(rows), settings.points)))
    return [(rows, bounds) for rows, bounds in (*fine, *coarse) if len(rows)]


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stretches of time in order; those that overlap are one."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _expected(tables: RunTables, host: str, metric: str) -> dict[str, str] | None:
    """Least and largest value of the reference windows that those of each stretch were compared with."""
    own = tables.expected(host, metric)
    if own is None:
        return None
    begin, _ = tables.stretches[host]
    band = np.full((2, len(begin)), np.nan)
    band[:, own["stretch"].to_numpy()] = own.select("expected_low", "expected_high").to_numpy().T
    return {"low": as_singles(band[0]), "high": as_singles(band[1])}


@dataclass(frozen=True, eq=False)
class Beside:
    """A metric of a host beside the other hosts of its job.

    Attributes
    ----------
    host, metric : str
    values : ndarray
        Samples of the host.
    others : sequence of (ndarray, ndarray)
        Of each other host, its samples' times, seconds since 1970, and values.
    """

    host: str
    metric: str
    values: Array
    others: Sequence[tuple[Array, Array]]


def _beside_hosts(tables: RunTables, one: Beside, settings: PageSettings) -> dict[str, Any]:
    """A host's trace, and between what the others lie in the same points of time (Reveal, figure 9)."""
    times = tables.times[one.host]
    bounds = buckets(len(times), settings.points)
    low, high = np.full(len(bounds) - 1, np.inf), np.full(len(bounds) - 1, -np.inf)
    for at, values in one.others:
        # before the first and after the last sample of this host nothing is drawn
        place = np.searchsorted(times[bounds[:-1]], at, side="right") - 1
        known = np.isfinite(values) & (place >= 0) & (at <= times[-1])
        np.minimum.at(low, place[known], values[known])
        np.maximum.at(high, place[known], values[known])
    some = np.isfinite(low)
    return {
        "host": one.host,
        "metric": one.metric,
        "unit": unit(one.metric),
        "subsystem": subsystem(one.metric),
        "whole": _packed(one.values, bounds),
        "others": {
            "low": as_singles(np.where(some, low, np.nan)),
            "high": as_singles(np.where(some, high, np.nan)),
        },
        "number": len(one.others),
    }


@dataclass(frozen=True)
class _Columns:
    """Columns of strips over the whole run."""

    start: float
    length: float
    number: int

    @classmethod
    def of(cls, tables: RunTables, most: int) -> _Columns:
        return cls(tables.start, max(tables.end - tables.start, 1e-9), most)

    def between(self, begin: Array, end: Array) -> tuple[Ints, Ints]:
        """First and last column of each stretch of time, seconds from the start; at least one."""
        first = np.floor(begin / self.length * self.number + _ROUNDING).astype(np.int64)
        last = np.ceil(end / self.length * self.number - _ROUNDING).astype(np.int64) - 1
        first = np.clip(first, 0, self.number - 1)
        return first, np.clip(last, first, self.number - 1)

    def around(self, windows: pl.DataFrame, length: float, stride: float) -> tuple[Ints, Ints]:
        """Columns of windows: each stands for the stride around its middle, so that neighbours meet."""
        begin = epoch(windows["start_ts"]) - self.start + (length - stride) / 2
        return self.between(begin, begin + stride)


@dataclass
class _Strip:
    """Rows over time; a cell is the largest of what lies in it."""

    names: Sequence[str]
    columns: int
    cells: Array = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.full((len(self.names), self.columns), np.nan)

    def put(self, rows: Ints, between: tuple[Ints, Ints], values: Array) -> None:
        """Write values into rows, each from its first to its last column."""
        first, last = between
        length = last - first + 1
        step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        np.fmax.at(self.cells, (np.repeat(rows, length), np.repeat(first, length) + step), np.repeat(values, length))

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "columns": self.columns, "cells": as_bytes(self.cells)}


def _subsystems(tables: RunTables, columns: _Columns) -> dict[str, Any]:
    """Share of the evidence by subsystem, in windows with an alarm (Reveal, figure 3)."""
    keys = [*HOST_KEY, "window"]
    alarms = tables.scores.filter("anomalous").select(*keys, "start_ts")
    shares = (
        tables.reasons.join(alarms, on=keys)
        .group_by(*keys, "subsystem")
        .agg(pl.col("subsystem_share", "start_ts").first())
    )
    names = [name for name in SUBSYSTEMS if name in set(shares["subsystem"])]
    strip = _Strip(names, columns.number)
    known = shares.filter(pl.col("subsystem").is_in(names))
    if known.height:
        rows = known["subsystem"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        between = columns.around(known, tables.window_s, tables.stride_s)
        strip.put(rows, between, 254 * known["subsystem_share"].fill_null(0.0).to_numpy())
    return strip.packed()


def _detectors(tables: RunTables, columns: _Columns) -> dict[str, Any]:
    """Which detectors flag, faintly where it is no alarm (Reveal, figure 2)."""
    flags = tables.scores.select("start_ts", "anomalous", "flagged_by").explode("flagged_by").drop_nulls("flagged_by")
    names = flags["flagged_by"].unique().sort().to_list()
    strip = _Strip(names, columns.number)
    if flags.height:
        rows = flags["flagged_by"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        strong = flags["anomalous"].fill_null(value=False).to_numpy()
        between = columns.around(flags, tables.window_s, tables.stride_s)
        strip.put(rows, between, np.where(strong, 254.0, 90.0))
    return strip.packed()


def _levels(tables: RunTables, columns: _Columns, recipe: Recipe) -> dict[str, Any]:
    """LOW, MED and HIGH of each metric group; of several windows in a column, the highest."""
    names = tables.baskets["metric_group"].unique().sort().to_list()
    strip = _Strip(
        [recipe.by_name[name].words or name if name in recipe.by_name else name for name in names], columns.number
    )
    if names:
        height = {level: 127.0 * place for place, level in enumerate(LEVELS)}
        rows = tables.baskets["metric_group"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        heights = tables.baskets["level"].replace_strict(height, default=None, return_dtype=pl.Float64).to_numpy()
        step = usual_step(tables.baskets, tables.window_s)
        strip.put(rows, columns.around(tables.baskets, step, step), heights)
    return strip.packed()


def _heat(tables: RunTables, settings: PageSettings) -> dict[str, Any]:
    """Deviation of every metric over time, the largest of a column and over hosts; by subsystem, family and name."""
    metrics = sorted(tables.deviations["metric"].unique().to_list(), key=_place)
    number = max(_FEWEST, min(settings.columns, _CELLS // max(len(metrics), 1)))
    strip = _Strip(metrics, number)
    if metrics:
        # the largest of all hosts, stretch by stretch: a picture of 60 hosts would tell none of them apart
        columns = _Columns.of(tables, number)
        row = {metric: i for i, metric in enumerate(metrics)}
        for (host,), own in (
            tables.deviations.sort("host", "metric", "stretch").partition_by("host", as_dict=True).items()
        ):
            begin, end = tables.stretches[str(host)]
            rows = np.array([row[metric] for metric in own["metric"].unique(maintain_order=True)])
            deviation = own["deviation"].to_numpy().reshape(len(rows), len(begin))
            for stretch, (first, last) in enumerate(zip(*columns.between(begin, end), strict=True)):
                cells = strip.cells[rows, first : last + 1]
                strip.cells[rows, first : last + 1] = np.fmax(cells, deviation[:, stretch, None])
    return {
        "metrics": metrics,
        "families": [family(metric) for metric in metrics],
        "subsystems": [subsystem(metric) for metric in metrics],
        "columns": number,
        "cells": as_bytes(_SCALE * strip.cells),
    }


def _place(metric: str) -> tuple[int, str, str]:
    """Where a metric stands among all: by subsystem, family and name."""
    return _RANK[subsystem(metric)], family(metric), metric
