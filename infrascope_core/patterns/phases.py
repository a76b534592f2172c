"""Phases of a run: when its states change for longer than a moment.

What belongs here: change points in the levels of a run's metric groups (PELT: Killick, Fearnhead and Eckley, 2012; by
ruptures). What repeats within less than the shortest phase is a state of a phase, not a phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import ruptures
from numpy.typing import NDArray

from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Array, Ints
from infrascope_core.patterns.held import LEVELS
from infrascope_core.patterns.settings import PhaseSettings
from infrascope_core.patterns.tables import PHASE_CHANGES

_STEP = 1 / (len(LEVELS) - 1)
"""From one level to the next, if LOW is 0 and HIGH is 1."""
_FEWEST = 4
"""Windows of the shortest phase, where sampling is slow."""
_MOST_BLOCKS = 4_000
"""Of a longer run, so many windows are taken together that there are at most so many blocks: time grows with their
square."""
_KEPT, _KEPT_VARIANCE = 0.75, 0.3685
"""Share of the smallest fluctuations that the noise is estimated from, so that changes are not taken for noise; and the
variance of that part of a normal distribution."""
_LEAST_NOISE = 0.4 * _STEP
"""Standard deviation of a window that a group has at least: one that hardly ever moves says little by moving once."""
_FAR = 3.0
"""Fluctuations beyond so many standard deviations count as these, where it is asked how groups move together."""
_DIGITS = 9
"""Mean levels are rounded before they are ordered, so that equal ones are."""
_MOVED = 0.5 * _STEP
"""A group rises or falls if its mean level changes by half a level."""


@dataclass(frozen=True)
class Lengths:
    """In windows: what is taken together, what is compared to find the noise, and the shortest phase."""

    block: int
    noise: int
    phase: int

    @classmethod
    def of(cls, windows: int, window_s: float, settings: PhaseSettings) -> Lengths:
        """For so many windows, so many seconds apart."""
        phase = max(_FEWEST, round(settings.shortest_s / window_s))
        block = max(1, phase // 5, -(-windows // _MOST_BLOCKS))
        return cls(block, max(2, phase // 2), max(phase, 2 * block))


def phase_changes(baskets: pl.DataFrame, groups: Sequence[str], settings: PhaseSettings) -> pl.DataFrame:
    """Find when the states of a run change.

    Parameters
    ----------
    baskets : polars.DataFrame
        Its table `baskets`.
    groups : sequence of str
        Metric groups whose levels are looked at.
    settings : PhaseSettings
        `shortest_s`.

    Returns
    -------
    polars.DataFrame
        Table `phase_changes`. A run that is shorter than two phases has none.
    """
    rows = []
    for (run_key, host), own in sorted(baskets.partition_by(HOST_KEY, as_dict=True).items()):
        start, levels, names = _levels(own, groups)
        if len(start) < 2 * _FEWEST or not names:
            continue
        window_s = float(np.median(np.diff(start).astype(np.float64))) / 1e6
        if not window_s:  # the clock stands still
            continue
        changes = change_points(levels, Lengths.of(len(start), window_s, settings))
        phases = [phase.mean(axis=0) for phase in np.split(_known(levels), changes)]
        for number, (at, before, after) in enumerate(zip(changes, phases, phases[1:], strict=False)):
            moved = after - before
            order = np.argsort(-np.round(np.abs(moved), _DIGITS), kind="stable")
            rises = [names[i] for i in order if moved[i] >= _MOVED]
            falls = [names[i] for i in order if moved[i] <= -_MOVED]
            offset_s = float((start[at] - start[0]).astype(np.int64)) / 1e6
            rows.append((str(run_key), str(host), number, start[at].item(), offset_s, rises, falls))
    return pl.DataFrame(rows, schema=PHASE_CHANGES.schema, orient="row")


def change_points(levels: Array, lengths: Lengths) -> Ints:
    """The windows with which a new phase begins.

    Parameters
    ----------
    levels : ndarray, windows x groups
        0 is LOW, 1 is HIGH; NaN where there is none.
    lengths : Lengths
        In windows.

    Notes
    -----
    The cost of a phase is the squared distance of its windows from their mean, in units of each group's noise: the
    long-run standard deviation of a window, from the differences between neighbouring stretches of half a phase. A
    change must lower the cost by more than noise does at the best of all places. Groups that move together count as
    such: the bound is that of Laurent and Massart (2000, lemma 1) for weighted sums of squares.
    """
    windows = len(levels)
    known = _known(levels)
    known = known[:, known.std(axis=0) > 0]
    if windows < 2 * lengths.phase or not known.shape[1]:
        return np.zeros(0, dtype=np.int64)
    sums = np.vstack([np.zeros(known.shape[1]), known.cumsum(axis=0)])
    means = (sums[lengths.noise :] - sums[: -lengths.noise]) / lengths.noise
    # as if they were single windows, none of which knew of its neighbours
    fluctuations = (means[lengths.noise :] - means[: -lengths.noise]) * np.sqrt(lengths.noise / 2)
    kept = np.sort(fluctuations**2, axis=0)[: max(1, round(_KEPT * len(fluctuations)))]
    freedom = _KEPT * windows / lengths.noise
    # the mean of the inverse of a variance that is estimated with so many degrees of freedom
    variance = kept.mean(axis=0) / _KEPT_VARIANCE * freedom / max(freedom - 2, 1)
    noise = np.maximum(np.sqrt(variance), _LEAST_NOISE)
    blocks = windows // lengths.block
    taken = known[: blocks * lengths.block].reshape(blocks, lengths.block, -1).mean(axis=1)
    search = ruptures.KernelCPD(kernel="linear", min_size=-(-lengths.phase // lengths.block))
    *ends, _ = search.fit(taken / noise * np.sqrt(lengths.block)).predict(pen=_penalty(fluctuations / noise, windows))
    return np.array(ends, dtype=np.int64) * lengths.block


def _penalty(fluctuations: Array, windows: int) -> float:
    """What noise lowers the cost by, at the best of all places."""
    tame = np.clip(fluctuations, -_FAR, _FAR)
    tame -= tame.mean(axis=0)
    scale = np.sqrt((tame**2).sum(axis=0))
    tame = np.divide(tame, scale, out=np.zeros_like(tame), where=scale > 0)
    correlation = tame.T @ tame
    np.fill_diagonal(correlation, 1.0)
    shares = np.maximum(np.linalg.eigvalsh(correlation), 0.0)
    places = 2 * np.log(windows)
    return float(shares.sum() + 2 * np.sqrt((shares**2).sum() * places) + 2 * shares.max() * places)


def _levels(baskets: pl.DataFrame, groups: Sequence[str]) -> tuple[NDArray[np.datetime64], Array, list[str]]:
    """When each window of a run and host begins, and its levels: windows x groups; and which groups it has."""
    number = {level: place * _STEP for place, level in enumerate(LEVELS)}
    start = baskets.group_by("window").agg(pl.col("start_ts").min()).sort("window")
    wide = (
        baskets.filter(pl.col("metric_group").is_in(groups))
        .with_columns(height=pl.col("level").replace_strict(number, return_dtype=pl.Float64))
        .pivot(on="metric_group", index="window", values="height")
    )
    names = [group for group in groups if group in wide.columns]
    levels = start.join(wide, on="window", how="left").sort("window").select(names).to_numpy().astype(np.float64)
    return start["start_ts"].to_numpy(), levels, names


def _known(levels: Array) -> Array:
    """Where there is no level, the group's mean: nothing changes there."""
    known = np.isfinite(levels)
    mean = np.where(known, levels, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, levels, mean)
