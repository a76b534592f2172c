"""Sustained deviation: how far the most deviating metrics are out of their own range, for some time.

Reveal's three detectors look at all features of one window at once; a fault that moves one metric in a hundred drowns
in the others, and one that moves it little drowns in the noise of a window. These look at each metric by itself, and
at deviations that persist: moving averages (Roberts, Technometrics 1959), each feature's held against the largest that
the baseline has. A metric deviates as its three most deviating features do. The score is the geometric mean over the
most deviating metrics: one metric far out of its range counts less than several that are somewhat out of theirs. What
is measured several times counts no more than twice: metrics that move together in the baseline (a GPU's clocks, what
memory is used for), and the counters of one core, since a thread that runs on another core than before is no fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.sparse.csgraph import connected_components

from infrascope_core.anomalies.detectors.base import Detector, Group
from infrascope_core.anomalies.residuals import Kind
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.numeric import Array, Arrays, Ints, Mask, one_thread, quantiles, stored_array, thinned
from infrascope_core.run_files.columns import instance, subsystem

_LEAST_RATIO = 1e-3
_LEAST_RANGE = 0.3
"""A feature's own range is at least this, in scales: one that hardly ever moved is not out of range once it moves."""
_ALIKE = 0.9
"""Correlation from which two metrics say one thing ..."""
_COUNTED = 2
"""... and how many of those that do are counted."""
_FEWEST, _MOST = 20, 1_000
"""Windows from which correlations can be told, and more than which tell no more."""

_FEATURES = 3
"""How many features, the most deviating ones, say how far a metric deviates."""


