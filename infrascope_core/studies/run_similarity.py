"""Similarity of a workload's runs: how far each is from the median of the others, by dynamic time warping.

What belongs here: the study behind `run_similarity`, that is traces of equal length, distances, and the test of Reveal,
section 5.4 (docs/adr/0018).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl
from dtaidistance import dtw

from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.numeric import Array
from infrascope_core.run_files.pruned import whole
from infrascope_core.run_files.runs import workloads
from infrascope_core.run_files.telemetry import metric_names
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Tick
from infrascope_core.studies.choice import chosen_runs
from infrascope_core.studies.settings import SimilaritySettings
from infrascope_core.studies.tables import RUN_SIMILARITY

_LEAST_SAMPLES = 8
"""A shorter run has no course to compare."""
_MOST_MISSING = 0.5
"""A trace with a larger share of unknown points than this cannot be compared."""
_TURNS = (3 / 8, 1 / 2, 5 / 8)
"""How far a trace is turned for the reference. For a course that repeats itself two, three or four times in a run, at
least one of them lies between repetitions and outside a band of 10 %; quicker ones the warping takes out anyhow."""


@dataclass(frozen=True)
class Similarity:
    """How alike the traces of a metric are.

    Attributes
    ----------
    runs : int
        Traces compared.
    distance, reference : float
        Medians over runs; see `similarity`.
    p_value : float or None
        None below `least_runs`.
    similar : bool or None
        None where there is no p-value.
    farthest : int
        Position of the trace that is least like the others.
    """

    runs: int
    distance: float
    reference: float
    p_value: float | None
    similar: bool | None
    farthest: int


def resampled(values: Array, points: int) -> Array:
    """Bring a run's metrics to a common length by averaging over equal shares of the run.

    Parameters
    ----------
    values : ndarray, samples x metrics
        NaN is missing.
    points : int
        Length to reach; at most the number of samples is sensible.

    Returns
    -------
    ndarray, points x metrics
        Means of the known samples of each share (piecewise aggregate approximation); a share without any is
        interpolated linearly. A metric known in less than half of the shares is NaN throughout.
    """
    edges = np.linspace(0, len(values), points + 1).round().astype(np.int64)
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    # a share is at least one sample, even where there are fewer samples than points
    first = np.minimum(edges[:-1], len(values) - 1)
    last = np.maximum(edges[1:], first + 1)
    sums, counts = (np.concatenate([np.zeros((1, x.shape[1])), x.cumsum(axis=0)]) for x in (filled, known))
    count = counts[last] - counts[first]
    with np.errstate(invalid="ignore"):
        means: Array = (sums[last] - sums[first]) / count
    gaps = np.isnan(means)
    means[:, gaps.mean(axis=0) > _MOST_MISSING] = np.nan
    place = np.arange(points)
    for column in np.flatnonzero(gaps.any(axis=0) & ~np.isnan(means).all(axis=0)):
        there = ~gaps[:, column]
        means[:, column] = np.interp(place, place[there], means[there, column])
    return means


def similarity(traces: Array, settings: SimilaritySettings) -> Similarity | None:
    """Compare the traces of one metric with the median of the others.

    Parameters
    ----------
    traces : ndarray, runs x points
        In the metric's unit; a run whose trace is NaN is left out.
    settings : SimilaritySettings
        `band`, `least_runs`, `alpha`.

    Returns
    -------
    Similarity or None
        None with fewer than two traces, or where nothing moves.

    Notes
    -----
    Traces are expressed in the metric's location and scale over all of them, so that a difference in level counts.
    The distance is the root mean square difference along the best banded path, in those standard deviations, between
    a run and the pointwise median of the *other* runs: with few runs a run would else be compared with itself. The
    reference is the mean of the same distances of the run's trace turned by about half its length (`_TURNS`): it shares
    every value, and the smoothness, but not the moment at which they occur. The Wilcoxon signed-rank test
    (two-sided) compares the two over runs.
    """
    known = np.flatnonzero(~np.isnan(traces).any(axis=1))
    x = traces[known]
    if len(x) < 2:
        return None
    # about the first value, so that 1e12 and a little noise keep their digits
    x = x - x[0, 0]
    scale = x.std()
    if not scale > 0:
        return None
    z = np.ascontiguousarray((x - x.mean()) / scale)
    n, points = z.shape
    window = max(1, round(settings.band * points))
    turns = [round(points * turn) for turn in _TURNS]
    distance, reference = np.empty(n), np.empty(n)
    for run in range(n):
        others = np.median(np.delete(z, run, axis=0), axis=0)
        distance[run] = _distance(z[run], others, window)
        reference[run] = np.mean([_distance(np.roll(z[run], turn), others, window) for turn in turns])
    p_value = _signed_rank(distance, reference) if n >= settings.least_runs else None
    nearer = float(np.median(distance)) < float(np.median(reference))
    return Similarity(
        runs=n,
        distance=float(np.median(distance)),
        reference=float(np.median(reference)),
        p_value=p_value,
        similar=None if p_value is None else p_value < settings.alpha and nearer,
        farthest=int(known[np.argmax(distance)]),
    )


def _distance(a: Array, b: Array, window: int) -> float:
    """Root mean square difference along the best path within the band."""
    return float(dtw.distance_fast(a, b, window=window, use_pruning=False)) / float(np.sqrt(len(a)))


def _signed_rank(distance: Array, reference: Array) -> float:
    if np.array_equal(distance, reference):
        return 1.0
    from scipy.stats import wilcoxon  # noqa: PLC0415  # its import takes half a second, and only studies need it

    return float(wilcoxon(distance, reference).pvalue)


def compare_runs(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Compare the runs of every workload with their median trace, over the metrics that have features."""
    settings = folder.settings.similarity
    rows: list[dict[str, object]] = []
    found_workloads = workloads(folder)
    for done, ((platform, phase, workload), of_workload) in enumerate(found_workloads):
        tick(done, len(found_workloads))
        runs = whole(folder, of_workload)
        keys = chosen_runs(runs.filter(pl.col("samples") >= _LEAST_SAMPLES), settings.max_runs, settings.random_state)
        points = min([settings.points, *runs.filter(pl.col("run_key").is_in(keys))["samples"]])
        traces = [(key, trace) for key in keys for trace in _traces(folder, key, points)]
        metrics = sorted({metric for _, trace in traces for metric in trace})
        unknown = np.full(points, np.nan)
        for metric in metrics:
            found = similarity(np.stack([trace.get(metric, unknown) for _, trace in traces]), settings)
            if found is not None:
                rows.append(
                    {
                        "platform": platform,
                        "phase": phase,
                        "workload": workload,
                        "metric": metric,
                        **asdict(found),
                        "farthest_run": traces[found.farthest][0],
                    }
                )
    return pl.DataFrame([{k: v for k, v in row.items() if k != "farthest"} for row in rows], RUN_SIMILARITY.schema)


def _traces(folder: DataFolder, key: str, points: int) -> Iterator[dict[str, Array]]:
    """Resampled metrics of each host of a run, those that have features."""
    watched = set(folder.lake.read(WINDOW_FEATURES, key, ["metric"])["metric"].unique())
    for _, telemetry in reanalysed_hosts(folder, key, watched):
        names = [name for name in metric_names(telemetry) if name in watched]
        values = telemetry.select(pl.col(names).cast(pl.Float64)).to_numpy() if names else np.empty((0, 0))
        if len(values):
            yield dict(zip(names, resampled(values, points).T, strict=True))
