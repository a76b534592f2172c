"""What a report is made from: the tables of one run, and what the run was compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.reports.tables import ANOMALY_EPISODES

PRESENCE = "maximum"
"""A feature that every metric has which has data in a window, whatever its class."""
OF_FEATURES = ("host", "metric", "window", "windows", PRESENCE)
"""Columns of `window_features` that a report looks at."""


@dataclass(frozen=True)
class Evidence:
    """The tables of one run.

    Attributes
    ----------
    run : mapping
        Its row of `run_files`.
    features : polars.DataFrame
        `window_features`; the columns `OF_FEATURES` are enough.
    offsets : polars.DataFrame
        Table `level_offsets`.
    deviations : polars.DataFrame
        Its rows of `host_deviations`, if hosts were compared.
    """

    run: Mapping[str, Any]
    quality: pl.DataFrame = field(default_factory=QUALITY_METRICS.empty)
    features: pl.DataFrame = field(default_factory=WINDOW_FEATURES.empty)
    scores: pl.DataFrame = field(default_factory=ANOMALY_SCORES.empty)
    reasons: pl.DataFrame = field(default_factory=ANOMALY_REASONS.empty)
    episodes: pl.DataFrame = field(default_factory=ANOMALY_EPISODES.empty)
    offsets: pl.DataFrame = field(default_factory=LEVEL_OFFSETS.empty)
    deviations: pl.DataFrame = field(default_factory=HOST_DEVIATIONS.empty)

    @property
    def windows(self) -> int:
        """Number of windows that have features, over all hosts."""
        return self.features.select("host", "window").unique().height


@dataclass(frozen=True)
class ComparedWith:
    """What a run was judged by.

    Attributes
    ----------
    baseline : str
        In words.
    own : bool
        It is of the run's workload, and not of its whole platform for want of one.
    alone : bool
        It was made of this run and no other ...
    past : bool
        ... on purpose: of its first windows.
    hosts : frozenset of str, optional
        Hosts of the baseline's runs; None: not known.
    """

    baseline: str
    own: bool = True
    alone: bool = False
    past: bool = False
    hosts: frozenset[str] | None = None
