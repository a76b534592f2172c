"""The tables of the stage: episodes and the verdict on a run."""

from __future__ import annotations

import polars as pl

from infrascope_core.contract import EPISODE_KEY, HOST, INT, REAL, RUN_KEY, TEXT, TEXTS, TIME, Column, Table

ANOMALY_EPISODES = Table(
    "anomaly_episodes",
    "Neighbouring anomalous windows of a host, merged: where the trouble is, what else moved, and in which order.",
    EPISODE_KEY,
    (
        RUN_KEY,
        HOST,
        Column("episode", INT, "number within run and host, from 0, in time"),
        Column("start_ts", TIME, "start of its first anomalous window, naive UTC"),
        Column("end_ts", TIME, "end of its last anomalous window"),
        Column("first_window", INT, "number of its first anomalous window"),
        Column("last_window", INT, "number of its last anomalous window"),
        Column("windows", INT, "anomalous windows in it"),
        Column("peak_window", INT, "window with the largest surprisal"),
        Column("peak_ts", TIME, "start of that window"),
        Column("total_surprisal", REAL, "sum over its anomalous windows: episodes rank by it"),
        Column("surprisal", REAL, "largest surprisal"),
        Column("severity", REAL, "largest severity"),
        Column("detectors", TEXTS, "detectors that flag a window of it"),
        Column("subsystem", TEXT, "subsystem with the largest share of the evidence"),
        Column("subsystems", TEXTS, "all subsystems that carry the episode, by falling share"),
        Column("shares", pl.List(REAL), "their shares of the evidence, summing to at most 1"),
        Column("onset", TEXTS, "the same subsystems in the order in which they became abnormal"),
        Column("metrics", TEXTS, "metrics by falling evidence"),
        Column("claims", TEXTS, "one claim for each of the strongest reasons"),
        Column("states_before", TEXTS, "items of the baskets before it, each the most frequent of its group"),
        Column("states_during", TEXTS, "items of the baskets within it"),
        Column("states_after", TEXTS, "items of the baskets after it"),
        Column("broken_rules", TEXTS, "mined rules whose left side holds within it and whose right side does not"),
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
        Column("verdict", TEXT, "anomalous, normal or not_judged"),
        Column("why", TEXT, "the verdict's reason in one sentence"),
        Column("subsystem", TEXT, "first subsystem of the worst episode"),
        Column("episodes", INT, "number of episodes"),
        Column("windows", INT, "windows of the run"),
        Column("anomalous_windows", INT, "windows with an alarm"),
        Column("not_watched", TEXTS, "subsystems with no usable metric"),
        Column("baseline", TEXT, "what the run was compared with"),
        Column("next_step", TEXT, "what to look at first"),
        Column("markdown", TEXT, "file of the report, relative to the data folder"),
        Column("json", TEXT, "the same as JSON, relative to the data folder"),
    ),
)
