"""The tables of the stage: hosts of one job against each other."""

from __future__ import annotations

from infrascope_core.contract import (
    FLAG,
    HOST,
    INT,
    METRIC,
    PLATFORM,
    REAL,
    RUN_KEY,
    SUBSYSTEM,
    TEXT,
    UNIT,
    Column,
    Table,
)

HOST_DEVIATIONS = Table(
    "host_deviations",
    "Hosts of one job (or of one file) compared metric by metric: who departs from the others, and for how long. "
    "A metric in which a host equals the others has no row.",
    ("job", "host", "metric"),
    (
        Column("job", TEXT, "run key of the job's first run"),
        HOST,
        METRIC,
        RUN_KEY,
        PLATFORM,
        SUBSYSTEM,
        UNIT,
        Column("hosts", INT, "hosts of the job that have the metric"),
        Column("windows", INT, "windows (of 1 s) in which it was compared"),
        Column("value", REAL, "median of the host's windows"),
        Column("expected", REAL, "median of the other hosts in the same windows"),
        Column("robust_z", REAL, "difference over the spread between and within hosts (median absolute deviation)"),
        Column("persistence", REAL, "share of the windows in which the host departs in that direction"),
        Column("direction", TEXT, "above or below"),
        Column("steady", FLAG, "the metric does not move on the host: configuration rather than work"),
        Column("deviates", FLAG, "far enough, for long enough, to be reported"),
        Column("ambiguous", FLAG, "one of two hosts, and no other job tells which of them departs: both are listed"),
        Column("jobs", INT, "jobs in which the host was compared"),
        Column("jobs_deviating", INT, "those in which it deviates in this metric and direction"),
        Column("claim", TEXT, "the deviation in words, where it deviates"),
    ),
)
