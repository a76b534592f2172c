"""Metric selection (Reveal, section 4.1): which of several correlated metrics stands for the others.

What belongs here: Pearson matrices, the choice of representatives, and what the choice costs at other thresholds
(figure 4). docs/adr/0017 explains why clusters are made this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
import polars as pl
import yaml

from infrascope_core.numeric import Array, Ints, Mask, centred, one_thread
from infrascope_core.quality.settings import PruningCurveSettings
from infrascope_core.store.lake import fingerprint

_DATA = (resources.files(__package__) / "priorities.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("1", _DATA)
"""Raise the number when another choice would be made of the same matrices."""
_NO_SPREAD = 1e-10
"""Variance, as a share of the metric's own, that is rounding."""
_LEAST_SAMPLES = 3
"""Two samples always lie on a line."""
_DIGITS = 9
"""Digits to which correlations are kept: choices must not hang on the rounding of a sum."""


def pearson(values: Array) -> Array:
    """Pearson's r of every pair of metrics, over the samples in which both are known.

    Parameters
    ----------
    values : ndarray, samples x metrics
        NaN where missing.

    Returns
    -------
    ndarray, metrics x metrics
        NaN where a metric does not vary over the shared samples, or these are fewer than 3.
    """
    known = np.isfinite(values)
    # metrics that are missing at the same samples share their sums: rates lack the first, most others none
    patterns, pattern = np.unique(np.packbits(known, axis=0), axis=1, return_index=True, return_inverse=True)[1:]
    masks = known[:, patterns].astype(float)
    shared = (masks.T @ masks)[np.ix_(pattern, pattern)]
    with np.errstate(all="ignore"), one_thread():
        x = _standardised(values, known)
        sums, squares = (x.T @ masks)[:, pattern], ((x * x).T @ masks)[:, pattern]
        variance = squares / shared - (sums / shared) ** 2
        variance = np.where((variance > _NO_SPREAD) & (shared >= _LEAST_SAMPLES), variance, np.nan)
        r = (x.T @ x / shared - sums * sums.T / shared**2) / np.sqrt(variance * variance.T)
    r = np.asarray(np.clip(np.round(r, _DIGITS), -1.0, 1.0))
    diagonal = np.diag_indices_from(r)
    r[diagonal] = np.where(np.isfinite(r[diagonal]), 1.0, np.nan)
    return r


def _standardised(values: Array, known: Mask) -> Array:
    """Deviations from a metric's mean in its standard deviations; 0 where missing or constant."""
    _, x = centred(values, known)
    # a first rough scale keeps the squares of what is huge or tiny in range
    x /= np.maximum(x.max(axis=0, initial=0.0), -x.min(axis=0, initial=0.0))
    x /= np.sqrt(np.einsum("ij,ij->j", x, x) / known.sum(axis=0))
    x[~np.isfinite(x)] = 0.0
    return x


@dataclass(frozen=True)
class Correlations:
    """Mean Pearson matrix of a workload.

    Attributes
    ----------
    names : tuple of str
        Metrics, sorted.
    r : ndarray, metrics x metrics
        Mean over the runs in which the pair has a correlation; NaN where none has.
    """

    names: tuple[str, ...]
    r: Array

    @classmethod
    def mean(cls, runs: Iterable[tuple[Sequence[str], Array]]) -> Correlations:
        """Average the matrices of runs, each with its own metrics."""
        matrices = list(runs)
        names = sorted({name for own, _ in matrices for name in own})
        position = {name: i for i, name in enumerate(names)}
        total, count = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
        for own, r in matrices:
            where = np.ix_(*[[position[name] for name in own]] * 2)
            total[where] += np.where(np.isfinite(r), r, 0.0)
            count[where] += np.isfinite(r)
        with np.errstate(invalid="ignore"):
            return cls(tuple(names), np.round(total / count, _DIGITS))

    def of(self, metrics: Iterable[str]) -> Correlations:
        """The part that concerns the metrics which vary in some run and are among the given."""
        wanted = set(metrics)
        varies = np.isfinite(np.diagonal(self.r))
        chosen = [i for i, name in enumerate(self.names) if name in wanted and varies[i]]
        return Correlations(tuple(self.names[i] for i in chosen), self.r[np.ix_(chosen, chosen)])

    def within(self, groups: Mapping[str, str]) -> Correlations:
        """The same, with the pairs unknown whose metrics belong to different groups."""
        group = np.array([groups.get(name, "") for name in self.names])
        return Correlations(self.names, np.where(group[:, None] == group[None, :], self.r, np.nan))


@lru_cache(maxsize=1)
def _priorities() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in yaml.safe_load(_DATA))


@lru_cache(maxsize=65_536)
def priority(metric: str) -> int:
    """Rank of a metric in the fixed priority table (`priorities.yaml`); small goes first."""
    patterns = _priorities()
    return next((rank for rank, pattern in enumerate(patterns) if pattern.search(metric)), len(patterns))


def ranking(correlations: Correlations, priorities: Sequence[int] | None = None) -> Ints:
    """Order in which metrics become representatives.

    By the priority table, then by falling variance of their correlations with the others (the paper's tie-breaking),
    then by name.

    Parameters
    ----------
    correlations : Correlations
        The workload's matrix.
    priorities : sequence of int, optional
        Rank of each metric; by default the table's.
    """
    names = correlations.names
    ranks = [priority(name) for name in names] if priorities is None else priorities
    others = correlations.r.copy()
    np.fill_diagonal(others, np.nan)
    known = np.isfinite(others)
    count = np.maximum(known.sum(axis=1), 1)
    filled = np.where(known, others, 0.0)
    mean = filled.sum(axis=1) / count
    variance = np.round((np.where(known, others - mean[:, None], 0.0) ** 2).sum(axis=1) / count, _DIGITS)
    return np.lexsort((np.arange(len(names)), -variance, np.asarray(ranks, dtype=int)))


