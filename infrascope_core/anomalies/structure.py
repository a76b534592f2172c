"""Structure: metrics whose telemetry itself changes, whatever its values. They vanish, arrive late, or stand still.

What belongs here: what needs no baseline, because a metric is held against itself. A GPU that detaches has no numeric
precursor, its telemetry collapses (GWDG 2026); a collector that hangs repeats its last reading. What a metric does
again and again is its way, and no change; nor is what it does from the first sample to the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.anomalies.alarms import stretches
from infrascope_core.anomalies.matrix import MISSING, STILL
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import STRUCTURAL_CHANGES
from infrascope_core.contract import HOST_KEY
from infrascope_core.frames import split
from infrascope_core.numeric import Array, Ints, Mask, quantiles
from infrascope_core.run_files.columns import instance, is_differenced, subsystem
from infrascope_core.run_files.telemetry import KEY_COLUMNS

_COLUMNS = 256
"""Metrics looked at at once, so that temporary arrays stay small beside the telemetry."""
_USUAL = 0.9
"""Quantile over a metric's windows that stands for how often it usually changes."""
_FEWER = 0.75
"""A window in which a metric has less than this share of the samples that it can have has lost some ..."""
_JITTER = 1.0
"""... and this many more: a sensor that is read every ten samples has three or four in a window."""
_LIVELY = 0.5
"""A metric that usually changes from sample to sample in at least this share of them cannot be still by chance."""
_HARDLY = 0.25
"""A lively metric is still where it changes less than this share as often as usual ..."""
_CLEARLY = 0.6
_MOST_BETWEEN = 0.02
"""... if outside of that no more than so many of its windows change less than that share as often."""
_MOST_TIMES = 3
"""What happens more often than this in one run is the metric's way."""
_RESTS = 0.02
"""A value that makes up this share of a lively metric's samples is one where it rests: a limit, an idle level."""
_RESTING = frozenset({"Memory", "Storage", "Network"})
"""Subsystems of which metrics stand still when nothing happens: nothing is allocated, read or sent."""
_MARGIN = 0.5
"""A reading may be outside of those of the window before it by this share of their range."""
_RANGE = (0.05, 0.95)
"""A lively metric that stops outside of these quantiles of what it was may be at its idle level, or at a limit."""
_NOISE = (0.5, 1.6)
"""Mean step over the standard deviation within a window: 1.1 for noise, 0.4 for a random walk, which stands still when
nothing happens, 2 and more for what moves in bursts. What is not noise counts if several stand still together."""
_TINY = 1e-12
_TOGETHER = 3
"""So many metrics that stand still from one sample to another are no coincidence; also at 0, if they are all that a
sensor has of lively ones, and some of them never are 0 otherwise."""
_WHOLE = 6
"""A sensor with so many lively metrics that are all still at once is stuck, at whatever values."""
_SAME = 3
"""Samples within which metrics stop together."""


@dataclass(frozen=True)
class _Change:
    """A metric's change: its column, `missing` or `still`, its first sample and the one after its last.

    Of one that is still: whether it stands where it may rest, whether that says something of it alone, and, if it
    stands at 0, whether it is ever 0 otherwise.
    """

    column: int
    kind: str
    first: int
    end: int
    rests: bool = False
    alone: bool = True
    usual_zero: bool | None = None


def structural_changes(telemetry: pl.DataFrame, settings: FeatureSettings) -> pl.DataFrame:
    """Find the metrics that lose their values, or stop changing, for at least a window.

    Parameters
    ----------
    telemetry : polars.DataFrame
        `run_key`, `host`, `sample`, `ts`, and one numeric column per metric; of one run.
    settings : FeatureSettings
        Samples of a window, and from one to the next.

    Returns
    -------
    polars.DataFrame
        Table `structural_changes`, by run, host and number, in the order of time.

    Notes
    -----
    *Missing*: windows with fewer than three quarters of the samples that the metric has in others. *Still*: windows in
    which a metric that changes from sample to sample hardly does. A counter that only rises stands still when nothing
    happens, as do a difference that is 0, an amount of memory, and a share at its limit: that is no change. But where
    all metrics of one sensor (a GPU, a core, a source) stand still at once, the sensor is stuck; if at 0, it is gone.
    """
    parts = [STRUCTURAL_CHANGES.empty()]
    metrics = [name for name in telemetry.columns if name not in KEY_COLUMNS]
    for host in split(telemetry, HOST_KEY):
        ordered = host if host["sample"].is_sorted() else host.sort("sample")
        if ordered.height < 2 * settings.samples:
            continue
        changes = sorted(_of_host(ordered, metrics, settings), key=lambda c: (c.first, metrics[c.column], c.kind))
        if changes:
            parts.append(_table(ordered, metrics, changes))
    return pl.concat(parts)


