"""The report on a run as data: what it says, and the schema of its JSON.

What belongs here: the fields, and what each of them means. `verdict` fills them, `rendering` shows them.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 2
"""Raised when a field of the JSON changes its meaning or goes."""

Verdict = Literal["anomalous", "differs", "normal", "not_judged"]
"""An alarm within the run; none, but it differs from its references as a whole; neither; nothing could be judged."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Share(_Part):
    """A subsystem and its share of an episode's evidence."""

    subsystem: str
    share: float


class Change(_Part):
    """The usual level of a metric group before, during and after an episode; null: it had no data."""

    metric_group: str
    before: str | None
    during: str | None
    after: str | None


class EpisodeReport(_Part):
    """An episode: a row of `anomaly_episodes`, and what to do."""

    host: str
    start: datetime
    end: datetime
    peak: datetime
    first_window: int
    last_window: int
    peak_window: int
    windows: int
    total_surprisal: float | None = Field(description="sum over its anomalous windows: episodes rank by it")
    surprisal: float | None = Field(description="-log10 of a normal window's probability; null if not finite")
    severity: float | None
    detectors: list[str]
    subsystems: list[Share] = Field(description="subsystems that carry it, by falling share")
    onset: list[str] = Field(description="the same subsystems in the order in which they became abnormal")
    metrics: list[str]
    claims: list[str]
    changes: list[Change] = Field(description="metric groups whose level differs from before or after")
    broken_rules: list[str]
    retransmissions: str | None
    headline: str
    next_step: str


class Reason(_Part):
    """A metric and the feature of it that is abnormal."""

    metric: str
    feature: str


class WindowRow(_Part):
    """A row of Reveal's table 4."""

    host: str
    window: int
    start: datetime
    methods: list[str] = Field(description="Z, MAHA, IF, as in the paper; PEAKS")
    surprisal: float | None
    subsystem: str | None
    reasons: list[Reason]
    claim: str | None


class Deviation(_Part):
    """A metric in which the host departs from the other hosts of its job."""

    host: str
    metric: str
    subsystem: str | None
    value: float | None
    expected: float | None
    robust_z: float | None
    persistence: float | None
    direction: str | None
    claim: str


class Offset(_Part):
    """A metric whose level is another than the references' throughout the run: a row of `level_offsets`."""

    host: str
    subsystem: str | None
    metric: str
    feature: str
    value: float | None
    expected: float | None
    times: float = Field(description="its distance from the references, over theirs from each other")
    claim: str


class Unwatched(_Part):
    """A subsystem with no usable metric."""

    subsystem: str
    reason: str


class RunReport(_Part):
    """The report on a run. Times are naive UTC as the file gives them; null is missing."""

    schema_version: int = SCHEMA_VERSION
    run_key: str
    platform: str
    phase: str
    workload: str
    hosts: list[str]
    started_at: datetime | None
    verdict: Verdict
    why: str
    next_step: str
    baseline: str
    windows: int
    judged_windows: int
    flagged_windows: int
    anomalous_windows: int
    limits: list[str] = Field(description="what limits the verdict, one sentence each")
    episodes: list[EpisodeReport] = Field(description="the strongest first")
    table: list[WindowRow] = Field(description="anomalous windows in time; at most `table_rows`")
    table_left_out: int
    offsets: list[Offset] = Field(
        description="in what the run differs as a whole, the farthest first; at most `offsets`"
    )
    offsets_left_out: int
    deviations: list[Deviation]
    not_watched: list[Unwatched]


def json_schema() -> str:
    """The schema of a report's JSON: `docs/report.schema.json`."""
    return json.dumps(RunReport.model_json_schema(), indent=1, sort_keys=True) + "\n"