class SustainedDeviation(Detector):
    """Score is the geometric mean, over the most deviating metrics, of each one's deviation over its own range.

    They share the score in proportion to their ratios, and a metric's share is split over its features in proportion
    to their ratios.

    Parameters
    ----------
    metrics : sequence of str
        Metric of each feature; the features of a metric lie together.
    top : int
        How many metrics are averaged, the most deviating ones; all if there are fewer.
    own_range : float
        Quantile that stands for the largest deviation where a run was compared with itself.
    """

    name: ClassVar[str] = "peaks"
    label: ClassVar[str] = "PEAKS"
    about: ClassVar[str] = "sustained deviation of the most deviating metrics, each over its own range"
    sees: ClassVar[Kind] = "smoothed"
    group: ClassVar[Group] = "single metrics"
    folds: ClassVar[int] = 10

    def __init__(self, metrics: Sequence[str] = (), top: int = 8, own_range: float = 0.97) -> None:
        self.top = top
        self.own_range = own_range
        change = [i for i, metric in enumerate(metrics) if i == 0 or metric != metrics[i - 1]]
        self.starts: Ints = np.array(change, dtype=np.int64)
        self.core: Ints = np.array([_core(metrics[i]) for i in change], dtype=np.int64)
        self.alike: Ints = np.arange(len(change))
        self.range: Array = np.zeros(0)

    @classmethod
    def of(cls, settings: DetectorSettings, metrics: Sequence[str]) -> Self:
        """One that looks at `peak_metrics` metrics."""
        return cls(metrics, settings.peak_metrics, settings.own_range)

    def state(self) -> Arrays:
        """Each metric's first feature, core and group, each feature's own range, and how many metrics are averaged."""
        of_metrics = {"starts": self.starts, "core": self.core, "alike": self.alike}
        return {**of_metrics, "range": self.range, "top": np.array([self.top])}

    @classmethod
    def from_state(cls, state: Arrays, features: int) -> Self:
        """Make one from its ranges; ValueError if they do not fit the metrics."""
        (top,) = stored_array(state, "top", np.int64, (1,)).tolist()
        fitted = cls(top=top)
        fitted.starts = stored_array(state, "starts", np.int64, (None,))
        fitted.core = stored_array(state, "core", np.int64, fitted.starts.shape)
        fitted.alike = stored_array(state, "alike", np.int64, fitted.starts.shape)
        fitted.range = stored_array(state, "range", np.float64, (features,))
        rising = fitted.starts.size > 0 and fitted.starts[0] == 0 and (np.diff(fitted.starts) > 0).all()
        if not rising or fitted.starts[-1] >= features or not (fitted.range > 0).all() or top < 1:
            raise ValueError("the metrics and their ranges do not fit together")
        return fitted

    def ratios(self, z: Array, of: Ints | None = None) -> Array:
        """Deviation of each metric over its own range: windows x metrics; above 1 is out of range.

        Parameters
        ----------
        z : ndarray, windows x features
            Residuals.
        of : ndarray of int, optional
            The metrics that are asked for, all by default.
        """
        wanted = np.arange(len(self.starts)) if of is None else of
        sizes = np.diff([*self.starts, z.shape[1]])[wanted]
        by_metric = np.empty((len(z), len(wanted)))
        for size in np.unique(sizes):
            metrics = np.flatnonzero(sizes == size)
            columns = self.starts[wanted[metrics]][:, None] + np.arange(size)
            ratio = self._of_features(z[:, columns], columns)
            top = min(_FEATURES, int(size))
            ratio.partition(size - top, axis=2)
            by_metric[:, metrics] = ratio[:, :, size - top :].mean(axis=2)
        return by_metric

    def of_features(self, by_metric: Array, z: Array) -> Array:
        """Split values of windows x metrics over the metrics' features, in proportion to their ratios."""
        size = self._of_features(z)
        total = np.add.reduceat(size, self.starts, axis=1)
        per_unit = np.divide(by_metric, total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(size * np.repeat(per_unit, np.diff([*self.starts, z.shape[1]]), axis=1))

    def _of_features(self, z: Array, columns: Ints | slice = slice(None)) -> Array:
        ratio = np.abs(z) / self.range[columns]
        ratio[np.isnan(ratio)] = 0.0
        return np.asarray(ratio)

    def _fit(self, z: Array, run: Ints) -> None:
        size = np.abs(z)
        largest = size.max(axis=0) if run.min() < run.max() else quantiles(size, (self.own_range,))[0]
        self.range = np.maximum(largest, _LEAST_RANGE)
        self.alike = _alike(thinned(z, _MOST)[:, self.starts])

    def _counted(self, z: Array) -> Array:
        """Ratios of windows x metrics; 0 for what others that say the same say louder."""
        ratio = self.ratios(z)
        for crowds in self._crowds:
            own = ratio[:, crowds]
            quieter = np.argpartition(own, -_COUNTED, axis=2)[:, :, :-_COUNTED]
            np.put_along_axis(own, quieter, 0.0, axis=2)
            ratio[:, crowds] = own
        return ratio

    @cached_property
    def _crowds(self) -> list[Ints]:
        """Metrics of which no more than a few are counted, crowds x metrics: cores, then groups of those alike.

        Crowds of one size, which have no metric in common, are dealt with at once.
        """
        stacks = []
        for of in (self.core, self.alike):
            order = np.argsort(of, kind="stable")[(of < 0).sum() :]
            crowds = np.split(order, np.flatnonzero(np.diff(of[order])) + 1)
            sizes = {len(crowd) for crowd in crowds if len(crowd) > _COUNTED}
            stacks += [np.stack([crowd for crowd in crowds if len(crowd) == size]) for size in sorted(sizes)]
        return stacks

    def _score(self, z: Array, known: Mask) -> Array:
        return self._mean_of_largest(self._counted(z))

    def _mean_of_largest(self, ratio: Array) -> Array:
        top = min(self.top, ratio.shape[1])
        largest = np.partition(ratio, -top, axis=1)[:, -top:]
        return np.asarray(np.exp(np.log(np.maximum(largest, _LEAST_RATIO)).mean(axis=1)))

    def _explain(self, z: Array, known: Mask) -> Array:
        ratio = self._counted(z)
        top = min(self.top, ratio.shape[1])
        rank = np.argsort(-ratio, axis=1, kind="stable")[:, :top]
        counted = np.zeros_like(ratio)
        np.put_along_axis(counted, rank, np.take_along_axis(ratio, rank, axis=1), axis=1)
        total = counted.sum(axis=1, keepdims=True)
        share = np.divide(counted, total, out=np.zeros_like(counted), where=total > 0)
        scored = np.where(total[:, 0] > 0, self._mean_of_largest(ratio), 0.0)
        return self.of_features(share * scored[:, None], z)


def _core(metric: str) -> int:
    """Number of the core that a metric is of; -1 if it is of none."""
    number = instance(metric.partition(" ")[0])
    return int(number) if number.isdigit() and subsystem(metric) == "CPU" else -1


def _alike(z: Array) -> Ints:
    """Number of each column's group: those that are correlated, and with what these are correlated with."""
    groups = np.arange(z.shape[1])
    if len(z) < _FEWEST:
        return groups
    centred = (z - z.mean(axis=0)).astype(np.float32)
    length = np.sqrt((centred * centred).sum(axis=0))
    moving = np.flatnonzero(length > 0)
    unit = centred[:, moving] / length[moving]
    with one_thread():
        _, number = connected_components(np.abs(unit.T @ unit) >= _ALIKE, directed=False)
    groups[moving] = z.shape[1] + number
    return groups


class BriefDeviation(SustainedDeviation):
    """The same over a few windows: what is over before an average has noticed it."""

    name: ClassVar[str] = "bursts"
    label: ClassVar[str] = "BURSTS"
    about: ClassVar[str] = "brief deviation of the most deviating metrics, each over its own range"
    sees: ClassVar[Kind] = "brief"