def _table(host: pl.DataFrame, metrics: Sequence[str], changes: Sequence[_Change]) -> pl.DataFrame:
    first = np.array([change.first for change in changes])
    last = np.array([change.end - 1 for change in changes])
    lasting = last - first + 1
    return pl.DataFrame(
        {
            "run_key": host["run_key"][0],
            "host": host["host"][0],
            "number": np.arange(1, len(changes) + 1),
            "metric": [metrics[change.column] for change in changes],
            "kind": [change.kind for change in changes],
            "start_ts": host["ts"].gather(first),
            "end_ts": host["ts"].gather(last),
            # rule of succession (Laplace): after n samples as usual, the next is another with 1 / (n + 2)
            "surprisal": np.log10(host.height - lasting + 2.0),
        },
        schema=STRUCTURAL_CHANGES.schema,
    )


def _of_host(host: pl.DataFrame, metrics: Sequence[str], settings: FeatureSettings) -> Iterator[_Change]:
    sensors: dict[str, list[int]] = {}
    still: list[_Change] = []
    for start in range(0, len(metrics), _COLUMNS):
        chunk = metrics[start : start + _COLUMNS]
        values = host.select(pl.col(chunk).cast(pl.Float64)).to_numpy()
        present = np.isfinite(values)
        yield from _missing(present, start, settings)
        of_chunk, lively = _still(values, present, chunk, start, settings)
        still += of_chunk
        for column in lively:
            sensors.setdefault(_sensor(metrics[start + column]), []).append(start + column)
    yield from _believed(still, sensors, metrics)


def _missing(present: Mask, offset: int, settings: FeatureSettings) -> Iterator[_Change]:
    seen = _windowed(present, settings)
    fewer = seen <= _FEWER * seen.max(axis=0) - _JITTER
    for column in np.flatnonzero(fewer.any(axis=0) & present.any(axis=0)):
        found = []
        for stretch in stretches(fewer[:, column], gap=0):
            begin, end = _samples(stretch, len(present), settings)
            lost = begin + np.flatnonzero(~present[begin:end, column])
            # a window may end in a hole that the next one holds whole
            if lost[-1] + 1 - lost[0] >= settings.samples:
                found.append(_Change(offset + int(column), MISSING, int(lost[0]), int(lost[-1]) + 1))
        if len(found) <= _MOST_TIMES:
            yield from found


def _still(
    values: Array, present: Mask, metrics: Sequence[str], offset: int, settings: FeatureSettings
) -> tuple[list[_Change], Ints]:
    """Changes of lively metrics to standing still, not all to be believed; and the lively ones' columns."""
    changed = np.zeros_like(present)
    changed[1:] = (values[1:] != values[:-1]) & present[1:] & present[:-1]
    differenced = [is_differenced(metric) for metric in metrics]
    may_rest = [subsystem(metric) in _RESTING for metric in metrics]
    complete = _windowed(present, settings) == settings.samples
    changes = np.where(complete, _windowed(changed, settings), np.nan)
    known = complete.sum(axis=0) >= 2
    # a tenth of the windows of a lively metric change that often, each of them that often
    known &= changed.sum(axis=0) >= _LIVELY * (settings.samples - 1)
    usual = np.zeros(values.shape[1])
    usual[known] = quantiles(changes[:, known], (_USUAL,))[0]
    lively = usual >= _LIVELY * (settings.samples - 1)
    hardly = lively & (changes <= _HARDLY * usual)
    found: list[_Change] = []
    for column in np.flatnonzero(hardly.any(axis=0)):
        of_column = changes[:, column]
        spans = [_standing(changed[:, column], each, settings) for each in stretches(hardly[:, column], gap=0)]
        spans = [(begin, end) for begin, end in spans if end - begin >= settings.samples]
        if not spans or len(spans) > _MOST_TIMES:
            continue
        outside = np.ones(len(values), dtype=bool)
        for begin, end in spans:
            outside[begin:end] = False
        whole = _windowed(outside[:, None], settings)[:, 0] == settings.samples
        between = of_column[whole] < _CLEARLY * usual[column]
        if not len(between) or between.mean() > _MOST_BETWEEN:
            continue
        moving = values[outside & present[:, column], column]
        rises = bool((np.diff(moving) >= 0).all())
        low, high = np.quantile(moving, _RANGE)
        steps = np.abs(np.diff(moving)).mean() / max(_windowed_spread(moving, settings), _TINY)
        for begin, end in spans:
            value = np.median(values[begin:end, column])
            if begin == 0 or rises or (value == 0 and differenced[column]):
                continue  # it has not begun to move yet, or nothing happens that it would count
            rests = (may_rest[column] and not differenced[column]) or (moving == value).mean() > _RESTS
            rests |= not moving.min() < value < moving.max()
            rests |= not _goes_on(values[:begin, column], value, settings)
            alone = low < value < high and _NOISE[0] < steps < _NOISE[1] and len(spans) == 1
            zero = None if value else bool((moving == 0).any())
            found.append(_Change(offset + int(column), STILL, begin, end, bool(rests), bool(alone), zero))
    return found, np.flatnonzero(lively)


