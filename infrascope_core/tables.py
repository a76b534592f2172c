"""The contract with users: every table's name, key, columns and meaning (DESIGN section 5).

What belongs here: schemas as data. The lake writes them, the warehouse shows them, Dagster prints them.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

TEXT, INT, REAL, FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
TIME = pl.Datetime("us")
TEXTS = pl.List(pl.String())


@dataclass(frozen=True)
class Column:
    """One column: its name, polars type, and meaning with unit."""

    name: str
    dtype: pl.DataType
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: `key` names the columns that identify a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    per_run: bool
    """Whether the lake holds a file per run (per path, for `rejected_files`), or one for the whole fleet."""

    @property
    def schema(self) -> pl.Schema:
        """Column names and polars types, in order."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    def empty(self) -> pl.DataFrame:
        """A frame with the table's columns and no rows."""
        return pl.DataFrame(schema=self.schema)


_RUN = Column("run_key", TEXT, "the run file's stem")
_HOST = Column("host", TEXT, "host the samples come from")
_WINDOW = Column("window", INT, "window number, from 0")
_START = Column("start_ts", TIME, "time of the window's first sample, naive UTC as in the file")
_METRIC = Column("metric", TEXT, "host-free column name with its unit, as `Turbostat:Busy%.-[%]`")
_GROUP = Column("metric_group", TEXT, "metric group of the recipe")
_PLATFORM = Column("platform", TEXT, "gpu (the file has GPU columns) or cpu")
_SCOPE = Column("scope", TEXT, "`gpu`, `cpu`, or narrower: `gpu/train`, `gpu/train/WORKLOAD`")
_SUBSYSTEM = Column("subsystem", TEXT, "CPU, GPU, Memory, Network, Storage or Other")
_UNIT = Column("unit", TEXT, "unit as the file gives it")

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

