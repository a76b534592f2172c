"""Mined rules that an episode breaks."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from infrascope_core.contract import EPISODE_KEY, HOST_KEY
from infrascope_core.patterns.candidates import SIGNIFICANT
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES

_CELLS = 1 << 23
"""Most windows x rules that are looked at together, to bound memory."""


def broken_rules(
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
        for key, part in baskets.join(episodes, on=HOST_KEY, how="semi").partition_by(HOST_KEY, as_dict=True).items():
            found += _broken_on_host(episodes.filter(run_key=key[0], host=key[1]), part, rules, settings)
    return pl.DataFrame(
        found, schema={name: ANOMALY_EPISODES.schema[name] for name in (*EPISODE_KEY, "broken_rules")}, orient="row"
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
    for row, key in enumerate(episodes.select(EPISODE_KEY).iter_rows()):
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
