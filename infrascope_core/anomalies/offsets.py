"""Offsets: in what a run differs from its references as a whole, as the table `level_offsets`.

What belongs here: from the level of each run and host (`levels`) to metrics, with how much more than references differ
among themselves. That is a finding of its own, and no alarm from start to end: another host, another kernel, pages that
were set aside, a job that holds memory.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
import polars as pl
import yaml

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import LEVEL_OFFSETS
from infrascope_core.numeric import Array, Ints, median
from infrascope_core.run_files.columns import subsystem

LEVEL_FEATURES = ("mean", "median", "minimum", "maximum")
"""Features that say where a metric is; the others say how it moves there."""


def level_offsets(baseline: Baseline, residuals: Residuals, settings: DetectorSettings) -> pl.DataFrame:
    """Name the metrics whose level is another than that of the references.

    Parameters
    ----------
    baseline : Baseline
        The one that judged the windows.
    residuals : Residuals
        All windows of some runs.
    settings : DetectorSettings
        `differs_at`.

    Returns
    -------
    polars.DataFrame
        Table `level_offsets`, by run, host and rank: a row per metric, with that feature of its level which departs
        most, if it is beyond what references differ by. Of what was watched for long, the last period counts.
    """
    levels, names = residuals.levels, baseline.names
    located = np.array([feature in LEVEL_FEATURES for _, feature in names])
    metrics = np.array([metric for metric, _ in names])
    last = levels.keys.with_row_index("row").group_by("run_key", "host", maintain_order=True).agg(pl.col("row").last())
    parts = [LEVEL_OFFSETS.empty()]
    for run_key, host, row in last.iter_rows():
        offset = levels.offsets[row]
        times = np.where(located, np.abs(offset) / baseline.between, 0.0)
        columns = np.flatnonzero(times > 1.0)
        columns = columns[np.argsort(-times[columns], kind="stable")]
        _, first = np.unique(metrics[columns], return_index=True)
        columns = columns[np.sort(first)]
        quiet = levels.quiet[row]
        parts.append(
            pl.DataFrame(
                {
                    "run_key": run_key,
                    "host": host,
                    "rank": np.arange(1, len(columns) + 1),
                    "subsystem": [subsystem(metrics[column]) for column in columns],
                    "metric": metrics[columns],
                    "feature": [names[column][1] for column in columns],
                    "value": median(residuals.values[np.ix_(quiet, columns)], 0),
                    "expected": _references(baseline, residuals.expected[np.ix_(quiet, columns)], offset, columns),
                    "offset": offset[columns],
                    "times": times[columns],
                    "differs": [
                        t >= settings.differs_at and not _left_behind(str(metrics[column]))
                        for t, column in zip(times[columns], columns, strict=True)
                    ],
                },
                schema=LEVEL_OFFSETS.schema,
            )
        )
    return pl.concat(parts)


@lru_cache(maxsize=65_536)
def _left_behind(metric: str) -> bool:
    """Whether a metric's level is what other runs left on the host."""
    return any(pattern.search(metric) for pattern in _patterns())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    patterns = yaml.safe_load((files(__package__) / "left_behind.yaml").read_text(encoding="utf-8"))
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _references(baseline: Baseline, expected: Array, offset: Array, columns: Ints) -> Array:
    """The references' level in own units: what is expected, less the run's own offset."""
    moments = baseline.moments
    own = np.where(moments.constant[columns], 0.0, offset[columns] * moments.scale[columns])
    return median(expected - own, 0)
