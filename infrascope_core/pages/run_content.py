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

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.pages.packing import as_bytes, as_singles, buckets, least_and_largest
from infrascope_core.pages.settings import PageSettings
from infrascope_core.patterns.held import LEVELS
from infrascope_core.recipes import Recipe
from infrascope_core.run_files.columns import SUBSYSTEMS, family, subsystem, unit

_GAP = 3.0
"""Samples that are further apart than so many times the usual interval have a gap between them."""
_CELLS = 250_000
"""Most cells of the heat map."""
_SCALE = 25.4
"""A cell of 254 is a deviation of 10 scales or more."""


@dataclass(frozen=True, eq=False)
class RunTables:
    """What is known of a run.

    Attributes
    ----------
    times : dict of str to ndarray of datetime64
        Samples of each host.
    scores, reasons, episodes, offsets, faults, baskets : polars.DataFrame
        Its tables.
    beside : (Baseline, Residuals), optional
        Its windows beside what is expected of them.
    window_s : float
        Length of a feature window, seconds.
    """

    times: Mapping[str, Array]
    scores: pl.DataFrame
    reasons: pl.DataFrame
    episodes: pl.DataFrame
    offsets: pl.DataFrame
    faults: pl.DataFrame
    baskets: pl.DataFrame
    window_s: float
    beside: tuple[Baseline, Residuals] | None = None

    @cached_property
    def windows(self) -> dict[str, tuple[Ints, Array]]:
        """Of each host, the rows of its windows beside the references, and their middle, seconds from the start."""
        if self.beside is None:
            return {}
        windows = self.beside[1].windows
        hosts, at = windows["host"].to_numpy(), epoch(windows["start_ts"]) - self.start + self.window_s / 2
        rows = {host: np.flatnonzero(hosts == host) for host in sorted(set(hosts))}
        return {str(host): (own, at[own]) for host, own in rows.items()}

    @cached_property
    def start(self) -> float:
        """First sample, seconds since 1970."""
        return min((float(t[0]) for t in self.times.values() if len(t)), default=0.0)

    @cached_property
    def end(self) -> float:
        """Last sample, seconds since 1970."""
        return max((float(t[-1]) for t in self.times.values() if len(t)), default=0.0)


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
    if len(chosen) < settings.least_charts and tables.beside is not None:
        rest = [pair for pair in _departing(*tables.beside) if pair not in found]
        chosen += rest[: settings.least_charts - len(chosen)]
    return [(str(host), str(metric)) for host, metric in chosen]


def _departing(baseline: Baseline, residuals: Residuals) -> list[tuple[str, str]]:
    """Metrics by their median deviation, hosts together in order."""
    metrics, deviation = by_metric(baseline, residuals)
    hosts = residuals.windows["host"].to_numpy()
    found = []
    for host in sorted(set(hosts)):
        typical = np.median(np.nan_to_num(deviation[hosts == host]), axis=0)
        found += [(-round(float(size), 9), str(host), name) for name, size in zip(metrics, typical, strict=True)]
    return [(host, name) for _, host, name in sorted(found)]


def by_metric(baseline: Baseline, residuals: Residuals) -> tuple[list[str], Array]:
    """Metrics of a baseline, and the largest deviation among the features of each: windows x metrics, in scales."""
    names = [metric for metric, _ in baseline.names]
    starts = np.flatnonzero([i == 0 or names[i] != names[i - 1] for i in range(len(names))])
    if not len(starts):
        return [], np.zeros((residuals.windows.height, 0))
    deviation: Array = np.fmax.reduceat(np.abs(residuals.instant), starts, axis=1)
    return [names[i] for i in starts], deviation


