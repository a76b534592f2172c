"""The tables of the stage: what arrives, and what was rejected."""

from __future__ import annotations

from typing import Literal

from infrascope_core.contract import (
    FLAG,
    HOST,
    HOST_KEY,
    INT,
    PHASE,
    PLATFORM,
    REAL,
    RUN_KEY,
    SAMPLE,
    TEXT,
    TEXTS,
    TIME,
    TS,
    WORKLOAD,
    Column,
    Table,
)

Platform = Literal["gpu", "cpu"]
PLATFORMS: tuple[Platform, ...] = ("gpu", "cpu")

TELEMETRY = Table(
    "telemetry",
    "Typed samples under host-free metric names: one wide Parquet file per run, with a column per metric.",
    (*HOST_KEY, "sample"),
    (
        RUN_KEY,
        HOST,
        SAMPLE,
        TS,
    ),
    wide=True,
    bulk=True,
)
RUN_FILES = Table(
    "run_files",
    "Every run file that was found, with what its name and content say, or why it was rejected.",
    ("run_key",),
    (
        RUN_KEY,
        PLATFORM,
        PHASE,
        Column("mode", TEXT, "llm or nonllm"),
        Column("model", TEXT, "model, from the file name"),
        Column("task", TEXT, "task, from the file name"),
        Column("dataset", TEXT, "dataset, from the file name"),
        WORKLOAD,
        Column("host", TEXT, "host, from the file name"),
        Column("started_at", TIME, "start time, from the file name"),
        Column("hosts", TEXTS, "hosts whose metrics the file holds"),
        Column("first_ts", TIME, "earliest time of a sample"),
        Column("last_ts", TIME, "latest time of a sample"),
        Column("seconds", REAL, "how long the run took by the clock: samples may be lost"),
        Column("samples", INT, "rows of the file"),
        Column("metrics", INT, "metric columns of the file"),
        Column("interval_s", REAL, "median time between samples, seconds"),
        Column("bytes", INT, "size of the file as it lies"),
        Column("sha256", TEXT, "hash of the file as it lies"),
        Column("source", TEXT, "where the file lies"),
        Column("labelled", FLAG, "a readable label file lies beside it; without a row there it is known to be healthy"),
        Column("status", TEXT, "accepted or rejected"),
        Column("reason", TEXT, "why it was rejected"),
    ),
)
FAULTS = Table(
    "faults",
    "Known faults (labels) from the `.faults.csv` beside a run file.",
    ("run_key", "start", "end", "fault"),
    (
        RUN_KEY,
        Column("start", TIME, "first moment of the fault, inclusive"),
        Column("end", TIME, "last moment of the fault, inclusive"),
        Column("fault", TEXT, "name of the fault"),
        Column("subsystem", TEXT, "subsystem the fault acts on"),
        Column("metrics", TEXTS, "culprit metrics, host-free"),
    ),
)
METRIC_TYPES = Table(
    "metric_types",
    "What is declared about the metrics of a run: the `.metrics.csv` beside its run file.",
    ("run_key", "metric"),
    (
        RUN_KEY,
        Column("metric", TEXT, "metric, host-free"),
        Column("type", TEXT, "counter (grows from boot on), gauge (a level), or state (a code, no quantity)"),
        Column("origin", TEXT, "what the source of the telemetry calls it"),
    ),
)
REJECTED_FILES = Table(
    "rejected_files",
    "Files that could not be used, each with one sentence that says why.",
    ("path",),
    (
        Column("path", TEXT, "where the file lies", of=("run_files.source",)),
        RUN_KEY,
        Column("reason", TEXT, "what is wrong and what was expected", of=("run_files.reason",)),
        Column("seen_at", TIME, "when it was last looked at, UTC", volatile=True),
    ),
)
RUN_INVENTORY = Table(
    "run_inventory",
    "What each source holds, beside what its own tables (`meta_gpu.csv`) say and what was found in the files read.",
    ("source", "file"),
    (
        Column("source", TEXT, "folder, archive or data set, as it was named"),
        Column("file", TEXT, "where the file lies; as its table spells it, if it is only described"),
        RUN_KEY,
        Column("commit", TEXT, "commit of the data set that was listed"),
        Column("listed", FLAG, "the source holds it"),
        Column("described", FLAG, "a table of the source has a row for it; null if the source has no such table"),
        PHASE,
        Column("mode", TEXT, "llm or nonllm; this, the phase and the workload are the table's, else the name's"),
        WORKLOAD,
        Column("size", INT, "bytes, unpacked if it lies in an archive"),
        Column("packed", INT, "bytes that it takes in its archive"),
        Column("rows", INT, "rows by the table"),
        Column("samples", INT, "rows that were read", of=("run_files.samples",)),
        Column("columns", INT, "metric columns by the table"),
        Column("metrics", INT, "metric columns that were read", of=("run_files.metrics",)),
        Column("differs", TEXTS, "what the table says otherwise: phase, mode, workload, rows, columns"),
    ),
)
