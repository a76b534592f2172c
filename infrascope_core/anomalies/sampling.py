"""The windows that a baseline is fitted on: a bounded sample of those of its runs.

What belongs here: the choice by run, host and window, and the reading of the windows that were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from infrascope_core.anomalies.features import of_windows
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.numeric import Ints

_STRETCH = 60
"""Windows of a run that go into a baseline together, if not all do."""


def sampled_features(files: Sequence[Path], settings: DetectorSettings) -> pl.DataFrame:
    """Features of a bounded sample of the windows of some runs.

    The windows are chosen first, and the features of those alone are kept: memory does not grow with the runs. Files
    are read one by one: polars takes minutes to plan a lazy concatenation of a thousand of them.

    Parameters
    ----------
    files : sequence of Path
        Parquet files of `window_features`; at least one.
    settings : DetectorSettings
        See `sample_windows`.
    """
    index = [pl.read_parquet(file, columns=list(WINDOW_KEY), glob=False).unique() for file in files]
    chosen = sample_windows(pl.concat(index), settings)
    runs = set(chosen["run_key"].unique())
    some = (file for file, windows in zip(files, index, strict=True) if not runs.isdisjoint(windows["run_key"]))
    features = (of_windows(pl.read_parquet(file, glob=False), chosen) for file in some)
    return pl.concat([WINDOW_FEATURES.empty(), *features])


def sample_windows(windows: pl.DataFrame, settings: DetectorSettings) -> pl.DataFrame:
    """Choose at most `max_windows` windows, from all runs and from all places in them.

    Parameters
    ----------
    windows : polars.DataFrame
        At least `run_key`, `host`, `window`; repeated rows count once. A caller with many runs may read just
        these columns, choose, and then read the features of the chosen windows only: the fit is the same.
    settings : DetectorSettings
        `max_windows`, `random_state`.

    Returns
    -------
    polars.DataFrame
        `run_key`, `host`, `window`, sorted. Whole runs, if there is room; else stretches of 60 windows (moving
        averages need neighbours), which begin at other places in every run. Of more runs than there is room for, a
        seeded choice.
    """
    keys = windows.select(WINDOW_KEY).unique().sort(WINDOW_KEY)
    if keys.height <= settings.max_windows:
        return keys
    runs = keys.partition_by("run_key", "host", maintain_order=True)
    room = max(1, settings.max_windows // _STRETCH)
    if len(runs) > room:
        chosen = np.random.default_rng(settings.random_state).choice(len(runs), room, replace=False)
        runs = [runs[i] for i in np.sort(chosen)]
    stretches = max(1, room // len(runs))
    return pl.concat([run[_stretches(run.height, stretches, turn)] for turn, run in enumerate(runs)])


def _stretches(height: int, number: int, turn: int) -> Ints:
    """Rows of a run: so many stretches evenly over it; where they begin takes turns over the runs."""
    if height <= number * _STRETCH:
        return np.arange(height)
    spare = height - number * _STRETCH
    # multiples of the golden ratio fill the interval evenly, however many there are
    shift = turn * 0.6180339887498949 % 1.0
    begins = np.floor((np.arange(number) + shift) * spare / number).astype(int) + np.arange(number) * _STRETCH
    return np.asarray((begins[:, None] + np.arange(_STRETCH)).ravel())
