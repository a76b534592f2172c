"""The tables of the stage: facts and verdicts about metrics."""

from __future__ import annotations

from infrascope_core.contract import (
    HOST,
    HOST_KEY,
    INT,
    METRIC,
    PHASE,
    PLATFORM,
    REAL,
    RUN_KEY,
    SUBSYSTEM,
    TEXT,
    UNIT,
    WORKLOAD,
    WORKLOAD_KEY,
    Column,
    Table,
)

QUALITY_METRICS = Table(
    "quality_metrics",
    "Per run, host and metric: what is missing, zero, constant or infinite (left out of the statistics).",
    (*HOST_KEY, "metric"),
    (
        RUN_KEY,
        HOST,
        METRIC,
        UNIT,
        SUBSYSTEM,
        Column("samples", INT, "rows of this host"),
        Column("missing", INT, "rows without a value"),
        Column("infinite", INT, "rows with an infinite value"),
        Column("zeros", INT, "rows with the value 0"),
        Column("mean", REAL, "mean"),
        Column("std", REAL, "standard deviation, ddof 1"),
        Column("cv", REAL, "std / mean; 0 where the mean is 0"),
        Column("min", REAL, "smallest value"),
        Column("max", REAL, "largest value"),
        Column("distinct", INT, "different values"),
        Column("rises", INT, "samples above the last known one before"),
        Column("falls", INT, "samples below the last known one before"),
        Column("declared", TEXT, "what the run file's types say it is: counter, gauge or state"),
        Column("verdict", TEXT, "usable, missing, zero or constant, in this run; regular or gaps for `interval[s]`"),
    ),
)
METRIC_CATALOG = Table(
    "metric_catalog",
    "Which metrics can be trusted on a platform, and why not. Fitted: kept until a refit.",
    ("platform", "metric"),
    (
        PLATFORM,
        Column(
            "metric",
            TEXT,
            "metric; with the host in it where the recipe pools by column name",
            of=("quality_metrics.metric",),
        ),
        Column("unit", TEXT, "unit as the file gives it; per second where the treatment is rate"),
        SUBSYSTEM,
        Column(
            "runs",
            INT,
            "runs that have the metric; of a derived one, those that were looked at",
            of=("quality_metrics.run_key",),
        ),
        Column(
            "status",
            TEXT,
            "usable, always_missing, always_zero, near_constant or redundant",
            of=("quality_metrics.verdict",),
        ),
        Column("reason", TEXT, "the figures behind the status"),
        Column(
            "declared",
            TEXT,
            "counter, gauge or state, where types beside the run files say so and do not contradict each other; else "
            "null, and names and behaviour decide",
            of=("quality_metrics.declared",),
        ),
        Column("metric_class", TEXT, "dynamic, event_counter or static: which features a window of it gets"),
        Column("treatment", TEXT, "as_is; rate (a cumulative counter, as change per second); derived (from others)"),
        Column("formula", TEXT, "how a derived metric is made"),
        Column("represented_by", TEXT, "the selected metric that stands for a redundant one"),
        Column(
            "correlation",
            REAL,
            "mean Pearson r of a redundant metric with that one, in the workload where |r| is largest",
        ),
    ),
)
PRUNING_CURVE = Table(
    "pruning_curve",
    "What metric selection keeps at each correlation threshold (Reveal, figure 4).",
    (*WORKLOAD_KEY, "threshold"),
    (
        PLATFORM,
        PHASE,
        WORKLOAD,
        Column("threshold", REAL, "|r| above which two metrics are one cluster"),
        Column("metrics", INT, "metrics before selection"),
        Column("selected_ratio", REAL, "share of the metrics that is kept"),
        Column("mean_max_r", REAL, "mean over metrics of the largest |r| with another kept metric"),
        Column("multi_r2", REAL, "mean R2 of each metric, predicted linearly from the other kept ones"),
    ),
)
