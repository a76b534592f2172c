"""What limits a verdict: data, length and baseline of a run, in one sentence each; and what nothing watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import polars as pl

from infrascope_core.quality.metrics import INTERVAL
from infrascope_core.reports.evidence import PRESENCE, ComparedWith, Evidence
from infrascope_core.reports.model import Unwatched
from infrascope_core.reports.settings import ReportSettings
from infrascope_core.reports.wording import count, duration, named
from infrascope_core.run_files.columns import SUBSYSTEMS, subsystem


def limits_of(
    evidence: Evidence,
    compared: ComparedWith | None,
    settings: ReportSettings,
    *,
    window_samples: int,
    least_windows: int,
    pattern_window_s: float,
) -> list[str]:
    """One sentence for each thing that limits the verdict; what prevents one comes first."""
    return [
        *_obstacles(evidence, compared, window_samples, least_windows),
        *_limits_of_length(evidence.features, settings),
        *(_limits_of_baseline(evidence.run, compared) if compared else ()),
        *_limits_of_sampling(evidence.run, pattern_window_s, window_samples),
        *_limits_of_data(evidence, settings),
    ]


def _obstacles(
    evidence: Evidence, compared: ComparedWith | None, window_samples: int, least_windows: int
) -> Iterator[str]:
    run, quality = evidence.run, evidence.quality.filter(pl.col("metric") != INTERVAL)
    windows, samples = evidence.windows, run.get("samples") or 0
    if not windows and samples < window_samples:
        yield f"The run has {count(samples, 'sample')}, fewer than the {window_samples} of one window."
    elif not windows:
        verdicts = quality["verdict"].value_counts().sort("count", "verdict", descending=[True, False]).iter_rows()
        kinds = ", ".join(f"{n} {verdict}" for verdict, n in verdicts)
        number = count(quality["metric"].n_unique(), "metric")
        yield f"None of the run's {number} can be used{f' (in this run: {kinds})' if kinds else ''}."
    elif compared is None:
        yield (
            f"There is no baseline for {run.get('phase')} {run.get('workload')} on {run.get('platform')}: "
            + (
                f"the run has {windows} of the {least_windows} windows that one takes."
                if windows < least_windows
                else "the workload is new."
            )
        )
    elif compared.alone and evidence.scores["anomalous"].null_count():
        yield (
            f"There is no other run of {run.get('phase')} {run.get('workload')} on {run.get('platform')} to judge this "
            "one by: it takes 1 more. Compared with itself alone, what comes and goes can stand out, what lasts cannot."
        )
    elif evidence.scores["anomalous"].null_count() == evidence.scores.height:
        yield "The baseline shares no metric with the run."


def _limits_of_length(features: pl.DataFrame, settings: ReportSettings) -> Iterator[str]:
    for host, number in features.group_by("host").agg(pl.col("window").n_unique()).sort("host").iter_rows():
        if number == 1:
            yield f"{host} has one window only: nothing in the run can be compared with it."
        elif number < settings.few_windows:
            yield f"{host} has {number} windows only: a short disturbance fills a large part of them."


def _limits_of_baseline(run: Mapping[str, Any], compared: ComparedWith) -> Iterator[str]:
    if not compared.own:
        yield (
            f"{run.get('phase')} {run.get('workload')} has no baseline of its own and is judged by all workloads on "
            f"{run.get('platform')}: what is peculiar to it may count as abnormal."
        )
    if compared.alone and compared.past:
        yield "The baseline is made of this run alone: what lasts from its beginning to its end looks normal."
    if compared.hosts is not None and run.get("host") not in compared.hosts:
        yield (
            f"No run of the baseline is from {run.get('host')}: what is peculiar to its hardware makes it differ as a "
            "whole."
        )


def _limits_of_sampling(run: Mapping[str, Any], pattern_window_s: float, window_samples: int) -> Iterator[str]:
    interval_s = run.get("interval_s")
    if interval_s is not None and interval_s > pattern_window_s:
        window = duration(timedelta(seconds=window_samples * interval_s))
        yield (
            f"There is a sample every {duration(timedelta(seconds=interval_s))} only: what is shorter does not show, "
            f"a window of patterns is one sample, and one of the detectors is {window_samples} samples, which take "
            f"{window}."
        )


def _limits_of_data(evidence: Evidence, settings: ReportSettings) -> Iterator[str]:
    vanished = _vanished(evidence.features, settings)
    if vanished:
        yield f"{count(len(vanished), 'metric')} stopped before the end: {named(vanished, settings.names)}."
    quality = evidence.quality.filter(pl.col("metric") != INTERVAL)
    infinite = quality.filter(pl.col("infinite") > 0)["metric"].unique().sort().to_list()
    if infinite:
        names = named(infinite, settings.names)
        yield f"Infinite values in {count(len(infinite), 'metric')} count as missing: {names}."
    gaps = evidence.quality.filter((pl.col("metric") == INTERVAL) & (pl.col("verdict") == "gaps")).sort("host")
    for host, lost, repeated in gaps.select("host", "missing", "zeros").iter_rows():
        yield (
            f"The sampling on {host} has gaps ({count(lost or 0, 'sample')} lost, {repeated or 0} repeated): "
            "windows beside them cover more time than others."
        )


def _vanished(features: pl.DataFrame, settings: ReportSettings) -> list[str]:
    """Metrics that had values in the run and have none in its last part."""
    until = pl.col("window") + pl.col("windows") - 1
    seen = until.filter(pl.col(PRESENCE).is_not_null())
    return (
        features.with_columns(last=until.max().over("host"), number=pl.col("window").n_unique().over("host"))
        .group_by("host", "metric")
        .agg(seen.max().alias("seen"), pl.col("last", "number").first())
        .filter(pl.col("seen") < pl.col("last") - settings.vanished_share * pl.col("number"))["metric"]
        .unique()
        .sort()
        .to_list()
    )


def not_watched(evidence: Evidence) -> list[Unwatched]:
    """Subsystems with no usable metric."""
    watched = {subsystem(metric) for metric in evidence.features["metric"].unique()}
    has = evidence.quality.filter(pl.col("metric") != INTERVAL).group_by("subsystem").agg(pl.col("metric").n_unique())
    number = dict(has.iter_rows())
    return [
        Unwatched(
            subsystem=name,
            reason=f"{count(number[name], 'metric')}, none of which can be used."
            if number.get(name)
            else "the file has no metric of it.",
        )
        for name in SUBSYSTEMS
        if name not in watched and name != "Other"
    ]
