"""Episodes: neighbouring anomalous windows of a host, merged and explained together.

What belongs here: from windows and their reasons to episodes: subsystems and the order in which they became abnormal
(Reveal, sections 4.4 and 5.6), metrics, claims, the symbolic states around them, and the mined rules they break.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.anomalies.tables import ANOMALY_SCORES
from infrascope_core.contract import WINDOW_KEY as WINDOW
from infrascope_core.patterns.rules import SIGNIFICANT
from infrascope_core.reports import retransmissions
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.columns import family

HOST = ["run_key", "host"]
EPISODE = [*HOST, "episode"]

_DETECTORS = ANOMALY_SCORES.schema.names()
"""Detectors come in the order of their scores' columns."""
_LARGEST_SURPRISAL = 300.0
"""A probability below the smallest float counts as that one: infinite weights would leave no share to the others."""
_CELLS = 1 << 23
"""Most windows x rules that are looked at together, to bound memory."""


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
        reasons.join(windows.select(*WINDOW, "episode", "weight"), on=WINDOW, maintain_order="left")
        .sort(*EPISODE, "window", "rank")
        .with_columns(evidence=pl.col("weight") * pl.col("contribution"))
    )
    carriers = _onset(_carriers(evidence, settings), episodes, scores, reasons, settings)
    for part in (
        carriers.group_by(EPISODE, maintain_order=True)
        .agg("subsystem", shares="share")
        .rename({"subsystem": "subsystems"}),
        carriers.sort(*EPISODE, "onset_ts", "place").group_by(EPISODE, maintain_order=True).agg(onset="subsystem"),
        _metrics(evidence, settings),
        _foremost(evidence, carriers),
        _claims(evidence, carriers, settings),
        _states(episodes, baskets, stride, settings),
        _broken_rules(episodes, baskets, rules, settings),
        retransmissions.judge(evidence.select(*EPISODE, "window", "metric", "feature", weight="evidence")),
    ):
        episodes = episodes.join(part, on=EPISODE, how="left", maintain_order="left")
    lists = [name for name, dtype in ANOMALY_EPISODES.schema.items() if isinstance(dtype, pl.List) and name in episodes]
    episodes = episodes.with_columns(
        pl.col(name).fill_null(pl.lit([], dtype=ANOMALY_EPISODES.schema[name])) for name in lists
    ).with_columns(subsystem=pl.col("subsystems").list.first())
    onsets = carriers.partition_by(EPISODE, as_dict=True, maintain_order=True)
    headlines = [
        _headline(row, dict(onsets[key].select("subsystem", "onset_ts").iter_rows()) if key in onsets else {})
        for row in episodes.iter_rows(named=True)
        for key in [(row["run_key"], row["host"], row["episode"])]
    ]
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
    steps = pl.col("window").diff().over(HOST)
    elapsed = pl.col("start_ts").diff().over(HOST).dt.total_microseconds()
    stride_us, length_us = (round(t / timedelta(microseconds=1)) for t in (stride, window_length))
    apart = (steps > settings.gap + 1) & (elapsed >= length_us)
    hole = elapsed - steps * stride_us > settings.context_most * stride_us
    return (
        scores.filter(pl.col("anomalous"))
        .sort(WINDOW)
        .with_columns(episode=(apart | hole).fill_null(False).cast(pl.Int64).cum_sum().over(HOST))
        .with_columns(weight=pl.col("surprisal").clip(0.0, _LARGEST_SURPRISAL))
    )