def representatives(r: Array, order: Ints, max_correlation: float) -> Ints:
    """For every metric, the one that stands for it; itself if it is kept.

    Greedy, in the order given: the first metric that nobody stands for is kept, and stands for all those left whose
    |r| with it is above the threshold. So no two kept metrics are correlated above the threshold, and each redundant
    one is correlated above it with its own representative, not through a chain of others.

    Parameters
    ----------
    r : ndarray, metrics x metrics
        NaN counts as not correlated.
    order : ndarray of int
        All metrics, the best representative first.
    max_correlation : float
        The threshold on |r|.
    """
    strong = np.nan_to_num(np.abs(r)) > max_correlation
    standing = np.full(len(order), -1)
    for metric in order:
        if standing[metric] < 0:
            standing[strong[metric] & (standing < 0)] = metric
            standing[metric] = metric
    return standing


def select(workloads: Mapping[str, Correlations], max_correlation: float) -> pl.DataFrame:
    """Which metrics are redundant: those that every workload in which they vary has somebody to stand for.

    Parameters
    ----------
    workloads : mapping
        Matrix of the candidates by workload.
    max_correlation : float
        The threshold on |r|.

    Returns
    -------
    pl.DataFrame
        metric, represented_by, correlation, workload: a row per redundant metric, with its representative where |r|
        is largest. A representative is never redundant itself.
    """
    rows = []
    kept: set[str] = set()
    for workload, correlations in sorted(workloads.items()):
        standing = representatives(correlations.r, ranking(correlations), max_correlation)
        for metric, by in enumerate(standing.tolist()):
            if by == metric:
                kept.add(correlations.names[metric])
            else:
                r = float(correlations.r[metric, by])
                rows.append((correlations.names[metric], correlations.names[by], r, workload))
    schema = {"metric": pl.String, "represented_by": pl.String, "correlation": pl.Float64, "workload": pl.String}
    redundant = pl.DataFrame(rows, schema=schema, orient="row").filter(~pl.col("metric").is_in(sorted(kept)))
    strongest = redundant.sort(-pl.col("correlation").abs(), "workload").unique("metric", maintain_order=True)
    return strongest.sort("metric")


def pruning_curve(
    correlations: Correlations, settings: PruningCurveSettings, groups: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """What selection keeps of a workload's metrics at each threshold (Reveal, figure 4).

    Parameters
    ----------
    correlations : Correlations
        The workload's matrix; undefined pairs count as uncorrelated.
    settings : PruningCurveSettings
        The thresholds, and the shrinkage of the matrix.
    groups : mapping, optional
        Group of each metric, where only a metric of the same group may stand for another; what is left is measured on
        all pairs all the same.

    Returns
    -------
    pl.DataFrame
        threshold, metrics (no more than `most_metrics`), selected_ratio, mean_max_r, multi_r2. The last two are means
        over all metrics, kept or not, of the largest |r| with another kept metric, and of the R2 of its linear
        regression on the other kept metrics. With S = (1 - shrinkage) R + shrinkage I of the kept ones, R2 is
        1 - 1 / inv(S)[i, i] for a kept metric, and s' inv(S) s for another one, s being its shrunk correlations with
        the kept. A mean of matrices whose pairs were known in different runs need not be a correlation matrix: R is the
        mean with its negative eigenvalues set to 0 and its diagonal brought back to 1.
    """
    if len(correlations.names) > settings.most_metrics:
        chosen = np.linspace(0, len(correlations.names) - 1, settings.most_metrics).astype(int)
        correlations = Correlations(
            tuple(correlations.names[place] for place in chosen), correlations.r[np.ix_(chosen, chosen)]
        )
    size = len(correlations.names)
    selectable = correlations if groups is None else correlations.within(groups)
    order = ranking(selectable)
    r = np.nan_to_num(correlations.r)
    np.fill_diagonal(r, 1.0)
    others = np.abs(r) - 2 * np.eye(size)
    rows = []
    with one_thread():
        shrunk = (1 - settings.shrinkage) * _positive(r) + settings.shrinkage * np.eye(size)
        for threshold in np.linspace(settings.lowest, settings.highest, settings.thresholds).round(_DIGITS):
            standing = representatives(selectable.r, order, float(threshold))
            kept = standing == np.arange(size)
            if not kept.any():
                continue
            strongest = np.maximum(others[:, kept].max(axis=1), 0.0)
            inverse = np.linalg.inv(shrunk[np.ix_(kept, kept)])
            across = shrunk[np.ix_(~kept, kept)]
            r2 = np.empty(size)
            r2[kept] = 1 - 1 / np.diagonal(inverse)
            r2[~kept] = np.einsum("ij,jk,ik->i", across, inverse, across, optimize=True)
            r2 = np.clip(r2, 0.0, 1.0)
            rows.append((float(threshold), size, float(kept.mean()), float(strongest.mean()), float(r2.mean())))
    schema = {
        "threshold": pl.Float64,
        "metrics": pl.Int64,
        "selected_ratio": pl.Float64,
        "mean_max_r": pl.Float64,
        "multi_r2": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.col("selected_ratio", "mean_max_r", "multi_r2").round(_DIGITS)
    )


def _positive(r: Array) -> Array:
    """The matrix without its negative eigenvalues, scaled to a diagonal of 1."""
    values, vectors = np.linalg.eigh(r)
    if not values.size or values[0] >= 0:
        return r
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T
    scale = np.sqrt(np.maximum(np.diagonal(raised), 1e-12))
    return np.asarray(raised / np.outer(scale, scale))
