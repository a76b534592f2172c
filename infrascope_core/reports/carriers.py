"""Who carries an episode: its subsystems, the order in which they became abnormal, its metrics and its claims.

What belongs here: what follows from the evidence of an episode's windows (Reveal, sections 4.4 and 5.6).
"""

from __future__ import annotations

import polars as pl

from infrascope_core.contract import EPISODE_KEY, HOST_KEY, WINDOW_KEY
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.run_files.columns import family


def carriers(evidence: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """Subsystems that carry an episode, by falling share.

    Returns
    -------
    polars.DataFrame
        run_key, host, episode, place (from 0), subsystem, share.
    """
    within = evidence.filter(pl.col("subsystem_share").is_not_null())
    total = (
        within.unique([*EPISODE_KEY, "window"], maintain_order=True)
        .group_by(EPISODE_KEY)
        .agg(total=pl.col("weight").sum())
    )
    return (
        within.group_by(*EPISODE_KEY, "window", "subsystem", maintain_order=True)
        .agg(share=pl.col("subsystem_share").max() * pl.col("weight").first())
        .group_by(*EPISODE_KEY, "subsystem", maintain_order=True)
        .agg(pl.col("share").sum())
        .join(total, on=EPISODE_KEY)
        .with_columns(share=(pl.col("share") / pl.col("total")).round(12))
        .sort(*EPISODE_KEY, "share", "subsystem", descending=[False, False, False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over(EPISODE_KEY))
        .filter((pl.col("place") == 0) | (pl.col("share") >= settings.carrying_share))
        .select(*EPISODE_KEY, "place", "subsystem", "share")
    )


def onset(
    carriers: pl.DataFrame,
    episodes: pl.DataFrame,
    scores: pl.DataFrame,
    reasons: pl.DataFrame,
    settings: EpisodeSettings,
) -> pl.DataFrame:
    """The carriers with `onset_ts`, the start of the window in which each became abnormal."""
    flagged = (
        scores.filter(pl.col("anomalous") | (pl.col("agreement") > 0))
        .select(*WINDOW_KEY, "start_ts")
        .join(episodes.select(*EPISODE_KEY, "first_window", "last_window"), on=HOST_KEY)
        .filter(pl.col("window").is_between(pl.col("first_window") - settings.gap - 1, "last_window"))
    )
    limit = settings.carrying_share
    first = (
        reasons.join(flagged, on=WINDOW_KEY)
        .join(carriers, on=[*EPISODE_KEY, "subsystem"])
        .sort(WINDOW_KEY)
        .group_by(*EPISODE_KEY, "subsystem", maintain_order=True)
        .agg(
            reached=pl.col("start_ts").filter(pl.col("subsystem_share") >= limit).first(),
            # the first of an episode in which nothing reaches the limit
            highest=pl.col("start_ts").sort_by("subsystem_share", descending=True, nulls_last=True).first(),
        )
        .select(*EPISODE_KEY, "subsystem", onset_ts=pl.coalesce("reached", "highest"))
    )
    return carriers.join(first, on=[*EPISODE_KEY, "subsystem"], how="left", maintain_order="left")


def by_share(carriers: pl.DataFrame) -> pl.DataFrame:
    """The carriers of each episode as lists `subsystems` and `shares`, by falling share."""
    return (
        carriers.group_by(EPISODE_KEY, maintain_order=True)
        .agg("subsystem", shares="share")
        .rename({"subsystem": "subsystems"})
    )


def by_onset(carriers: pl.DataFrame) -> pl.DataFrame:
    """The carriers of each episode as lists `onset` and `onset_ts`, in the order in which they became abnormal."""
    return (
        carriers.sort(*EPISODE_KEY, "onset_ts", "place")
        .group_by(EPISODE_KEY, maintain_order=True)
        .agg("onset_ts", onset="subsystem")
    )


def metrics(evidence: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """Metrics by falling evidence; of a family (all cores, all interfaces) the one that has most."""
    return (
        evidence.group_by(*EPISODE_KEY, "metric")
        .agg(pl.col("evidence").sum().round(12))
        .sort(*EPISODE_KEY, "evidence", "metric", descending=[False, False, False, True, False])
        .with_columns(family=_family(pl.col("metric")))
        .unique([*EPISODE_KEY, "family"], keep="first", maintain_order=True)
        .group_by(EPISODE_KEY, maintain_order=True)
        .agg(metrics=pl.col("metric").head(settings.metrics))
    )


def _family(metric: pl.Expr) -> pl.Expr:
    return metric.map_elements(family, return_dtype=pl.String)


def foremost(evidence: pl.DataFrame, carriers: pl.DataFrame) -> pl.DataFrame:
    """The first subsystem's metric of most evidence, as `foremost`."""
    first = carriers.filter(pl.col("place") == 0).select(*EPISODE_KEY, "subsystem")
    return (
        evidence.join(first, on=[*EPISODE_KEY, "subsystem"], how="semi")
        .group_by(*EPISODE_KEY, "metric")
        .agg(pl.col("evidence").sum().round(12))
        .sort(*EPISODE_KEY, "evidence", "metric", descending=[False, False, False, True, False])
        .group_by(EPISODE_KEY, maintain_order=True)
        .agg(foremost=pl.col("metric").first())
    )


def claims(evidence: pl.DataFrame, carriers: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """One claim a metric, of its strongest feature; each carrying subsystem's best comes before the others."""
    by_feature = (
        evidence.sort(*EPISODE_KEY, "evidence", "window", "rank", descending=[False, False, False, True, False, False])
        .group_by(*EPISODE_KEY, "subsystem", "metric", "feature", maintain_order=True)
        .agg(pl.col("evidence").sum().round(12), pl.col("claim").first())
    )
    return (
        by_feature.sort(*EPISODE_KEY, "metric", "evidence", "feature", descending=[False] * 4 + [True, False])
        .group_by(*EPISODE_KEY, "subsystem", "metric", maintain_order=True)
        .agg(pl.col("claim").first(), pl.col("evidence").sum().round(12))
        .drop_nulls("claim")
        .with_columns(family=_family(pl.col("metric")))
        .sort(*EPISODE_KEY, "evidence", "metric", descending=[False, False, False, True, False])
        .unique([*EPISODE_KEY, "subsystem", "family"], keep="first", maintain_order=True)
        .with_columns(of_subsystem=pl.int_range(pl.len()).over([*EPISODE_KEY, "subsystem"]))
        .join(carriers.select(*EPISODE_KEY, "subsystem", "place"), on=[*EPISODE_KEY, "subsystem"], how="left")
        .with_columns(first=pl.when(pl.col("of_subsystem") == 0).then("place"))
        .sort(*EPISODE_KEY, "first", "evidence", "metric", descending=[False] * 4 + [True, False], nulls_last=True)
        .group_by(EPISODE_KEY, maintain_order=True)
        .agg(claims=pl.col("claim").head(settings.claims))
    )