def _windowed_spread(values: Array, settings: FeatureSettings) -> float:
    """Median over windows of their standard deviation."""
    windows = np.lib.stride_tricks.sliding_window_view(values, settings.samples)[:: settings.stride]
    return float(np.median(windows.std(axis=1)))


def _goes_on(before: Array, value: float, settings: FeatureSettings) -> bool:
    """Whether a value may be the next of those before it, and no other level: a sensor is stuck at its last reading.

    A change of level that it may have come with is at most half a window back.
    """
    settled = len(before) - settings.samples // 2
    recent = before[max(0, settled - settings.samples) : max(1, settled)]
    if np.isnan(recent).all():
        return False
    low, high = np.nanmin(recent), np.nanmax(recent)
    margin = _MARGIN * (high - low)
    return bool(low - margin <= value <= high + margin)


def _samples(windows: Ints, number: int, settings: FeatureSettings) -> tuple[int, int]:
    """First sample of successive windows, and the one after their last, of so many."""
    first, last = windows[[0, -1]].tolist()
    return first * settings.stride, min(last * settings.stride + settings.samples, number)


def _standing(changed: Mask, windows: Ints, settings: FeatureSettings) -> tuple[int, int]:
    """From which sample to which a metric stands: windows in which it hardly changes may hold changes at their ends."""
    half = settings.samples // 2
    begin, end = _samples(windows, len(changed), settings)
    before = np.flatnonzero(changed[begin : begin + half])
    after = np.flatnonzero(changed[end - half : end])
    at_end = end - half + int(after[0]) if len(after) and end < len(changed) else end
    return begin + int(before[-1]) if len(before) else begin, at_end


def _believed(still: Sequence[_Change], sensors: dict[str, list[int]], metrics: Sequence[str]) -> Iterator[_Change]:
    """Without those that may just rest, unless their whole sensor does, or is at 0, from the same moment on."""
    column, first, end = (np.array([getattr(c, name) for c in still]) for name in ("column", "first", "end"))
    rests = np.array([c.rests for c in still])
    for change in still:
        beside = (np.abs(first - change.first) <= _SAME) & (np.abs(end - change.end) <= _SAME)
        sensor = sensors[_sensor(metrics[change.column])]
        whole = len(sensor) >= _TOGETHER and bool(np.isin(sensor, column[beside]).all())
        stuck = whole and len(sensor) >= _WHOLE
        if not stuck and whole:
            zeros = [still[c].usual_zero for c in np.flatnonzero(beside).tolist() if still[c].column in sensor]
            stuck = None not in zeros and not all(zeros)
        together = (beside & ~rests).sum() >= _TOGETHER
        if stuck or (not change.rests and (change.alone or together)):
            yield change


def _sensor(metric: str) -> str:
    """What reads a metric: its source, and the instance that it is of."""
    source = re.match(r"[^:]*", metric)
    return f"{source[0] if source else ''} {instance(metric)}"


def _windowed(flags: Mask, settings: FeatureSettings) -> Array:
    """How many of each window's samples are flagged: windows x columns."""
    # metrics lie one after the other, in the telemetry as in what is made of it
    total = np.zeros((len(flags) + 1, flags.shape[1]), dtype=np.int32, order="F")
    np.cumsum(flags, axis=0, out=total[1:])
    return np.asarray((total[settings.samples :] - total[: -settings.samples])[:: settings.stride], dtype=np.float64)
