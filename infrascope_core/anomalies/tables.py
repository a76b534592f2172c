"""The tables of the stage: features, baselines, scores and reasons."""

from __future__ import annotations

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.contract import (
    FLAG,
    HOST,
    HOST_KEY,
    INT,
    METRIC,
    PLATFORM,
    REAL,
    RUN_KEY,
    SINGLE,
    START_TS,
    SUBSYSTEM,
    TEXT,
    TEXTS,
    TIME,
    WINDOW,
    WINDOW_KEY,
    WORKLOAD_KEY,
    Column,
    Table,
)

FEATURES = (
    "mean",
    "variance",
    "standard_deviation",
    "skewness",
    "kurtosis",
    "minimum",
    "maximum",
    "median",
    "autocorrelation__lag_1",
    'linear_trend__attr_"slope"',
    "sum_values",
    "mean_abs_change",
    'dickey_fuller__attr_"teststat"',
)
"""The features of a window, under tsfresh's names (without the metric's prefix)."""
STORED_FEATURES = tuple(feature for feature in FEATURES if feature != "variance")
"""Those that are kept: the variance is the square of the standard deviation."""
_OF_FEATURES = tuple(f"window_features.{feature}" for feature in STORED_FEATURES)
_MEANINGS = {
    "standard_deviation": "as tsfresh defines it; its square is the variance",
    "sum_values": "as tsfresh defines it, of event counters; of other metrics it is the mean times the samples",
}

WINDOW_FEATURES = Table(
    "window_features",
    "Statistical and temporal features of every usable metric in sliding windows. Successive windows in which a metric "
    "has the same features are one row; every window is the first of some row.",
    (*WINDOW_KEY, "metric"),
    (
        RUN_KEY,
        HOST,
        METRIC,
        WINDOW,
        Column("windows", INT, "number of windows, this one and those that follow it, that the row holds for"),
        START_TS,
        Column("samples", INT, "samples of a window"),
        *(
            Column(f, SINGLE, _MEANINGS.get(f, "as tsfresh defines it; none where it is not defined"))
            for f in STORED_FEATURES
        ),
    ),
    bulk=True,
)
STRUCTURAL_CHANGES = Table(
    "structural_changes",
    "Metrics whose telemetry itself changes for a while: they give no values, or the same one again and again.",
    (*HOST_KEY, "number"),
    (
        RUN_KEY,
        HOST,
        Column("number", INT, "1 is the first of the host"),
        METRIC,
        Column("kind", TEXT, "`missing`: samples have no value; `still`: what changes all the time does not"),
        Column("start_ts", TIME, "the first sample of it", of=("telemetry.ts",)),
        Column("end_ts", TIME, "the last sample of it", of=("telemetry.ts",)),
        Column("surprisal", REAL, "-log10 of how likely that is after all the other samples (rule of succession)"),
    ),
)
BASELINES = Table(
    "baselines",
    "What normal looks like for a workload. Fitted: later runs are judged by it until a refit.",
    WORKLOAD_KEY,
    (
        PLATFORM,
        Column("phase", TEXT, "train, infer or fine-tuning; `any` where it serves all"),
        Column("workload", TEXT, "MODEL__TASK__DATASET; `any` for the platform's, which serves workloads without one"),
        Column("compared_with", TEXT, "workload: its runs; reference: its runs that are known to be healthy, or named"),
        Column("windows", INT, "windows it was fitted on"),
        Column("runs", INT, "runs it was fitted on"),
        Column("metrics", INT, "metrics it includes"),
        Column("features", TEXT, "hash of how the features of its windows were computed: code and settings"),
        Column("fitted_at", TIME, "when, UTC", volatile=True),
        Column("version", TEXT, "hash of what it was fitted on"),
        Column("file", TEXT, "model file, relative to the data folder"),
    ),
)
ANOMALY_SCORES = Table(
    "anomaly_scores",
    "The detectors' scores of every feature window, who flags it, and what that means together.",
    WINDOW_KEY,
    (
        RUN_KEY,
        HOST,
        WINDOW,
        START_TS,
        *(Column(detector.name, REAL, detector.about, of=_OF_FEATURES) for detector in DETECTORS.values()),
        Column("flagged_by", TEXTS, "detectors above their baseline's quantile", of=_OF_FEATURES),
        Column("agreement", INT, "number of detectors that flag"),
        Column("severity", REAL, "largest score over its flag threshold; above 1 is flagged", of=_OF_FEATURES),
        Column(
            "surprisal",
            REAL,
            "-log10 of the calibrated probability that a normal window scores as high",
            of=_OF_FEATURES,
        ),
        Column(
            "anomalous",
            FLAG,
            "an alarm: by itself or with its neighbours, not just one of the top 1 %",
            of=_OF_FEATURES,
        ),
        Column("baseline_version", TEXT, "version of the baseline that judged it", of=("baselines.version",)),
    ),
)
ANOMALY_REASONS = Table(
    "anomaly_reasons",
    "Why a window is flagged: metrics and features in order of contribution, with a claim in words.",
    (*WINDOW_KEY, "rank"),
    (
        RUN_KEY,
        HOST,
        WINDOW,
        Column("rank", INT, "1 is the largest contribution"),
        SUBSYSTEM,
        METRIC,
        Column("feature", TEXT, "feature of the metric; or `missing`, `still`: it has no value, or does not move"),
        Column("detectors", TEXTS, "detectors that flag the window", of=("anomaly_scores.flagged_by",)),
        Column("value", REAL, "the feature's value", of=_OF_FEATURES),
        Column("expected", REAL, "what the baseline expects of it there"),
        Column("contribution", REAL, "share of the window's evidence, 0..1"),
        Column(
            "subsystem_share", REAL, "share of the window's evidence that lies on the subsystem, over all its features"
        ),
        Column("claim", TEXT, "what changed, in which direction, by how much"),
    ),
)
LEVEL_OFFSETS = Table(
    "level_offsets",
    "In what a run differs from its references as a whole: metrics whose own level, in quiet windows, is another.",
    (*HOST_KEY, "rank"),
    (
        RUN_KEY,
        HOST,
        Column("rank", INT, "1 departs most"),
        SUBSYSTEM,
        METRIC,
        Column("feature", TEXT, "feature of its level that departs most"),
        Column("value", REAL, "the feature's median over the run's quiet windows", of=_OF_FEATURES),
        Column("expected", REAL, "the same of the most similar windows of the references"),
        Column("offset", REAL, "the difference, in the baseline's scales"),
        Column("times", REAL, "the difference over what levels of references differ by among themselves"),
        Column("differs", FLAG, "it is beyond `detectors.differs_at`, and no cache: the run differs as a whole"),
    ),
)
METRIC_DEVIATIONS = Table(
    "metric_deviations",
    "How far every metric is from what is expected of it, over time: runs in at most 300 stretches of windows. All "
    "metrics, whether or not there is an alarm.",
    (*HOST_KEY, "metric", "stretch"),
    (
        RUN_KEY,
        HOST,
        METRIC,
        Column("stretch", INT, "number of the stretch of successive windows, from 0"),
        Column("start_ts", TIME, "start of its first window, naive UTC", of=("window_features.start_ts",)),
        Column("end_ts", TIME, "end of its last window", of=("window_features.start_ts",)),
        Column(
            "deviation",
            REAL,
            "largest distance of a feature of the metric from what is expected of it, in scales, to 0.01",
            of=_OF_FEATURES,
        ),
        Column("expected_low", REAL, "least value of the reference windows that its windows were compared with"),
        Column("expected_high", REAL, "largest value of those windows"),
    ),
)