def run_data(
    tables: RunTables,
    traces: Mapping[tuple[str, str], Array],
    recipe: Recipe,
    settings: PageSettings,
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
        "axes": {host: _axis(tables, host, settings) for host in sorted({host for host, _ in traces})},
        "charts": [_chart(tables, host, metric, values, settings) for (host, metric), values in traces.items()],
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
    stride = float(np.median(np.diff(at))) if len(at) > 1 else tables.window_s
    return {
        "host": host,
        "x": as_singles(_middle(at, bounds)),
        "surprisal": as_singles(highest[:, 0]),
        "alarms": [
            [round(float(at[a] - stride / 2), 3), round(float(at[b - 1] + stride / 2), 3)]
            for a, b in _stretches(alarms)
        ],
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
    _, windows = tables.windows.get(host, (np.zeros(0, dtype=np.int64), np.zeros(0)))
    return {
        "x": as_singles(_middle(at, buckets(len(at), settings.points))),
        "expected": as_singles(_middle(windows, buckets(len(windows), settings.points // 2))),
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
        "expected": _expected(tables, host, metric, settings),
    }


def _packed(values: Array, bounds: Ints) -> dict[str, str]:
    """Least and largest values; where each point is a single sample, once."""
    low, high = least_and_largest(values[:, None], bounds)
    if len(bounds) - 1 == len(values):
        return {"low": as_singles(low[:, 0])}
    return {"low": as_singles(low[:, 0]), "high": as_singles(high[:, 0])}


def _details(tables: RunTables, host: str, settings: PageSettings) -> list[tuple[Ints, Ints]]:
    """Samples around the worst episodes, and their points: all of them, but at most twice those of the whole run."""
    at = tables.times[host] - tables.start
    if len(at) <= settings.points:
        return []
    spans: list[list[float]] = []
    for row in list(_worst_first(tables.episodes))[: settings.detailed_episodes]:
        if row["host"] == host:
            one = _episode(row, tables.start)
            spans.append([one["from"] - settings.around_s, one["to"] + settings.around_s])
    merged: list[list[float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    inside = [np.flatnonzero((at >= begin) & (at <= end)) for begin, end in merged]
    return [(rows, buckets(len(rows), 2 * settings.points)) for rows in inside if len(rows)]


def _expected(tables: RunTables, host: str, metric: str, settings: PageSettings) -> dict[str, str] | None:
    """Least and largest value of the reference window that each window was compared with."""
    if tables.beside is None or host not in tables.windows:
        return None
    baseline, residuals = tables.beside
    place = {feature: i for i, (name, feature) in enumerate(baseline.names) if name == metric}
    low = next((place[name] for name in ("minimum", "median", "mean") if name in place), None)
    high = next((place[name] for name in ("maximum", "median", "mean") if name in place), None)
    if low is None or high is None:
        return None
    own, at = tables.windows[host]
    bounds = buckets(len(at), settings.points // 2)
    least, _ = least_and_largest(residuals.expected[own, low][:, None], bounds)
    _, largest = least_and_largest(residuals.expected[own, high][:, None], bounds)
    return {
        "low": as_singles(np.minimum(least, largest)[:, 0]),
        "high": as_singles(np.maximum(least, largest)[:, 0]),
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

    def at(self, times: pl.Series) -> Ints:
        """The column that each time lies in."""
        place = (epoch(times) - self.start) / self.length * self.number
        return np.clip(place.astype(np.int64), 0, self.number - 1)


@dataclass
class _Strip:
    """Rows over time; a cell is the largest of what lies in it."""

    names: Sequence[str]
    columns: int
    cells: Array = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.full((len(self.names), self.columns), np.nan)

    def put(self, rows: Ints, columns: Ints, values: Array) -> None:
        np.fmax.at(self.cells, (rows, columns), values)

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
        strip.put(rows, columns.at(known["start_ts"]), 254 * known["subsystem_share"].fill_null(0.0).to_numpy())
    return strip.packed()


def _detectors(tables: RunTables, columns: _Columns) -> dict[str, Any]:
    """Which detectors flag, faintly where it is no alarm (Reveal, figure 2)."""
    flags = tables.scores.select("start_ts", "anomalous", "flagged_by").explode("flagged_by").drop_nulls("flagged_by")
    names = flags["flagged_by"].unique().sort().to_list()
    strip = _Strip(names, columns.number)
    if flags.height:
        rows = flags["flagged_by"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        strong = flags["anomalous"].fill_null(value=False).to_numpy()
        strip.put(rows, columns.at(flags["start_ts"]), np.where(strong, 254.0, 90.0))
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
        strip.put(rows, columns.at(tables.baskets["start_ts"]), heights)
    return strip.packed()


def _heat(tables: RunTables, settings: PageSettings) -> dict[str, Any]:
    """Deviation of every metric over time, the largest of a column and over hosts; by subsystem, family and name."""
    if tables.beside is None:
        return {"metrics": [], "families": [], "subsystems": [], "columns": 0, "cells": ""}
    metrics, deviation = by_metric(*tables.beside)
    number = max(20, min(settings.columns, _CELLS // max(len(metrics), 1)))
    columns = _Columns.of(tables, number)
    at = columns.at(tables.beside[1].windows["start_ts"])
    cells = np.full((number, len(metrics)), np.nan)
    np.fmax.at(cells, at, deviation)
    rank = {name: place for place, name in enumerate(SUBSYSTEMS)}
    order = sorted(range(len(metrics)), key=lambda i: (rank[subsystem(metrics[i])], family(metrics[i]), metrics[i]))
    return {
        "metrics": [metrics[i] for i in order],
        "families": [family(metrics[i]) for i in order],
        "subsystems": [subsystem(metrics[i]) for i in order],
        "columns": number,
        "cells": as_bytes(_SCALE * cells[:, order].T),
    }
