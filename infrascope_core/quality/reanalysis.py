"""Reanalysis of raw telemetry (Reveal, section 3.1 and appendix B): cumulative counters as rates, and derived metrics.

What belongs here: arithmetic on the samples of one run, and the reading of `derived.yaml`. Which metrics are
cumulative is decided over many runs (`sql/catalog.sql`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

import numpy as np
import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from infrascope_core.numeric import Array
from infrascope_core.run_files.columns import catalogue_name, is_differenced, unit
from infrascope_core.run_files.telemetry import KEY_COLUMNS, metric_names, split_hosts
from infrascope_core.store.lake import fingerprint

_DATA = (resources.files(__package__) / "derived.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("1", _DATA)
"""Raise the number when the reanalysis of the same telemetry would differ."""
DERIVED = "Derived"
"""Source of derived metrics, as in `Derived:IPC[-]`."""
_MODULI = (2.0**32, 2.0**64)


class Formula(BaseModel):
    """A derived metric: `scale * (sum of plus - sum of minus) / sum of over`, as `derived.yaml` explains."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    unit: str
    words: str
    parts: dict[str, str]
    plus: tuple[str, ...] = Field(min_length=1)
    minus: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    scale: float = 1.0
    per_second: bool = False
    instances: Literal["each", "sum"] = "each"
    unless: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _parts_are_known(self) -> Formula:
        known = {part.removesuffix("?") for part in self.parts}
        unknown = {*self.plus, *self.minus, *self.over} - known
        if unknown:
            raise ValueError(f"the formula {self.name} uses {sorted(unknown)[0]!r}, which is none of its parts")
        for pattern in (*self.parts.values(), *self.unless):
            re.compile(pattern)
        return self