def _extent(windows: pl.DataFrame, window_length: timedelta) -> pl.DataFrame:
    order = {name: i for i, name in enumerate(_DETECTORS)}
    return (
        windows.group_by(EPISODE, maintain_order=True)
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


def _carriers(evidence: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """Subsystems that carry an episode, by falling share: EPISODE, place, subsystem, share."""
    within = evidence.filter(pl.col("subsystem_share").is_not_null())
    total = within.unique([*EPISODE, "window"], maintain_order=True).group_by(EPISODE).agg(total=pl.col("weight").sum())
    return (
        within.group_by(*EPISODE, "window", "subsystem", maintain_order=True)
        .agg(share=pl.col("subsystem_share").max() * pl.col("weight").first())
        .group_by(*EPISODE, "subsystem", maintain_order=True)
        .agg(pl.col("share").sum())
        .join(total, on=EPISODE)
        .with_columns(share=(pl.col("share") / pl.col("total")).round(12))
        .sort(*EPISODE, "share", "subsystem", descending=[False, False, False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over(EPISODE))
        .filter((pl.col("place") == 0) | (pl.col("share") >= settings.carrying_share))
        .select(*EPISODE, "place", "subsystem", "share")
    )


def _onset(
    carriers: pl.DataFrame,
    episodes: pl.DataFrame,
    scores: pl.DataFrame,
    reasons: pl.DataFrame,
    settings: EpisodeSettings,
) -> pl.DataFrame:
    """The carriers with `onset_ts`, the start of the window in which each became abnormal."""
    flagged = (
        scores.filter(pl.col("anomalous") | (pl.col("agreement") > 0))
        .select(*WINDOW, "start_ts")
        .join(episodes.select(*EPISODE, "first_window", "last_window"), on=HOST)
        .filter(pl.col("window").is_between(pl.col("first_window") - settings.gap - 1, "last_window"))
    )
    limit = settings.carrying_share
    first = (
        reasons.join(flagged, on=WINDOW)
        .join(carriers, on=[*EPISODE, "subsystem"])
        .sort(WINDOW)
        .group_by(*EPISODE, "subsystem", maintain_order=True)
        .agg(
            reached=pl.col("start_ts").filter(pl.col("subsystem_share") >= limit).first(),
            # the first of an episode in which nothing reaches the limit
            highest=pl.col("start_ts").sort_by("subsystem_share", descending=True, nulls_last=True).first(),
        )
        .select(*EPISODE, "subsystem", onset_ts=pl.coalesce("reached", "highest"))
    )
    return carriers.join(first, on=[*EPISODE, "subsystem"], how="left", maintain_order="left")


def _metrics(evidence: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """Metrics by falling evidence; of a family (all cores, all interfaces) the one that has most."""
    return (
        evidence.group_by(*EPISODE, "metric")
        .agg(pl.col("evidence").sum().round(12))
        .sort(*EPISODE, "evidence", "metric", descending=[False, False, False, True, False])
        .with_columns(family=_family(pl.col("metric")))
        .unique([*EPISODE, "family"], keep="first", maintain_order=True)
        .group_by(EPISODE, maintain_order=True)
        .agg(metrics=pl.col("metric").head(settings.metrics))
    )


def _family(metric: pl.Expr) -> pl.Expr:
    return metric.map_elements(family, return_dtype=pl.String)


def _foremost(evidence: pl.DataFrame, carriers: pl.DataFrame) -> pl.DataFrame:
    """The first subsystem's metric of most evidence: EPISODE, foremost."""
    first = carriers.filter(pl.col("place") == 0).select(*EPISODE, "subsystem")
    return (
        evidence.join(first, on=[*EPISODE, "subsystem"], how="semi")
        .group_by(*EPISODE, "metric")
        .agg(pl.col("evidence").sum().round(12))
        .sort(*EPISODE, "evidence", "metric", descending=[False, False, False, True, False])
        .group_by(EPISODE, maintain_order=True)
        .agg(foremost=pl.col("metric").first())
    )


def _claims(evidence: pl.DataFrame, carriers: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """One claim a metric, of its strongest feature; each carrying subsystem's best comes before the others."""
    by_feature = (
        evidence.sort(*EPISODE, "evidence", "window", "rank", descending=[False, False, False, True, False, False])
        .group_by(*EPISODE, "subsystem", "metric", "feature", maintain_order=True)
        .agg(pl.col("evidence").sum().round(12), pl.col("claim").first())
    )
    return (
        by_feature.sort(*EPISODE, "metric", "evidence", "feature", descending=[False] * 4 + [True, False])
        .group_by(*EPISODE, "subsystem", "metric", maintain_order=True)
        .agg(pl.col("claim").first(), pl.col("evidence").sum().round(12))
        .drop_nulls("claim")
        .with_columns(family=_family(pl.col("metric")))
        .sort(*EPISODE, "evidence", "metric", descending=[False, False, False, True, False])
        .unique([*EPISODE, "subsystem", "family"], keep="first", maintain_order=True)
        .with_columns(of_subsystem=pl.int_range(pl.len()).over([*EPISODE, "subsystem"]))
        .join(carriers.select(*EPISODE, "subsystem", "place"), on=[*EPISODE, "subsystem"], how="left")
        .with_columns(first=pl.when(pl.col("of_subsystem") == 0).then("place"))
        .sort(*EPISODE, "first", "evidence", "metric", descending=[False] * 4 + [True, False], nulls_last=True)
        .group_by(EPISODE, maintain_order=True)
        .agg(claims=pl.col("claim").head(settings.claims))
    )


def _states(
    episodes: pl.DataFrame, baskets: pl.DataFrame, stride: timedelta, settings: EpisodeSettings
) -> pl.DataFrame:
    """The most frequent item of each group before, during and after; ties go to the first in the alphabet.

    Before and after last as long as the episode, but at least `context_least` and at most `context_most` strides.
    """
    reach = (pl.col("end_ts") - pl.col("start_ts")).clip(
        settings.context_least * stride, settings.context_most * stride
    )
    stretches = pl.concat(
        episodes.select(*EPISODE, begin=begin, end=end, stretch=pl.lit(name))
        for name, begin, end in (
            ("states_before", pl.col("start_ts") - reach, pl.col("start_ts")),
            ("states_during", pl.col("start_ts"), pl.col("end_ts")),
            ("states_after", pl.col("end_ts"), pl.col("end_ts") + reach),
        )
    )
    within = (
        baskets.select(*WINDOW, "start_ts")
        .unique()
        .join(stretches, on=HOST)
        .filter(pl.col("start_ts").is_between("begin", "end", closed="left"))
        .drop("start_ts")
    )
    items = (
        within.join(baskets.drop_nulls("item"), on=WINDOW)
        .group_by(*EPISODE, "stretch", "metric_group", "item")
        .agg(times=pl.len())
        .sort("times", "item", descending=[True, False])
        .unique([*EPISODE, "stretch", "metric_group"], keep="first", maintain_order=True)
        .sort(*EPISODE, "item")
    )
    return items.group_by(EPISODE, maintain_order=True).agg(
        pl.col("item").filter(pl.col("stretch") == name).alias(name)
        for name in ANOMALY_EPISODES.schema.names()
        if name.startswith("states_")
    )


def _broken_rules(
    episodes: pl.DataFrame, baskets: pl.DataFrame, rules: pl.DataFrame, settings: EpisodeSettings
) -> pl.DataFrame:
    """The strongest rules that each episode breaks, one for each set of items that fail to come.

    A rule is broken in a basket that holds all of its left side and, for a group of its right side, another item;
    a group without an item is unknown and breaks nothing. Outside of episodes the rule must hold in most baskets
    of the run that have its left side, if any do.
    """
    found: list[tuple[str, str, int, list[str]]] = []
    rules = _firm_rules(rules, settings)
    if rules.height and settings.broken_rules:
        for key, part in baskets.join(episodes, on=HOST, how="semi").partition_by(HOST, as_dict=True).items():
            found += _broken_on_host(episodes.filter(run_key=key[0], host=key[1]), part, rules, settings)
    return pl.DataFrame(
        found, schema={name: ANOMALY_EPISODES.schema[name] for name in (*EPISODE, "broken_rules")}, orient="row"
    )


def _firm_rules(rules: pl.DataFrame, settings: EpisodeSettings) -> pl.DataFrame:
    """The rules that an episode can break: antecedent, consequent, confidence and lift, the strongest first."""
    return (
        rules.filter(
            pl.col("confidence") >= settings.rule_confidence,
            pl.col("lift") > 1,
            pl.col("q_value") <= SIGNIFICANT,
        )
        .sort(pl.col("confidence") * pl.col("lift"), "antecedent", "consequent", descending=[True, False, False])
        .select("antecedent", "consequent", "confidence", "lift")
    )


def _broken_on_host(
    episodes: pl.DataFrame, baskets: pl.DataFrame, rules: pl.DataFrame, settings: EpisodeSettings
) -> list[tuple[str, str, int, list[str]]]:
    items = sorted(set(rules["antecedent"].explode()) | set(rules["consequent"].explode()))
    windows = baskets.select("window", "start_ts").unique("window").sort("window")
    holds, known = _item_matrices(baskets, windows["window"], items)
    held, otherwise = holds.astype(np.float32), (known & ~holds).astype(np.float32)
    time: NDArray[np.datetime64] = windows["start_ts"].to_numpy()
    begin, end = (episodes[name].to_numpy() for name in ("start_ts", "end_ts"))
    inside = np.greater_equal(time[:, None], begin) & np.less(time[:, None], end)
    outside = ~inside.any(axis=1)
    count = np.maximum(inside.sum(axis=0), 1)[:, None]
    broken: list[NDArray[np.float32]] = []
    size = max(1, _CELLS // max(len(time), 1))
    for at in range(0, rules.height, size):
        left, right = (_incidence(rules[name].slice(at, size), items) for name in ("antecedent", "consequent"))
        applies: NDArray[np.bool_] = np.equal(held @ left.T, left.sum(axis=1))
        fails = applies & (otherwise @ right.T > 0)
        keeps = applies & np.equal(held @ right.T, right.sum(axis=1))
        usual = (keeps & outside[:, None]).sum(axis=0) >= (fails & outside[:, None]).sum(axis=0)
        share = inside.T.astype(np.float32) @ fails.astype(np.float32) / count
        broken.append(np.where(usual, share, 0.0))
    share = np.concatenate(broken, axis=1)
    found = []
    for row, key in enumerate(episodes.select(EPISODE).iter_rows()):
        candidates = rules[np.flatnonzero(share[row] > settings.broken_share)]
        chosen = _one_per_failure(candidates, held[inside[:, row]], otherwise[inside[:, row]], items)
        chosen = chosen.head(settings.broken_rules)
        sentences = [
            f"{' + '.join(left)} -> {' + '.join(right)} (confidence {confidence:.2f})"
            for left, right, confidence in chosen.select("antecedent", "consequent", "confidence").iter_rows()
        ]
        found.append((*key, sentences))
    return found


def _one_per_failure(
    rules: pl.DataFrame, held: NDArray[np.float32], otherwise: NDArray[np.float32], items: list[str]
) -> pl.DataFrame:
    """Of rules that fail in the same items, the one with the shortest right side; the strongest of those."""
    if rules.is_empty():
        return rules
    left, right = (_incidence(rules[name], items) for name in ("antecedent", "consequent"))
    applies = np.equal(held @ left.T, left.sum(axis=1)).astype(np.float32)
    times = (applies.T @ otherwise) * right
    _, failure = np.unique(times * 2 > applies.sum(axis=0)[:, None], axis=0, return_inverse=True)
    return (
        rules.with_row_index("strength")
        .with_columns(failure=pl.Series(failure.ravel()), length=pl.col("consequent").list.len())
        .sort("length", "strength")
        .unique("failure", keep="first", maintain_order=True)
        .sort("strength")
        .select(rules.columns)
    )


def _item_matrices(
    baskets: pl.DataFrame, windows: pl.Series, items: list[str]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Windows x items: whether the item holds, and whether its group has any item there."""
    groups = [item.rpartition("_")[0] for item in items]
    row = pl.DataFrame({"window": windows, "row": np.arange(len(windows))})
    placed = baskets.drop_nulls("item").select("window", "metric_group", "item").join(row, on="window")
    holds = np.zeros((len(windows), len(items)), dtype=bool)
    column = pl.DataFrame({"item": items, "metric_group": groups, "column": np.arange(len(items))})
    at = placed.join(column, on="item")
    holds[at["row"].to_numpy(), at["column"].to_numpy()] = True
    known = np.zeros_like(holds)
    at = placed.join(column, on="metric_group")
    known[at["row"].to_numpy(), at["column"].to_numpy()] = True
    return holds, known


def _incidence(sides: pl.Series, items: list[str]) -> NDArray[np.float32]:
    """Rules x items: 1 where the side has the item."""
    place = {item: i for i, item in enumerate(items)}
    exploded = sides.explode()
    rows = np.repeat(np.arange(len(sides)), sides.list.len().to_numpy())
    matrix = np.zeros((len(sides), len(items)), dtype=np.float32)
    matrix[rows, exploded.replace_strict(place, return_dtype=pl.Int64).to_numpy()] = 1
    return matrix


def _together(names: list[str]) -> str:
    """CPU; CPU and GPU together; CPU, GPU and Memory together."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"


def _headline(episode: dict[str, object], onset: dict[str, datetime]) -> str:
    """An episode in one sentence: who, in which order, how strongly, and in which metric most."""
    subsystems, shares = list(episode["subsystems"]), list(episode["shares"])  # type: ignore[call-overload]
    if not subsystems:
        return f"{episode['windows']} anomalous windows without a reason."
    in_order = list(episode["onset"])  # type: ignore[call-overload]
    groups = [list(group) for _, group in groupby(in_order, key=onset.__getitem__)]
    said = _together(groups[0])
    for earlier, later in pairwise(groups):
        lag = (onset[later[0]] - onset[earlier[0]]).total_seconds()
        said += f", then {_together(later)} {lag:.3g} s later"
    sentence = f"{said}; {shares[0]:.0%} of the evidence on {subsystems[0]}, foremost {episode['foremost']}"
    if episode["retransmissions"]:
        sentence += f"; its retransmissions are {episode['retransmissions']}"
    return sentence + "."
