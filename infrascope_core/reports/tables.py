"""The tables of the stage: episodes and the verdict on a run."""

from __future__ import annotations

import polars as pl

from infrascope_core.contract import (
    EPISODE_KEY,
    FLAG,
    HOST,
    INT,
    METRIC,
    PHASE,
    PLATFORM,
    REAL,
    RUN_KEY,
    SUBSYSTEM,
    TEXT,
    TEXTS,
    TIME,
    WORKLOAD,
    WORKLOAD_KEY,
    Column,
    Table,
)

ANOMALY_EPISODES = Table(
    "anomaly_episodes",
    "Neighbouring anomalous windows of a host, merged: where the trouble is, what else moved, and in which order.",
    EPISODE_KEY,
    (
        RUN_KEY,
        HOST,
        Column("episode", INT, "number within run and host, from 0, in time"),
        Column(
            "start_ts",
            TIME,
            "start of its first anomalous window, naive UTC",
            of=("anomaly_scores.start_ts", "anomaly_scores.anomalous"),
        ),
        Column(
            "end_ts",
            TIME,
            "end of its last anomalous window",
            of=("anomaly_scores.start_ts", "anomaly_scores.anomalous"),
        ),
        Column("first_window", INT, "number of its first anomalous window", of=("anomaly_scores.window",)),
        Column("last_window", INT, "number of its last anomalous window", of=("anomaly_scores.window",)),
        Column("windows", INT, "anomalous windows in it", of=("anomaly_scores.anomalous",)),
        Column("peak_window", INT, "window with the largest surprisal", of=("anomaly_scores.window",)),
        Column("peak_ts", TIME, "start of that window", of=("anomaly_scores.start_ts",)),
        Column(
            "total_surprisal",
            REAL,
            "sum over its anomalous windows: episodes rank by it",
            of=("anomaly_scores.surprisal",),
        ),
        Column("surprisal", REAL, "largest surprisal", of=("anomaly_scores.surprisal",)),
        Column("severity", REAL, "largest severity", of=("anomaly_scores.severity",)),
        Column("detectors", TEXTS, "detectors that flag a window of it", of=("anomaly_scores.flagged_by",)),
        Column(
            "subsystem",
            TEXT,
            "subsystem with the largest share of the evidence",
            of=("anomaly_reasons.subsystem", "anomaly_reasons.contribution"),
        ),
        Column(
            "subsystems",
            TEXTS,
            "all subsystems that carry the episode, by falling share",
            of=("anomaly_reasons.subsystem", "anomaly_reasons.contribution"),
        ),
        Column(
            "shares",
            pl.List(REAL),
            "their shares of the evidence, summing to at most 1",
            of=("anomaly_reasons.contribution",),
        ),
        Column(
            "onset",
            TEXTS,
            "the same subsystems in the order in which they became abnormal",
            of=("anomaly_reasons.subsystem",),
        ),
        Column(
            "metrics",
            TEXTS,
            "metrics by falling evidence",
            of=("anomaly_reasons.metric", "anomaly_reasons.contribution"),
        ),
        Column("claims", TEXTS, "one claim for each of the strongest reasons", of=("anomaly_reasons.claim",)),
        Column(
            "states_before",
            TEXTS,
            "items of the baskets before it, each the most frequent of its group",
            of=("baskets.item",),
        ),
        Column("states_during", TEXTS, "items of the baskets within it", of=("baskets.item",)),
        Column("states_after", TEXTS, "items of the baskets after it", of=("baskets.item",)),
        Column(
            "broken_rules",
            TEXTS,
            "mined rules whose left side holds within it and whose right side does not",
            of=("association_rules.antecedent", "association_rules.consequent"),
        ),
        Column(
            "retransmissions", TEXT, "workload-intrinsic or fault-induced, where retransmissions are among its evidence"
        ),
        Column("headline", TEXT, "the episode in one sentence"),
    ),
)
ANOMALY_REPORT = Table(
    "anomaly_report",
    "The verdict on every run; the text lies beside the warehouse, as markdown and as JSON.",
    ("run_key",),
    (
        RUN_KEY,
        Column("verdict", TEXT, "anomalous, differs (as a whole, with no alarm within it), normal or not_judged"),
        Column("why", TEXT, "the verdict's reason in one sentence"),
        Column(
            "subsystem",
            TEXT,
            "first subsystem of the worst episode; without one, of what differs most as a whole",
            of=("anomaly_episodes.subsystem", "level_offsets.subsystem"),
        ),
        Column("differs", FLAG, "the run differs from its references as a whole", of=("level_offsets.differs",)),
        Column("episodes", INT, "number of episodes", of=("anomaly_episodes.episode",)),
        Column("windows", INT, "windows of the run", of=("anomaly_scores.window",)),
        Column("anomalous_windows", INT, "windows with an alarm", of=("anomaly_scores.anomalous",)),
        Column("not_watched", TEXTS, "subsystems with no usable metric", of=("quality_metrics.verdict",)),
        Column("baseline", TEXT, "what the run was compared with", of=("baselines.compared_with",)),
        Column("next_step", TEXT, "what to look at first"),
        Column("markdown", TEXT, "file of the report, relative to the data folder"),
        Column("json", TEXT, "the same as JSON, relative to the data folder"),
    ),
)
ANOMALY_PATTERNS = Table(
    "anomaly_patterns",
    "What the abnormal time of each workload is about, over all its runs (Reveal, section 5.6).",
    (*WORKLOAD_KEY, "subsystem", "metric", "feature"),
    (
        PLATFORM,
        PHASE,
        WORKLOAD,
        SUBSYSTEM,
        METRIC,
        Column("feature", TEXT, "feature of the metric", of=("anomaly_reasons.feature",)),
        Column(
            "windows", INT, "windows with an alarm of which it is the first reason", of=("anomaly_scores.anomalous",)
        ),
        Column("seconds", REAL, "their time: each counts for the stride of windows", of=("anomaly_scores.start_ts",)),
        Column("share", REAL, "seconds / judged time of the workload", of=("anomaly_scores.anomalous",)),
        Column("of_anomalous", REAL, "seconds / abnormal time of the workload", of=("anomaly_scores.anomalous",)),
        Column("runs", INT, "runs in which it occurs", of=("anomaly_scores.run_key",)),
        Column("hosts", INT, "hosts on which it occurs", of=("anomaly_scores.host",)),
    ),
)
