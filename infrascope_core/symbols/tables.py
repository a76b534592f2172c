"""The tables of the stage: groups, windows, levels and baskets."""

from __future__ import annotations

from infrascope_core.contract import (
    FLAG,
    HOST,
    HOST_KEY,
    INT,
    METRIC,
    METRIC_GROUP,
    PLATFORM,
    REAL,
    RUN_KEY,
    SAMPLE,
    START_TS,
    TEXT,
    TS,
    WINDOW,
    WINDOW_KEY,
    Column,
    Table,
)

CURATED_METRICS = Table(
    "curated_metrics",
    "The columns of the recipe's metric groups, one row per sample.",
    (*HOST_KEY, "metric_group", "metric", "sample"),
    (
        RUN_KEY,
        HOST,
        METRIC_GROUP,
        METRIC,
        SAMPLE,
        TS,
        Column("value", REAL, "value in the metric's unit"),
    ),
    bulk=True,
)
GROUP_WINDOWS = Table(
    "group_windows",
    "One value per metric group and window; a window without data has no row.",
    (*WINDOW_KEY, "metric_group"),
    (
        RUN_KEY,
        HOST,
        WINDOW,
        METRIC_GROUP,
        START_TS,
        Column("value", REAL, "reduced value, in the group's unit", of=("curated_metrics.value",)),
        Column("samples", INT, "values behind it", of=("curated_metrics.sample",)),
        Column("metrics", INT, "columns behind it", of=("curated_metrics.metric",)),
    ),
)
THRESHOLDS = Table(
    "thresholds",
    "What LOW, MED and HIGH mean. Fitted: later runs are judged by them until a refit.",
    ("platform", "metric_group"),
    (
        PLATFORM,
        METRIC_GROUP,
        Column("low", REAL, "LOW is at or below it (see method for the exceptions)", of=("group_windows.value",)),
        Column("high", REAL, "MED is at or below it, HIGH above", of=("group_windows.value",)),
        Column("method", TEXT, "how they were found: terciles, or mode_low, mode_med, mode_high, mode_both"),
        Column("samples", INT, "values they were fitted on", of=("group_windows.value",)),
        Column("low_share", REAL, "share of the windows at that time that is LOW", of=("group_windows.value",)),
        Column("med_share", REAL, "share of the windows that is MED", of=("group_windows.value",)),
        Column("high_share", REAL, "share of the windows that is HIGH", of=("group_windows.value",)),
        Column(
            "degenerate",
            FLAG,
            "the levels carry no information: no two of them hold 5 % of the windows each and meet in 3 runs",
            of=("group_windows.value",),
        ),
        Column("version", TEXT, "hash of the platform's thresholds"),
    ),
)
BASKETS = Table(
    "baskets",
    "One LOW, MED or HIGH per group and window; a group without data in a window has no item.",
    (*WINDOW_KEY, "metric_group"),
    (
        RUN_KEY,
        HOST,
        WINDOW,
        METRIC_GROUP,
        START_TS,
        Column("value", REAL, "value of the window", of=("group_windows.value",)),
        Column(
            "level",
            TEXT,
            "LOW, MED or HIGH",
            of=("group_windows.value", "thresholds.low", "thresholds.high"),
        ),
        Column(
            "item",
            TEXT,
            "GROUP_LEVEL",
            of=("group_windows.metric_group", "group_windows.value"),
        ),
    ),
)