class _Reanalysis(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    levels: frozenset[str]
    formulas: tuple[Formula, ...]


@lru_cache(maxsize=1)
def _data() -> _Reanalysis:
    return _Reanalysis.model_validate(yaml.safe_load(_DATA))


def formulas() -> tuple[Formula, ...]:
    """The derived metrics of `derived.yaml`."""
    return _data().formulas


def level_units() -> frozenset[str]:
    """Units of levels, shares and rates: what bears one is no cumulative counter and counts no events."""
    return _data().levels


@dataclass(frozen=True)
class Plan:
    """What is done to telemetry.

    Attributes
    ----------
    rates : frozenset of str
        Cumulative counters, named as the catalogue names them.
    names : str
        `metric` or `column`: how the catalogue names metrics (`recipes.Recipe.names`).
    """

    rates: frozenset[str] = frozenset()
    names: str = "metric"

    def is_rate(self, metric: str, host: str) -> bool:
        """Whether a metric of a host is a cumulative counter."""
        return catalogue_name(metric, host, self.names) in self.rates


@dataclass(frozen=True)
class Derivation:
    """A formula on the columns of one host: the derived metric, and the columns of each part."""

    metric: str
    formula: Formula
    columns: dict[str, tuple[str, ...]]

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that it reads, each once."""
        return tuple(dict.fromkeys(name for columns in self.columns.values() for name in columns))


def derivations(metrics: Sequence[str]) -> list[Derivation]:
    """Derived metrics that a host with these metrics gets: it lacks them and holds their parts.

    Parameters
    ----------
    metrics : sequence of str
        Host-free metric names of one host.
    """
    return list(_derivations(tuple(metrics)))


@lru_cache(maxsize=64)
def _derivations(metrics: tuple[str, ...]) -> tuple[Derivation, ...]:
    found: dict[str, Derivation] = {}
    for formula in formulas():
        if any(re.search(pattern, metric, re.IGNORECASE) for pattern in formula.unless for metric in metrics):
            continue
        for derivation in _instances(formula, metrics):
            # the first formula of a name wins, and a column of the file always does
            if derivation.metric not in metrics:
                found.setdefault(derivation.metric, derivation)
    return tuple(found.values())


def _instances(formula: Formula, metrics: Sequence[str]) -> Iterable[Derivation]:
    """The formula on every instance for which all required parts are there."""
    columns: dict[str, dict[str, list[str]]] = {}
    for part, pattern in formula.parts.items():
        search = re.compile(pattern, re.IGNORECASE).search
        for metric in metrics:
            if match := search(metric):
                instance = "" if formula.instances == "sum" else match.groupdict().get("instance") or ""
                columns.setdefault(instance, {}).setdefault(part.removesuffix("?"), []).append(metric)
    required = {part for part in formula.parts if not part.endswith("?")}
    for instance, parts in columns.items():
        if required <= set(parts) and (formula.instances == "sum" or all(len(p) == 1 for p in parts.values())):
            suffix = f".{instance}" if instance else ""
            name = f"{DERIVED}:{formula.name}{suffix}[{formula.unit}]"
            yield Derivation(name, formula, {part: tuple(names) for part, names in parts.items()})


def reanalyse(telemetry: pl.DataFrame, plan: Plan, derived: Sequence[Derivation] | None = None) -> pl.DataFrame:
    """Telemetry in which cumulative counters are rates and derived metrics are added.

    Parameters
    ----------
    telemetry : pl.DataFrame
        run_key, host, sample, ts, then one column per metric; the rows of one run.
    plan : Plan
        Which metrics are cumulative.
    derived : sequence of Derivation, optional
        What to derive, where it is not all that can be: for telemetry of which not all columns were read.

    Returns
    -------
    pl.DataFrame
        The same rows and metrics under the same names, those of the plan per second; then the derived metrics
        (`Derived:...`). What is not known is null: a rate at a run's first sample or at a reset, a ratio whose
        denominator is 0, a derived metric where a part is missing.
    """
    hosts = split_hosts(telemetry)
    if len(hosts) <= 1:
        return _of_host(telemetry, plan, derived) if hosts else telemetry
    return pl.concat([_of_host(part, plan, derived) for part in hosts], how="diagonal")


def _of_host(telemetry: pl.DataFrame, plan: Plan, derived: Sequence[Derivation] | None) -> pl.DataFrame:
    host, metrics = str(telemetry["host"][0]), metric_names(telemetry)
    seconds = (telemetry["ts"] - telemetry["ts"][0]).dt.total_microseconds().to_numpy() / 1e6
    cumulative = [metric for metric in metrics if plan.is_rate(metric, host)]
    changes = rates(matrix(telemetry, cumulative), seconds)
    columns = {name: changes[:, i] for i, name in enumerate(cumulative)}
    for derivation in derivations(metrics) if derived is None else derived:
        if set(derivation.sources) <= set(metrics):
            values = _evaluate(derivation, telemetry, seconds, frozenset(cumulative))
            columns |= {} if values is None else {derivation.metric: values}
    return telemetry.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())


def matrix(telemetry: pl.DataFrame, metrics: Sequence[str]) -> Array:
    """Samples x metrics; missing and infinite values are NaN."""
    if not metrics:
        return np.empty((telemetry.height, 0))
    values = telemetry.select(pl.col(metrics).cast(pl.Float64)).to_numpy()
    return np.where(np.isfinite(values), values, np.nan)


def _evaluate(
    derivation: Derivation, telemetry: pl.DataFrame, seconds: Array, cumulative: frozenset[str]
) -> Array | None:
    """Values of a derived metric, NaN where missing; None where the parts' meaning is not known."""
    formula, sources = derivation.formula, derivation.sources
    values = matrix(telemetry, sources)
    differenced = np.array([is_differenced(name) for name in sources])
    counts = ~differenced & bool(cumulative & set(sources))
    per_second = np.array([unit(name).endswith("/s") for name in sources])
    if formula.per_second and not (differenced | counts | per_second).all():
        return None
    values[:, counts] = rates(values[:, counts], seconds)
    if formula.per_second:
        with np.errstate(all="ignore"):
            values[:, differenced] /= _elapsed(seconds)[:, None]
    position = {name: i for i, name in enumerate(sources)}

    def total(parts: tuple[str, ...]) -> Array:
        chosen = [position[name] for part in parts for name in derivation.columns.get(part, ())]
        return np.asarray(values[:, chosen].sum(axis=1))

    result = formula.scale * (total(formula.plus) - total(formula.minus))
    if formula.over:
        with np.errstate(all="ignore"):
            result = result / total(formula.over)
    return np.where(np.isfinite(result), result, np.nan)


def _elapsed(seconds: Array) -> Array:
    """Seconds since the sample before; NaN for the first, and where no time has passed."""
    elapsed = np.diff(seconds, prepend=np.nan)
    return np.where(elapsed > 0, elapsed, np.nan)


def rates(values: Array, seconds: Array) -> Array:
    """Change per second of cumulative counters since their last known value.

    Parameters
    ----------
    values : ndarray, samples x metrics
        Counter values, NaN where missing.
    seconds : ndarray, samples
        Time of the samples.

    Returns
    -------
    ndarray, samples x metrics
        NaN where there is no value, none before, or no time has passed. A fall is a wrap-around at 2^32 or 2^64 if the
        wrapped difference is no faster than the fastest ordinary step of the counter in this run; otherwise it is a
        reset, whose rate is not known. A value that leaps back over the highest one seen before, faster than any
        ordinary step, ends a disturbed reading; that rate is not known either.
    """
    if not values.size:
        return np.full(values.shape, np.nan)
    known = np.isfinite(values)
    index = np.where(known, np.arange(len(values))[:, None], -1)
    last = np.vstack([np.full((1, values.shape[1]), -1), np.maximum.accumulate(index, axis=0)[:-1]])
    highest = np.maximum.accumulate(np.where(known, values, -np.inf), axis=0)
    with np.errstate(all="ignore"):
        before = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), np.nan)
        record = np.take_along_axis(highest, np.maximum(last, 0), axis=0)
        elapsed = seconds[:, None] - seconds[np.maximum(last, 0)]
        elapsed = np.where((last >= 0) & (elapsed > 0), elapsed, np.nan)
        rate = (values - before) / elapsed
        fall, leap = rate < 0, (before < record) & (values >= record)
        ordinary = np.isfinite(rate) & ~fall & ~leap
        fastest = np.where(ordinary, rate, -np.inf).max(axis=0)
        modulus = np.where(before < _MODULI[0], *_MODULI)
        wrapped = (modulus - before + values) / elapsed
        rate = np.where(fall, np.where(wrapped <= fastest, wrapped, np.nan), rate)
        rate = np.where(leap & ~(rate <= fastest), np.nan, rate)
    return np.asarray(rate)


def needed(metrics: Sequence[str], wanted: Iterable[str]) -> list[str]:
    """Columns of a host that must be read to have the wanted metrics after reanalysis, in the host's order.

    Parameters
    ----------
    metrics : sequence of str
        Metrics that the host's telemetry has.
    wanted : iterable of str
        Metrics of the reanalysed telemetry; names that are neither columns nor derived from any are ignored.
    """
    asked = set(wanted)
    by_name = {derivation.metric: derivation.sources for derivation in derivations(metrics)}
    asked |= {source for name in asked & set(by_name) for source in by_name[name]}
    return [name for name in metrics if name in asked and name not in KEY_COLUMNS]
