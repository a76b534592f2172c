"""Episodes: neighbouring anomalous windows of a host, merged and explained together.

What belongs here: which windows make an episode, its extent, and its headline. What explains it is in `carriers`,
`states`, `broken_rules` and `retransmissions`.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby, pairwise
from typing import Any

import polars as pl

from infrascope_core.anomalies.tables import ANOMALY_SCORES
from infrascope_core.contract import EPISODE_KEY, HOST_KEY, WINDOW_KEY
from infrascope_core.reports import carriers, retransmissions
from infrascope_core.reports.broken_rules import broken_rules
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.reports.states import states
from infrascope_core.reports.tables import ANOMALY_EPISODES

_DETECTORS = ANOMALY_SCORES.schema.names()
"""Detectors come in the order of their scores' columns."""
_LARGEST_SURPRISAL = 300.0
"""A probability below the smallest float counts as that one: infinite weights would leave no share to the others."""


def build_episodes(
    scores: pl.DataFrame,
    reasons: pl.DataFrame,
    baskets: pl.DataFrame,
    rules: pl.DataFrame,
    *,
    window_length: timedelta,
    stride: timedelta,
    settings: EpisodeSettings,
) -> pl.DataFrame:
    """Merge neighbouring anomalous windows of a host, and say what was wrong with them.

    Parameters
    ----------
    scores : polars.DataFrame
        Table `anomaly_scores`.
    reasons : polars.DataFrame
        Table `anomaly_reasons` of the same windows.
    baskets : polars.DataFrame
        Table `baskets` of the same runs. Its windows are others than those of the scores: they meet by time.
    rules : polars.DataFrame
        Table `association_rules` of the scope that the runs belong to; may be empty.
    window_length, stride : timedelta
        Length of a window of the scores, and time from one to the next.
    settings : EpisodeSettings
        Limits.

    Returns
    -------
    polars.DataFrame
        Table `anomaly_episodes`, by run, host and number. A subsystem's share is its mean share of a window's
        evidence, over those anomalous windows that have reasons, each counted by its surprisal; where a window's
        listed reasons leave a subsystem out, it counts as 0 there, so shares are lower bounds. A subsystem becomes
        abnormal in the first flagged window, at most a gap ahead of the first anomalous one, in which its share
        reaches `carrying_share`.
    """
    windows = episode_windows(scores, window_length, stride, settings)
    if windows.is_empty():
        return ANOMALY_EPISODES.empty()
    episodes = _extent(windows, window_length)
    evidence = (
        reasons.join(windows.select(*WINDOW_KEY, "episode", "weight"), on=WINDOW_KEY, maintain_order="left")
        .sort(*EPISODE_KEY, "window", "rank")
        .with_columns(evidence=pl.col("weight") * pl.col("contribution"))
    )
    carrying = carriers.onset(carriers.carriers(evidence, settings), episodes, scores, reasons, settings)
    for part in (
        carriers.by_share(carrying),
        carriers.by_onset(carrying),
        carriers.metrics(evidence, settings),
        carriers.foremost(evidence, carrying),
        carriers.claims(evidence, carrying, settings),
        states(episodes, baskets, stride, settings),
        broken_rules(episodes, baskets, rules, settings),
        retransmissions.judge(evidence.select(*EPISODE_KEY, "window", "metric", "feature", weight="evidence")),
    ):
        episodes = episodes.join(part, on=EPISODE_KEY, how="left", maintain_order="left")
    lists = [name for name, dtype in ANOMALY_EPISODES.schema.items() if isinstance(dtype, pl.List) and name in episodes]
    episodes = episodes.with_columns(
        pl.col(name).fill_null(pl.lit([], dtype=ANOMALY_EPISODES.schema[name])) for name in lists
    ).with_columns(subsystem=pl.col("subsystems").list.first())
    headlines = [_headline(row) for row in episodes.iter_rows(named=True)]
    return (
        episodes.with_columns(headline=pl.Series(headlines, dtype=pl.String))
        .select(ANOMALY_EPISODES.schema.names())
        .cast(ANOMALY_EPISODES.schema)
    )


def episode_windows(
    scores: pl.DataFrame, window_length: timedelta, stride: timedelta, settings: EpisodeSettings
) -> pl.DataFrame:
    """The anomalous windows, each with the number of its episode.

    Returns
    -------
    polars.DataFrame
        The columns of the scores, `episode` (from 0 within run and host) and `weight` (the surprisal, finite). Two
        anomalous windows belong together if at most `gap` others lie between them or they share samples, and no
        hole of more than `context_most` strides in the sampling parts them.
    """
    steps = pl.col("window").diff().over(HOST_KEY)
    elapsed = pl.col("start_ts").diff().over(HOST_KEY).dt.total_microseconds()
    stride_us, length_us = (round(t / timedelta(microseconds=1)) for t in (stride, window_length))
    apart = (steps > settings.gap + 1) & (elapsed >= length_us)
    hole = elapsed - steps * stride_us > settings.context_most * stride_us
    return (
        scores.filter(pl.col("anomalous"))
        .sort(WINDOW_KEY)
        .with_columns(episode=(apart | hole).fill_null(False).cast(pl.Int64).cum_sum().over(HOST_KEY))
        .with_columns(weight=pl.col("surprisal").clip(0.0, _LARGEST_SURPRISAL))
    )


def _extent(windows: pl.DataFrame, window_length: timedelta) -> pl.DataFrame:
    order = {name: i for i, name in enumerate(_DETECTORS)}
    return (
        windows.group_by(EPISODE_KEY, maintain_order=True)
        .agg(
            start_ts=pl.col("start_ts").min(),
            end_ts=pl.col("start_ts").max() + window_length,
            first_window=pl.col("window").min(),
            last_window=pl.col("window").max(),
            windows=pl.len(),
            peak_window=pl.col("window").sort_by("weight", "window", descending=[True, False], nulls_last=True).first(),
            peak_ts=pl.col("start_ts").sort_by("weight", "window", descending=[True, False], nulls_last=True).first(),
            total_surprisal=pl.col("weight").sum(),
            surprisal=pl.col("surprisal").max(),
            severity=pl.col("severity").max(),
            detectors=pl.col("flagged_by").explode(empty_as_null=False, keep_nulls=False).unique(),
        )
        .with_columns(
            detectors=pl.col("detectors").list.eval(
                pl.element().sort_by(
                    pl.element().replace_strict(order, default=len(order), return_dtype=pl.Int64), pl.element()
                )
            )
        )
    )


def _together(names: list[str]) -> str:
    """CPU; CPU and GPU together; CPU, GPU and Memory together."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"


def _headline(episode: dict[str, Any]) -> str:
    """An episode in one sentence: which subsystems, in which order, how strongly, and in which metric most."""
    subsystems, shares, onset = episode["subsystems"], episode["shares"], episode["onset"]
    if not subsystems:
        return f"{episode['windows']} anomalous windows without a reason."
    began = dict(zip(onset, episode["onset_ts"], strict=True))
    groups = [list(group) for _, group in groupby(onset, key=began.__getitem__)]
    order = _together(groups[0])
    for earlier, later in pairwise(groups):
        lag = (began[later[0]] - began[earlier[0]]).total_seconds()
        order += f", then {_together(later)} {lag:.3g} s later"
    sentence = f"{order}; {shares[0]:.0%} of the evidence on {subsystems[0]}, foremost {episode['foremost']}"
    if episode["retransmissions"]:
        sentence += f"; its retransmissions are {episode['retransmissions']}"
    return sentence + "."
