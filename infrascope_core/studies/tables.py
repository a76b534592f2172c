"""The tables of the stage: the paper's own evaluations."""

from __future__ import annotations

from infrascope_core.contract import (
    FLAG,
    HOST,
    HOST_KEY,
    INT,
    METRIC,
    PHASE,
    PLATFORM,
    REAL,
    RUN_KEY,
    TEXT,
    WORKLOAD,
    WORKLOAD_KEY,
    Column,
    Table,
)

WINDOW_AGREEMENT = Table(
    "window_agreement",
    "How far anomalies agree between window lengths (Reveal, section 5.5 and table 2).",
    (*HOST_KEY, "setting_a", "setting_b"),
    (
        RUN_KEY,
        HOST,
        Column("setting_a", TEXT, "window and stride of A, as 3 s/1 s"),
        Column("setting_b", TEXT, "window and stride of B"),
        Column("intervals_a", INT, "merged anomaly intervals of A"),
        Column("intervals_b", INT, "merged anomaly intervals of B"),
        Column("iou", REAL, "length of the intersection over length of the union; none where neither has any"),
        Column("hit_by_count", REAL, "share of A's intervals that meet one of B"),
        Column("hit_by_length", REAL, "share of A's length that B covers"),
    ),
)
RUN_SIMILARITY = Table(
    "run_similarity",
    "How alike the runs of a workload are (Reveal, section 5.4): distance of each run to the workload's median trace.",
    (*WORKLOAD_KEY, "metric"),
    (
        PLATFORM,
        PHASE,
        WORKLOAD,
        METRIC,
        Column("runs", INT, "runs compared"),
        Column("distance", REAL, "median over runs of the DTW distance to the workload's median trace, per sample"),
        Column("reference", REAL, "the same against traces that share nothing but their values"),
        Column("p_value", REAL, "two-sided Wilcoxon signed-rank test of the paired distances; none below 6 runs"),
        Column("similar", FLAG, "p below 0.05 and nearer than the reference"),
        Column("farthest_run", TEXT, "the run that is least like the others"),
    ),
)
DETECTOR_LATENCY = Table(
    "detector_latency",
    "Seconds a window costs, by stage and batch (Reveal, section 5.3), measured on this machine.",
    ("platform", "stage", "batch"),
    (
        PLATFORM,
        Column(
            "stage",
            TEXT,
            "features, deviations (from the references), a detector's name, all_detectors (deviations, too), reasons",
        ),
        Column("batch", INT, "windows scored at once"),
        Column("metrics", INT, "metrics of the window"),
        Column("seconds", REAL, "median seconds per window"),
        Column("spread", REAL, "standard deviation over rounds"),
        Column("paper", REAL, "the paper's figure, on other hardware: context, not a claim"),
    ),
)
MINING_FEASIBILITY = Table(
    "mining_feasibility",
    "How many itemsets are frequent at which support: whether they can be mined at all.",
    ("platform", "min_support", "size"),
    (
        PLATFORM,
        Column("min_support", REAL, "least share of the baskets"),
        Column("size", INT, "items of an itemset, up to `mining.max_size`"),
        Column("baskets", INT, "baskets of the platform", of=("baskets.window",)),
        Column("least_count", INT, "baskets that an itemset takes"),
        Column("items", INT, "different items", of=("baskets.item",)),
        Column("itemsets", INT, "itemsets of that size that are frequent", of=("baskets.item",)),
        Column("possible", INT, "itemsets of that size that there could be, with one level a group"),
    ),
)
WINDOW_SENSITIVITY = Table(
    "window_sensitivity",
    "Which rules hold up with windows of other lengths; windows, levels and tests are made anew for each.",
    ("platform", "window_s"),
    (
        PLATFORM,
        Column("window_s", REAL, "length of the windows, seconds"),
        Column("baskets", INT, "windows with an item", of=("curated_metrics.sample",)),
        Column("groups", INT, "metric groups whose levels vary", of=("curated_metrics.value",)),
        Column("rules", INT, "rules that hold up", of=("curated_metrics.value",)),
        Column("common", INT, "those that hold up with the first length as well"),
        Column("jaccard", REAL, "common rules / rules of either length; none where there are none"),
        Column("kept", REAL, "common rules / rules of the first length; none where there are none"),
        Column("mean_support", REAL, "mean support of the rules; none where there are none"),
    ),
)