RUN_FILES = Table(
    "run_files",
    "Every run file that was offered, with what its name and content say, or why it was rejected.",
    ("run_key",),
    (
        _RUN,
        _PLATFORM,
        Column("phase", TEXT, "train, infer or fine-tuning"),
        Column("mode", TEXT, "llm or nonllm"),
        Column("model", TEXT, "model, from the file name"),
        Column("task", TEXT, "task, from the file name"),
        Column("dataset", TEXT, "dataset, from the file name"),
        Column("workload", TEXT, "MODEL__TASK__DATASET"),
        Column("host", TEXT, "host, from the file name"),
        Column("started_at", TIME, "start time, from the file name"),
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
    per_run=True,
)
FAULTS = Table(
    "faults",
    "Known faults (labels) from the `.faults.csv` beside a run file.",
    ("run_key", "start", "end", "fault"),
    (
        _RUN,
        Column("start", TIME, "first moment of the fault, inclusive"),
        Column("end", TIME, "last moment of the fault, inclusive"),
        Column("fault", TEXT, "name of the fault"),
        Column("subsystem", TEXT, "subsystem the fault acts on"),
        Column("metrics", TEXTS, "culprit metrics, host-free"),
    ),
    per_run=True,
)
REJECTED_FILES = Table(
    "rejected_files",
    "Files that could not be used, each with one sentence that says why.",
    ("path",),
    (
        Column("path", TEXT, "where the file lies"),
        _RUN,
        Column("reason", TEXT, "what is wrong and what was expected"),
        Column("seen_at", TIME, "when it was last looked at, UTC"),
    ),
    per_run=True,
)
QUALITY_METRICS = Table(
    "quality_metrics",
    "Per run, host and metric: what is missing, zero, constant or infinite (left out of the statistics).",
    ("run_key", "host", "metric"),
    (
        _RUN,
        _HOST,
        _METRIC,
        _UNIT,
        _SUBSYSTEM,
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
        Column("verdict", TEXT, "usable, missing, zero or constant, in this run; regular or gaps for `interval[s]`"),
    ),
    per_run=True,
)
METRIC_CATALOG = Table(
    "metric_catalog",
    "Which metrics can be trusted on a platform, and why not. Fitted: kept until a refit.",
    ("platform", "metric"),
    (
        _PLATFORM,
        Column("metric", TEXT, "metric; with the host in it where the recipe pools by column name"),
        Column("unit", TEXT, "unit as the file gives it; per second where the treatment is rate"),
        _SUBSYSTEM,
        Column("runs", INT, "runs that have the metric; of a derived one, those that were looked at"),
        Column("status", TEXT, "usable, always_missing, always_zero, near_constant or redundant"),
        Column("reason", TEXT, "the figures behind the status"),
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
    per_run=False,
)
CURATED_METRICS = Table(
    "curated_metrics",
    "The columns of the recipe's metric groups, one row per sample.",
    ("run_key", "host", "metric_group", "metric", "sample"),
    (
        _RUN,
        _HOST,
        _GROUP,
        _METRIC,
        Column("sample", INT, "sample number, from 0"),
        Column("ts", TIME, "time of the sample, naive UTC as in the file"),
        Column("value", REAL, "value in the metric's unit"),
    ),
    per_run=True,
)
GROUP_WINDOWS = Table(
    "group_windows",
    "One value per metric group and window; a window without data has no row.",
    ("run_key", "host", "window", "metric_group"),
    (
        _RUN,
        _HOST,
        _WINDOW,
        _GROUP,
        _START,
        Column("value", REAL, "reduced value, in the group's unit"),
        Column("samples", INT, "values behind it"),
        Column("metrics", INT, "columns behind it"),
    ),
    per_run=True,
)
THRESHOLDS = Table(
    "thresholds",
    "What LOW, MED and HIGH mean. Fitted: later runs are judged by them until a refit.",
    ("platform", "metric_group"),
    (
        _PLATFORM,
        _GROUP,
        Column("low", REAL, "LOW is at or below it (see method for the exceptions)"),
        Column("high", REAL, "MED is at or below it, HIGH above"),
        Column("method", TEXT, "how they were found: terciles, or mode_low, mode_med, mode_high, mode_both"),
        Column("samples", INT, "values they were fitted on"),
        Column("low_share", REAL, "share of the windows at that time that is LOW"),
        Column("med_share", REAL, "share of the windows that is MED"),
        Column("high_share", REAL, "share of the windows that is HIGH"),
        Column("degenerate", FLAG, "the levels say nothing: fewer than two hold 1 % of the windows"),
        Column("version", TEXT, "hash of the platform's thresholds"),
    ),
    per_run=False,
)
BASKETS = Table(
    "baskets",
    "One LOW, MED or HIGH per group and window; a group without data in a window has no item.",
    ("run_key", "host", "window", "metric_group"),
    (
        _RUN,
        _HOST,
        _WINDOW,
        _GROUP,
        _START,
        Column("value", REAL, "value of the window"),
        Column("level", TEXT, "LOW, MED or HIGH"),
        Column("item", TEXT, "GROUP_LEVEL"),
    ),
    per_run=True,
)
FREQUENT_ITEMSETS = Table(
    "frequent_itemsets",
    "Sets of items that occur together in at least the minimum share of a scope's baskets.",
    ("scope", "items"),
    (
        _SCOPE,
        Column("items", TEXTS, "items, sorted"),
        Column("size", INT, "number of items"),
        Column("count", INT, "baskets that hold all of them"),
        Column("support", REAL, "count / baskets of the scope"),
        Column("runs", INT, "runs in which it occurs"),
        Column("closed", FLAG, "no superset has the same count"),
        Column("maximal", FLAG, "no superset is frequent"),
    ),
    per_run=False,
)
ASSOCIATION_RULES = Table(
    "association_rules",
    "Rules between items, with the standard measures and a false-discovery rate per scope.",
    ("scope", "antecedent", "consequent"),
    (
        _SCOPE,
        Column("antecedent", TEXTS, "items on the left, sorted"),
        Column("consequent", TEXTS, "items on the right, sorted"),
        Column("support", REAL, "share of baskets with both sides"),
        Column("confidence", REAL, "support / support of the antecedent"),
        Column("lift", REAL, "confidence / support of the consequent"),
        Column("leverage", REAL, "support minus what independence gives"),
        Column("conviction", REAL, "(1 - support of consequent) / (1 - confidence); infinite if confidence is 1"),
        Column("runs", INT, "runs in which both sides occur together"),
        Column("p_value", REAL, "one-sided Fisher exact test on the baskets"),
        Column("q_value", REAL, "Benjamini-Hochberg within the scope"),
        Column("cross_subsystem", FLAG, "the two sides share no subsystem"),
    ),
    per_run=False,
)
WINDOW_FEATURES = Table(
    "window_features",
    "Statistical and temporal features of every usable metric in sliding windows.",
    ("run_key", "host", "window", "metric"),
    (
        _RUN,
        _HOST,
        _WINDOW,
        _METRIC,
        _START,
        *(Column(f, REAL, "as tsfresh defines it; none where a sample is missing") for f in FEATURES),
    ),
    per_run=True,
)
BASELINES = Table(
    "baselines",
    "What normal looks like for a workload. Fitted: later runs are judged by it until a refit.",
    ("platform", "phase", "workload"),
    (
        _PLATFORM,
        Column("phase", TEXT, "train, infer or fine-tuning; `any` where it serves all"),
        Column("workload", TEXT, "MODEL__TASK__DATASET; `any` for the platform's, which serves workloads without one"),
        Column("compared_with", TEXT, "workload: its runs; reference: its runs that are known to be healthy, or named"),
        Column("windows", INT, "windows it was fitted on"),
        Column("runs", INT, "runs it was fitted on"),
        Column("metrics", INT, "metrics it knows"),
        Column("fitted_at", TIME, "when, UTC"),
        Column("version", TEXT, "hash of what it was fitted on"),
        Column("file", TEXT, "model file, relative to the data folder"),
    ),
    per_run=False,
)
ANOMALY_SCORES = Table(
    "anomaly_scores",
    "The detectors' scores of every feature window, who flags it, and what that means together.",
    ("run_key", "host", "window"),
    (
        _RUN,
        _HOST,
        _WINDOW,
        _START,
        Column("zscore", REAL, "mean |z| over features"),
        Column("mahalanobis", REAL, "Mahalanobis distance in the PCA subspace"),
        Column("isolation_forest", REAL, "anomaly score of the forest, higher is more abnormal"),
        Column("peaks", REAL, "mean lasting deviation of the most deviating metrics, each over its own range"),
        Column("flagged_by", TEXTS, "detectors above their baseline's quantile"),
        Column("agreement", INT, "number of detectors that flag"),
        Column("severity", REAL, "largest score over its flag threshold; above 1 is flagged"),
        Column("surprisal", REAL, "-log10 of the calibrated probability that a normal window scores as high"),
        Column("anomalous", FLAG, "an alarm: by itself or with its neighbours, not just one of the top 1 %"),
        Column("baseline_version", TEXT, "version of the baseline that judged it"),
    ),
    per_run=True,
)
ANOMALY_REASONS = Table(
    "anomaly_reasons",
    "Why a window is flagged: metrics and features in order of contribution, with a claim in words.",
    ("run_key", "host", "window", "rank"),
    (
        _RUN,
        _HOST,
        _WINDOW,
        Column("rank", INT, "1 is the largest contribution"),
        _SUBSYSTEM,
        _METRIC,
        Column("feature", TEXT, "feature of the metric; or `missing`, `still`: it has no value, or does not move"),
        Column("detectors", TEXTS, "detectors that flag the window"),
        Column("value", REAL, "the feature's value"),
        Column("expected", REAL, "what the baseline expects of it there"),
        Column("contribution", REAL, "share of the window's evidence, 0..1"),
        Column(
            "subsystem_share", REAL, "share of the window's evidence that lies on the subsystem, over all its features"
        ),
        Column("claim", TEXT, "what changed, in which direction, by how much"),
    ),
    per_run=True,
)

ANOMALY_EPISODES = Table(
    "anomaly_episodes",
    "Neighbouring anomalous windows of a host, merged: where the trouble is, what else moved, and in which order.",
    ("run_key", "host", "episode"),
    (
        _RUN,
        _HOST,
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
    per_run=True,
)
ANOMALY_REPORT = Table(
    "anomaly_report",
    "The verdict on every run; the text lies beside the warehouse, as markdown and as JSON.",
    ("run_key",),
    (
        _RUN,
        Column("verdict", TEXT, "anomalous, normal or not_judged"),
        Column("why", TEXT, "the verdict's reason in one sentence"),
        Column("subsystem", TEXT, "first subsystem of the worst episode"),
        Column("episodes", INT, "number of episodes"),
        Column("windows", INT, "windows of the run"),
        Column("anomalous_windows", INT, "windows with an alarm"),
        Column("not_watched", TEXTS, "subsystems that no metric of the run tells of"),
        Column("baseline", TEXT, "what the run was compared with"),
        Column("next_step", TEXT, "what to look at first"),
        Column("markdown", TEXT, "file of the report, relative to the data folder"),
        Column("json", TEXT, "the same as JSON, relative to the data folder"),
    ),
    per_run=True,
)
PRUNING_CURVE = Table(
    "pruning_curve",
    "What metric selection keeps at each correlation threshold (Reveal, figure 4).",
    ("platform", "phase", "workload", "threshold"),
    (
        _PLATFORM,
        Column("phase", TEXT, "train, infer or fine-tuning"),
        Column("workload", TEXT, "MODEL__TASK__DATASET"),
        Column("threshold", REAL, "|r| above which two metrics are one cluster"),
        Column("metrics", INT, "metrics before selection"),
        Column("selected_ratio", REAL, "share of the metrics that is kept"),
        Column("mean_max_r", REAL, "mean over metrics of the largest |r| with another kept metric"),
        Column("multi_r2", REAL, "mean R2 of each metric, predicted linearly from the other kept ones"),
    ),
    per_run=False,
)
HOST_DEVIATIONS = Table(
    "host_deviations",
    "Hosts of one job (or of one file) compared metric by metric: who departs from the others, and for how long. "
    "A metric in which a host equals the others has no row.",
    ("job", "host", "metric"),
    (
        Column("job", TEXT, "run key of the job's first run"),
        _HOST,
        _METRIC,
        _RUN,
        _PLATFORM,
        _SUBSYSTEM,
        _UNIT,
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
    per_run=False,
)
WINDOW_AGREEMENT = Table(
    "window_agreement",
    "How far anomalies agree between window lengths (Reveal, section 5.5 and table 2).",
    ("run_key", "host", "setting_a", "setting_b"),
    (
        _RUN,
        _HOST,
        Column("setting_a", TEXT, "window and stride of A, as 3 s/1 s"),
        Column("setting_b", TEXT, "window and stride of B"),
        Column("intervals_a", INT, "merged anomaly intervals of A"),
        Column("intervals_b", INT, "merged anomaly intervals of B"),
        Column("iou", REAL, "length of the intersection over length of the union; none where neither has any"),
        Column("hit_by_count", REAL, "share of A's intervals that meet one of B"),
        Column("hit_by_length", REAL, "share of A's length that B covers"),
    ),
    per_run=False,
)
RUN_SIMILARITY = Table(
    "run_similarity",
    "How alike the runs of a workload are (Reveal, section 5.4): distance of each run to the workload's median trace.",
    ("platform", "phase", "workload", "metric"),
    (
        _PLATFORM,
        Column("phase", TEXT, "train, infer or fine-tuning"),
        Column("workload", TEXT, "MODEL__TASK__DATASET"),
        _METRIC,
        Column("runs", INT, "runs compared"),
        Column("distance", REAL, "median over runs of the DTW distance to the workload's median trace, per sample"),
        Column("reference", REAL, "the same against traces that share nothing but their values"),
        Column("p_value", REAL, "two-sided Wilcoxon signed-rank test of the paired distances; none below 6 runs"),
        Column("similar", FLAG, "p below 0.05 and nearer than the reference"),
        Column("farthest_run", TEXT, "the run that is least like the others"),
    ),
    per_run=False,
)
DETECTOR_LATENCY = Table(
    "detector_latency",
    "Seconds a window costs, by stage and batch (Reveal, section 5.3), measured on this machine.",
    ("platform", "stage", "batch"),
    (
        _PLATFORM,
        Column("stage", TEXT, "features, deviations (from the references), a detector's name, all_detectors, reasons"),
        Column("batch", INT, "windows scored at once"),
        Column("metrics", INT, "metrics of the window"),
        Column("seconds", REAL, "median seconds per window"),
        Column("spread", REAL, "standard deviation over rounds"),
        Column("paper", REAL, "the paper's figure, on other hardware: context, not a claim"),
    ),
    per_run=False,
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        RUN_FILES,
        FAULTS,
        REJECTED_FILES,
        QUALITY_METRICS,
        METRIC_CATALOG,
        CURATED_METRICS,
        GROUP_WINDOWS,
        THRESHOLDS,
        BASKETS,
        FREQUENT_ITEMSETS,
        ASSOCIATION_RULES,
        WINDOW_FEATURES,
        BASELINES,
        ANOMALY_SCORES,
        ANOMALY_REASONS,
        ANOMALY_EPISODES,
        ANOMALY_REPORT,
        PRUNING_CURVE,
        HOST_DEVIATIONS,
        WINDOW_AGREEMENT,
        RUN_SIMILARITY,
        DETECTOR_LATENCY,
    )
}
"""All tables of the contract but telemetry, which is wide: run_key, host, sample, ts, a column per metric."""


def as_markdown() -> str:
    """The contract as a page for users: `docs/tables.md`."""
    lines = [
        "# The tables",
        "",
        "In `warehouse.duckdb`: pooled tables are tables, per-run tables are views on the lake's Parquet files.",
        "Times are naive UTC as the files give them; windows count from 0. `telemetry` is Parquet only, one wide",
        "file per run: run_key, host, sample, ts, then one column per metric. This page is made from",
        "`infrascope_core/tables.py` by `make docs`.",
    ]
    for table in TABLES.values():
        kind = "per run" if table.per_run else "pooled"
        lines += ["", f"## {table.name}", "", f"{table.meaning} Key: {', '.join(table.key)} ({kind}).", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [f"| {c.name} | {c.dtype} | {c.meaning.replace('|', chr(92) + '|')} |" for c in table.columns]
    return "\n".join(lines) + "\n"
