"""The symbolic states around an episode: the usual level of each metric group before, during and after it."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from infrascope_core.contract import EPISODE_KEY, HOST_KEY, WINDOW_KEY
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES


def states(episodes: pl.DataFrame, baskets: pl.DataFrame, stride: timedelta, settings: EpisodeSettings) -> pl.DataFrame:
    """The most frequent item of each group before, during and after; ties go to the first in the alphabet.

    Before and after last as long as the episode, but at least `context_least` and at most `context_most` strides.
    """
    reach = (pl.col("end_ts") - pl.col("start_ts")).clip(
        settings.context_least * stride, settings.context_most * stride
    )
    stretches = pl.concat(
        episodes.select(*EPISODE_KEY, begin=begin, end=end, stretch=pl.lit(name))
        for name, begin, end in (
            ("states_before", pl.col("start_ts") - reach, pl.col("start_ts")),
            ("states_during", pl.col("start_ts"), pl.col("end_ts")),
            ("states_after", pl.col("end_ts"), pl.col("end_ts") + reach),
        )
    )
    within = (
        baskets.select(*WINDOW_KEY, "start_ts")
        .unique()
        .join(stretches, on=HOST_KEY)
        .filter(pl.col("start_ts").is_between("begin", "end", closed="left"))
        .drop("start_ts")
    )
    items = (
        within.join(baskets.drop_nulls("item"), on=WINDOW_KEY)
        .group_by(*EPISODE_KEY, "stretch", "metric_group", "item")
        .agg(times=pl.len())
        .sort("times", "item", descending=[True, False])
        .unique([*EPISODE_KEY, "stretch", "metric_group"], keep="first", maintain_order=True)
        .sort(*EPISODE_KEY, "item")
    )
    return items.group_by(EPISODE_KEY, maintain_order=True).agg(
        pl.col("item").filter(pl.col("stretch") == name).alias(name)
        for name in ANOMALY_EPISODES.schema.names()
        if name.startswith("states_")
    )
