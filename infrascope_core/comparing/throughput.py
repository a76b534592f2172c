"""How much work a run completes per second, where a metric tells it; which metrics do is in `throughput.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
import polars as pl
import yaml

from infrascope_core.numeric import Array
from infrascope_core.run_files.columns import is_differenced
from infrascope_core.store.lake import fingerprint

_DATA = (resources.files(__package__) / "throughput.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint(_DATA)
"""Changes with what is known of metrics."""


@dataclass(frozen=True)
class Work:
    """A kind of work, and the metrics that tell how much of it is done.

    Attributes
    ----------
    name : str
        What is counted, in the plural.
    rates, totals : tuple of re.Pattern
        Metrics of work per second, and of work done so far.
    """

    name: str
    rates: tuple[re.Pattern[str], ...]
    totals: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=1)
def known_work() -> tuple[Work, ...]:
    """The kinds of `throughput.yaml`."""
    return tuple(
        Work(entry["work"], _patterns(entry["rates"]), _patterns(entry["totals"])) for entry in yaml.safe_load(_DATA)
    )


def _patterns(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


def telling_metrics(metrics: Sequence[str]) -> dict[str, tuple[bool, list[str]]]:
    """By kind of work, whether its metrics are totals, and which they are; kinds without any are left out."""
    found = {}
    for work in known_work():
        for total, pattern in [*((False, p) for p in work.rates), *((True, p) for p in work.totals)]:
            if matches := [metric for metric in metrics if pattern.search(metric)]:
                found[work.name] = total, matches
                break
    return found


def throughputs(telemetry: Sequence[pl.DataFrame]) -> Iterator[tuple[str, float]]:
    """Work per second of a run, by kind.

    Parameters
    ----------
    telemetry : sequence of polars.DataFrame
        A frame a host: `ts`, and a column a metric; at least those of `telling_metrics`.

    Yields
    ------
    tuple of str and float
        A kind of work, and how much of it is done in a second, over all hosts. A kind of which no value is known is
        left out.
    """
    metrics = dict.fromkeys(name for part in telemetry for name in part.columns)
    for work, (total, names) in telling_metrics(list(metrics)).items():
        each = [
            (_growth(part["ts"], part[name], is_differenced(name)) if total else _mean(part[name]))
            for part in telemetry
            for name in names
            if name in part.columns
        ]
        known = [value for value in each if value is not None]
        if known:
            yield work, float(sum(known))


def _mean(values: pl.Series) -> float | None:
    known = _finite(values.cast(pl.Float64).to_numpy())
    return float(known.mean()) if len(known) else None


def _growth(times: pl.Series, values: pl.Series, differenced: bool) -> float | None:
    """Growth of a counter per second between its first and last known value.

    A counter that falls began again at 0, as Prometheus takes it. Of one that the collector differenced, the first
    value is of the time before the run.
    """
    counts = values.cast(pl.Float64).to_numpy()
    known = np.isfinite(counts)
    at = times.dt.timestamp("us").to_numpy()[known] / 1e6
    counts = counts[known]
    if len(counts) < 2 or at[-1] <= at[0]:
        return None
    steps = np.diff(counts)
    grown = counts[1:] if differenced else np.where(steps < 0, counts[1:], steps)
    return float(grown.sum() / (at[-1] - at[0]))


def _finite(values: Array) -> Array:
    known: Array = values[np.isfinite(values)]
    return known
