"""What a window costs: seconds for its features, each detector, and its reasons.

What belongs here: the study behind `detector_latency` (Reveal, section 5.3), of this machine at this moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import polars as pl

from infrascope_core.anomalies.attribution import reasons
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.features import window_features
from infrascope_core.anomalies.reference_runs import baseline_of
from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.anomalies.scoring import score
from infrascope_core.numeric import Array
from infrascope_core.quality.trust import plan_of_platform
from infrascope_core.run_files.pruned import whole
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.telemetry import metric_names
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Tick
from infrascope_core.studies.tables import DETECTOR_LATENCY

PAPER = {"features": 1.46, "zscore": 0.0011, "mahalanobis": 0.015, "isolation_forest": 0.08}
"""Seconds per window in Reveal, section 5.3: about 700 channels with tsfresh, on its authors' machines."""

Clock = Callable[[], float]


def repeated(telemetry: pl.DataFrame, samples: int) -> pl.DataFrame:
    """The rows of one host's telemetry over and over, until there are that many."""
    rows = telemetry[np.arange(samples) % telemetry.height]
    return rows.with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64))


def detector_latency(
    telemetry: pl.DataFrame,
    baseline: Baseline,
    settings: Settings,
    *,
    classes: Mapping[str, str] | None = None,
    clock: Clock = time.perf_counter,
) -> pl.DataFrame:
    """Measure every stage at every batch size.

    Parameters
    ----------
    telemetry : polars.DataFrame
        Of one run and host that the baseline judges; repeated where it is shorter than the largest batch.
    baseline : Baseline
        Fitted detectors.
    settings : Settings
        `features`, `detectors`, and `latency`: batches and rounds.
    classes : mapping of str to str, optional
        Class of a metric: which features it has (`window_features`).
    clock : callable
        Seconds.

    Returns
    -------
    polars.DataFrame
        Table `detector_latency`. `features` goes from samples to the table of features, `deviations` from the
        table of features to residuals against the most similar reference windows, a detector from there to its scores,
        `all_detectors` from the table of features to the table of scores and flags, deviations included; `reasons`
        from residuals and scores to the table of reasons, as if every window were flagged. The products judge windows
        once, so that features, `all_detectors` and `reasons` add up to what a window costs. A first round, which pays
        for what is paid once, does not count.
    """
    metrics = sorted({metric for metric, _ in baseline.names} & set(telemetry.columns))
    rows = []
    for batch in settings.latency.batches:
        samples = repeated(telemetry, settings.features.samples + (batch - 1) * settings.features.stride)
        cut: Callable[[], pl.DataFrame] = partial(window_features, samples, settings.features, metrics, classes)
        stages = [("features", cut), *_stages(cut(), baseline, settings)]
        for stage, work in stages:
            seconds = _timed(work, settings.latency.rounds, clock) / batch
            rows.append(
                {
                    "platform": baseline.identity.platform,
                    "stage": stage,
                    "batch": batch,
                    "metrics": len(metrics),
                    "seconds": float(np.median(seconds)),
                    "spread": float(np.std(seconds, ddof=1)),
                    "paper": PAPER.get(stage),
                }
            )
    return pl.DataFrame(rows, schema=DETECTOR_LATENCY.schema)


def _stages(features: pl.DataFrame, baseline: Baseline, settings: Settings) -> list[tuple[str, Callable[[], object]]]:
    """What is timed after the features, with its inputs at hand."""
    residuals = baseline.judge(features)
    names = [d.name for d in baseline.detectors]
    flagged = score(baseline, residuals).with_columns(
        agreement=pl.lit(len(names), pl.Int64), flagged_by=pl.lit(names, pl.List(pl.String))
    )
    return [
        ("deviations", partial(baseline.judge, features)),
        *((d.name, partial(d.score, residuals.of_kind(d.sees))) for d in baseline.detectors),
        ("all_detectors", lambda: score(baseline, baseline.judge(features))),
        ("reasons", lambda: reasons(baseline, residuals, flagged, settings.detectors)),
    ]


def _timed(work: Callable[[], object], rounds: int, clock: Clock) -> Array:
    """Seconds of each round, after one that does not count."""
    work()
    seconds = []
    for _ in range(rounds):
        start = clock()
        work()
        seconds.append(clock() - start)
    return np.array(seconds)


def measure_latency(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Time features, detectors and reasons on the longest run of each platform that has samples and a baseline."""
    parts = [DETECTOR_LATENCY.empty()]
    runs = whole(folder, accepted(folder)).sort("platform", "samples", "run_key", descending=[False, True, False])
    for (platform,), of_platform in runs.group_by("platform", maintain_order=True):
        baselines = ((str(key), baseline_of(folder, str(key))) for key in of_platform["run_key"])
        key, baseline = next((pair for pair in baselines if pair[1] is not None), ("", None))
        if baseline is None:
            continue
        host, telemetry = next(reanalysed_hosts(folder, key, {metric for metric, _ in baseline.names}))
        watched = plan_of_platform(folder, str(platform)).of_host(metric_names(telemetry), host)
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(detector_latency(telemetry, baseline, folder.settings, classes=classes))
        tick(len(parts) - 1, runs["platform"].n_unique())
    return pl.concat(parts)
