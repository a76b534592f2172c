"""A run's own level: how far it departs from its references as a whole, taken from its quietest windows.

What belongs here: the difference between "this run (host, data set) differs" and "something happens within it". Another
host, another kernel or a fuller page cache moves many metrics for good; what is left after that is what happens. The
level is that of the windows which are most like their references: where a fault fills most of a run, they are those
before or after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.contract import HOST_KEY
from infrascope_core.numeric import Array, Ints, median

_FEWEST = 10
"""Quiet windows that a level is taken from, but no more than a third of a run."""
_BOUND = 10.0
"""Residuals are held within this bound, in scales, while quiet windows are looked for."""
_ROUNDS = 2
"""A level changes which reference window is nearest, and so the level."""
_NOTICEABLE = 1.0
"""A feature whose level is nearer than this, in scales, is at its references' level: less is noise."""
_USUAL, _WEIGHT = 1.0, 3.0
"""How far levels of healthy runs lie apart, in scales, before any is seen; and how many runs that counts as."""


@dataclass(frozen=True, eq=False)
class Levels:
    """How far runs and hosts depart from their references as a whole.

    Attributes
    ----------
    keys : polars.DataFrame
        `run_key`, `host` of each row; several rows, in the order of time, of what was watched for long (`periods`).
    offsets : ndarray, rows x names
        In scales; 0 where it is not noticeable.
    quiet : list of ndarray of int
        The windows that each row was taken from.
    """

    keys: pl.DataFrame
    offsets: Array
    quiet: list[Ints]


def is_long(start_ts: pl.Series, settings: DetectorSettings) -> bool:
    """Whether a run was watched for so much longer than an incident lasts that most of its windows are normal."""
    return _number(_since(start_ts), settings) > 1


def quiet_share(long: bool, settings: DetectorSettings) -> float:
    """Share of a run's windows that are taken to be quiet.

    A run of minutes may be faulty for most of its time; what was watched for days was not.
    """
    return 0.5 if long else settings.quiet_share


def _since(start_ts: pl.Series) -> Array:
    """Seconds since the first."""
    return np.asarray((start_ts - start_ts[0]).dt.total_microseconds().to_numpy() / 1e6)


def _number(since: Array, settings: DetectorSettings) -> int:
    return max(1, int(since[-1] // (2.0 * settings.longest_incident_s)))


def periods(windows: pl.DataFrame, settings: DetectorSettings) -> Iterator[tuple[tuple[str, str], Ints, float]]:
    """Rows of each run and host that share a level, and the share of them that is taken to be quiet.

    What was watched for much longer than an incident lasts has a level for every two such times, and of each at least
    half is quiet: servers change over weeks.
    """
    for key, rows in by_host(windows):
        since = _since(windows["start_ts"].gather(rows))
        number = _number(since, settings)
        period = np.minimum((since * number / max(since[-1], 1e-9)).astype(np.int64), number - 1)
        for turn in range(number):
            own = rows[period == turn]
            if len(own):
                yield key, own, quiet_share(number > 1, settings)


def by_host(windows: pl.DataFrame) -> Iterator[tuple[tuple[str, str], Ints]]:
    """Rows of each run and host, in their order; those of a run and host lie together."""
    if windows.height and all(windows[name][0] == windows[name][-1] for name in HOST_KEY):
        run_key, host = (str(windows[name][0]) for name in HOST_KEY)
        yield (run_key, host), np.arange(windows.height)
        return
    rows = windows.with_row_index("row").group_by(HOST_KEY, maintain_order=True).agg("row")
    for run_key, host, row in rows.iter_rows():
        yield (str(run_key), str(host)), np.asarray(row, dtype=np.int64)


def level(references: References, z: Array, windows: pl.DataFrame, settings: DetectorSettings) -> tuple[Array, Levels]:
    """What is expected of windows: their nearest reference, and the level of their own run and host.

    Parameters
    ----------
    references : References
        Reference windows; a window that is one of them is compared with other runs.
    z : ndarray, windows x names
        Standardised features.
    windows : polars.DataFrame
        `run_key`, `host`, `window`, `start_ts`.
    settings : DetectorSettings
        `quiet_share`, `longest_incident_s`.

    Returns
    -------
    expected : ndarray, windows x names
        Standardised.
    levels : Levels
    """
    keys, place = windows["run_key"].to_list(), windows["window"].to_numpy()
    hosts = list(periods(windows, settings))
    offsets = np.zeros((len(hosts), z.shape[1]))
    quiet: list[Ints] = []
    expected = np.zeros_like(z)
    for turn, (_, rows, share) in enumerate(hosts):
        own = z[rows]
        run, at = [keys[row] for row in rows], place[rows]
        nearest = references.expected(own, run, at)
        for _ in range(_ROUNDS):
            residual = own - nearest
            chosen = _quietest(residual - offsets[turn], share)
            found = np.nan_to_num(median(residual[chosen], 0))
            found = np.where(np.abs(found) > _NOTICEABLE, found, 0.0)
            if np.array_equal(found, offsets[turn]):  # most runs are at their references' level
                break
            offsets[turn] = found
            nearest = references.expected(own - offsets[turn], run, at)
        expected[rows] = nearest + offsets[turn]
        quiet.append(rows[chosen])
    found_keys = pl.DataFrame(
        [key for key, *_ in hosts], schema={"run_key": pl.String, "host": pl.String}, orient="row"
    )
    return expected, Levels(found_keys, offsets, quiet)


def _quietest(residual: Array, share: float) -> Ints:
    """The windows that deviate least on average, over what they have."""
    known = ~np.isnan(residual)
    size = np.where(known, np.minimum(np.abs(residual), _BOUND), 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    fewest = min(_FEWEST, int(np.ceil(len(size) / 3)))
    number = min(len(size), max(fewest, int(np.ceil(share * len(size)))))
    return np.argsort(size, kind="stable")[:number]


def between_runs(levels: Levels) -> Array:
    """How far the levels of references lie apart, each taken against the others: names, in scales.

    Empirical Bayes: a variance from few runs is drawn to that of all metrics. One run shows nothing, and the prior
    holds.
    """
    runs = levels.keys.height if levels.keys["run_key"].n_unique() > 1 else 0
    seen = np.square(levels.offsets).sum(axis=0) if runs else 0.0
    return np.asarray(np.sqrt((_WEIGHT * _USUAL**2 + seen) / (_WEIGHT + runs)) * np.ones(levels.offsets.shape[1]))
