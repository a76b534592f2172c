"""The tables of the stage: itemsets, rules, orders in time, contrasts, and what tells workloads apart."""

from __future__ import annotations

import polars as pl

from infrascope_core.contract import (
    FLAG,
    HOST,
    HOST_KEY,
    INT,
    METRIC_GROUP,
    PHASE,
    PLATFORM,
    REAL,
    RUN_KEY,
    SCOPE,
    TEXT,
    TEXTS,
    TIME,
    WORKLOAD,
    WORKLOAD_KEY,
    Column,
    Table,
)

EXAMPLES = pl.List(
    pl.Struct({"run_key": pl.String(), "host": pl.String(), "window": pl.Int64(), "start_ts": pl.Datetime("us")})
)
"""Moments to look at: window and time of its start."""

FREQUENT_ITEMSETS = Table(
    "frequent_itemsets",
    "Sets of up to `mining.max_size` items that occur together in at least the minimum share of a scope's baskets: "
    "larger ones are not listed, but `closed` and `maximal` know of them.",
    ("scope", "items"),
    (
        SCOPE,
        Column("items", TEXTS, "items, sorted", of=("baskets.item",)),
        Column("size", INT, "number of items"),
        Column("count", INT, "baskets that hold all of them", of=("baskets.item",)),
        Column("support", REAL, "count / baskets of the scope", of=("baskets.item",)),
        Column("runs", INT, "runs in which it occurs", of=("baskets.run_key",)),
        Column("closed", FLAG, "no superset has the same count"),
        Column("maximal", FLAG, "no superset is frequent"),
    ),
)
ASSOCIATION_RULES = Table(
    "association_rules",
    "While the items on the left hold, that on the right does, more often than the same runs would have it by chance. "
    "All figures are of the runs that the scope was tested on: `mined_scopes.tested_runs`.",
    ("scope", "antecedent", "consequent"),
    (
        SCOPE,
        Column("antecedent", TEXTS, "one or two items of different groups", of=("baskets.item",)),
        Column("consequent", TEXTS, "one item of another group", of=("baskets.item",)),
        Column("support", REAL, "share of the windows with both sides", of=("baskets.item",)),
        Column("confidence", REAL, "share of the antecedent's windows that hold the consequent", of=("baskets.item",)),
        Column("expected", REAL, "the same on average, if one side is shifted in time within each run"),
        Column("excess_windows", REAL, "windows with both sides beyond the expected", of=("baskets.item",)),
        Column("lift", REAL, "confidence / share of the windows with the consequent", of=("baskets.item",)),
        Column("leverage", REAL, "support minus what independence gives", of=("baskets.item",)),
        Column("conviction", REAL, "(1 - support of consequent) / (1 - confidence); infinite if confidence is 1"),
        Column("runs", INT, "runs and hosts in which both sides occur together", of=("baskets.run_key",)),
        Column("informative_runs", INT, "runs and hosts in which both sides vary", of=("baskets.run_key",)),
        Column("agreeing_runs", INT, "those in which they overlap more than expected", of=("baskets.run_key",)),
        Column("z", REAL, "overlap beyond the expected, in standard deviations over circular shifts"),
        Column("z_without_strongest", REAL, "the same without the run that has most of it"),
        Column("p_value", REAL, "share of the ways to shift each run by itself that give at least as much overlap"),
        Column("q_value", REAL, "Benjamini-Hochberg over all that were tested in the scope"),
        Column("tested", INT, "rules that were tested in the scope"),
        Column("holding", INT, "those that hold up; at most `mining.max_rules` of them are stored"),
        Column(
            "timing",
            TEXT,
            "own: the sides meet at times of the run's own; course: in the course of every run of the workload; "
            "common: perhaps of any workload; undecided: none of these is shown; unknown: no workload has two runs",
        ),
        Column("cross_subsystem", FLAG, "the two sides share no subsystem"),
        Column("shown", INT, "rank among the rules of the scope that people are shown; none of those that are not"),
        Column(
            "examples",
            EXAMPLES,
            "up to three runs with most overlap beyond the expected, and the window with which both sides hold longest",
            of=("baskets.run_key", "baskets.host", "baskets.window", "baskets.start_ts"),
        ),
        Column("sentence", TEXT, "the rule in words"),
    ),
)
GROUP_ALIASES = Table(
    "group_aliases",
    "Metric groups that say what another one says; patterns are mined without them.",
    ("platform", "metric_group"),
    (
        PLATFORM,
        METRIC_GROUP,
        Column("same_as", TEXT, "the group that stands for it", of=("group_windows.metric_group",)),
        Column("inverse", FLAG, "it is low where the other is high", of=("group_windows.value",)),
        Column(
            "correlation",
            REAL,
            "median over runs and hosts of Spearman's rank correlation; none if it is declared and does not vary",
            of=("group_windows.value",),
        ),
        Column("declared", FLAG, "the recipe says so"),
        Column(
            "runs",
            INT,
            "runs and hosts that were compared: of many, a seeded choice of `mining.max_alias_runs` run files",
            of=("group_windows.run_key",),
        ),
    ),
)
MINED_SCOPES = Table(
    "mined_scopes",
    "What was mined: how much there was to go by in each scope, how many rules were tested and how many hold up.",
    ("scope",),
    (
        SCOPE,
        Column("same_as", TEXT, "the wider scope with the same runs, under whose name patterns are listed"),
        Column("runs", INT, "runs and hosts", of=("baskets.run_key",)),
        Column(
            "tested_runs",
            INT,
            "those that rules and orders were tested on: of many runs a seeded choice, of at most "
            "`mining.max_runs` run files, and of a workload its share of `mining.max_runs_of_workloads`",
            of=("baskets.run_key",),
        ),
        Column("windows", INT, "windows of all of them", of=("baskets.window",)),
        Column("groups", INT, "metric groups that are informative and no aliases", of=("thresholds.degenerate",)),
        Column("tested", INT, "rules that were tested", of=("baskets.item",)),
        Column("rules", INT, "rules that hold up", of=("association_rules.holding",)),
        Column("why", TEXT, "why there are none; none where there are"),
    ),
)
SEQUENTIAL_PATTERNS = Table(
    "sequential_patterns",
    "What rises or falls some seconds after something else does, more often than chance would have it. All figures are "
    "of the runs that the scope was tested on: `mined_scopes.tested_runs`.",
    ("scope", "first", "then"),
    (
        SCOPE,
        Column("first", TEXT, "item that begins: HIGH is a rise, LOW a fall", of=("baskets.item",)),
        Column("then", TEXT, "item of another group that begins later", of=("baskets.item",)),
        Column("lag_s", REAL, "how much later, seconds", of=("baskets.start_ts",)),
        Column("times", INT, "how often it does", of=("baskets.item",)),
        Column("of", INT, "how often the first begins", of=("baskets.item",)),
        Column("expected", REAL, "times on average, if one of both is shifted in time within each run"),
        Column("mirrored", INT, "times that the other begins first, by as much"),
        Column("informative_runs", INT, "runs and hosts in which both begin", of=("baskets.run_key",)),
        Column("agreeing_runs", INT, "those in which it follows more often than expected", of=("baskets.run_key",)),
        Column("z", REAL, "times beyond the expected, in standard deviations over circular shifts"),
        Column("p_value", REAL, "share of the ways to shift each run that give as many, times the number of lags"),
        Column("q_value", REAL, "Benjamini-Hochberg over all pairs of the scope"),
        Column("tested", INT, "pairs that were tested in the scope"),
        Column("shown", INT, "rank among the orders of the scope that people are shown; none of those that are not"),
        Column("sentence", TEXT, "the order in words"),
    ),
)
CONTRASTS = Table(
    "contrasts",
    "What one kind of run does more of than another, and what known faults change.",
    ("scope", "kind", "within", "of", "against", "item"),
    (
        SCOPE,
        Column("kind", TEXT, "what is compared: phase, workload, host or fault"),
        Column("within", TEXT, "what both sides have in common: a workload, a phase, or both"),
        Column("of", TEXT, "the one side: a phase, workload or host, or a kind of fault"),
        Column("against", TEXT, "the other side"),
        Column("item", TEXT, "what is held", of=("baskets.item",)),
        Column("share", REAL, "share of the windows that hold it, the mean over runs; of a fault, of all its windows"),
        Column("other_share", REAL, "the same of the other side"),
        Column("runs", INT, "runs; hosts of one job are one", of=("baskets.run_key",)),
        Column("other_runs", INT, "those of the other side", of=("baskets.run_key",)),
        Column("growth_rate", REAL, "larger share / smaller share; infinite if that is 0"),
        Column("separated", FLAG, "every run of one side is above every run of the other"),
        Column("status", TEXT, "tested, or too_few_runs: it could not be significant"),
        Column("needed_runs", INT, "runs that the smaller side would need; none where it has them"),
        Column("p_value", REAL, "Mann-Whitney over runs, two-sided; of a fault, circular shifts of it"),
        Column("q_value", REAL, "Benjamini-Hochberg over all that was tested on the platform"),
        Column("shown", INT, "rank among the contrasts of the platform that people are shown; none of the others"),
        Column("sentence", TEXT, "the contrast in words"),
    ),
)
WORKLOAD_SIGNATURES = Table(
    "workload_signatures",
    "What the runs of a workload have in common: how each metric group is distributed in them, the median over runs.",
    (*WORKLOAD_KEY, "metric_group"),
    (
        PLATFORM,
        PHASE,
        WORKLOAD,
        METRIC_GROUP,
        Column("runs", INT, "runs and hosts that have the group", of=("baskets.run_key",)),
        Column("low_share", REAL, "share of a run's windows that are LOW", of=("baskets.level",)),
        Column("med_share", REAL, "share that are MED", of=("baskets.level",)),
        Column("high_share", REAL, "share that are HIGH", of=("baskets.level",)),
        Column("lower_quartile", REAL, "a quarter of a run's windows are at or below it", of=("baskets.value",)),
        Column("median", REAL, "half of them are", of=("baskets.value",)),
        Column("upper_quartile", REAL, "three quarters of them are", of=("baskets.value",)),
    ),
)
RUN_IDENTITY = Table(
    "run_identity",
    "Whether each run looks like the workload that its name claims, like another one, or like none that is known.",
    HOST_KEY,
    (
        PLATFORM,
        RUN_KEY,
        HOST,
        Column("claimed", TEXT, "platform/phase/workload by the name of the file"),
        Column(
            "status",
            TEXT,
            "as_claimed; other: it looks like `nearest` instead; unknown: like none; "
            "too_few_runs: there is too little to hold it against",
        ),
        Column("nearest", TEXT, "platform/phase/workload of the nearest run of all"),
        Column("nearest_run", TEXT, "that run", of=("baskets.run_key",)),
        Column("distance", REAL, "distance from it: 1 is about that between two runs of a workload"),
        Column("claimed_distance", REAL, "distance from the nearest other run of the claimed workload"),
        Column("p_value", REAL, "share of the runs that are as far from their own workload as this from the nearest"),
        Column("claimed_p_value", REAL, "share of the runs that are as far from theirs as this from the claimed one"),
        Column("compared_runs", INT, "runs and hosts with another of their workload, which give the share"),
        Column(
            "differs_in",
            TEXTS,
            "metric groups in which it is most unlike the nearest run of the claimed workload, "
            "or of all where that has no other; none if it is as claimed",
        ),
    ),
)
PHASE_CHANGES = Table(
    "phase_changes",
    "When the states of a run change for longer than a moment: startup, work, evaluation, the end.",
    (*HOST_KEY, "change"),
    (
        RUN_KEY,
        HOST,
        Column("change", INT, "number of the change, from 0"),
        Column("start_ts", TIME, "when the new phase begins, naive UTC as in the file", of=("baskets.start_ts",)),
        Column("offset_s", REAL, "seconds from the run's first window", of=("baskets.start_ts",)),
        Column(
            "rises", TEXTS, "metric groups whose mean level is higher by half a level or more", of=("baskets.level",)
        ),
        Column("falls", TEXTS, "those whose mean level is lower", of=("baskets.level",)),
    ),
)
BASKET_COUNTS = Table(
    "basket_counts",
    "How many baskets each run and host has, and how many items they hold.",
    HOST_KEY,
    (
        PLATFORM,
        RUN_KEY,
        HOST,
        Column("baskets", INT, "windows with an item", of=("baskets.window",)),
        Column("window_s", REAL, "seconds from one window to the next, the median", of=("baskets.start_ts",)),
        Column("groups", INT, "metric groups that have a level in any window", of=("baskets.metric_group",)),
        Column("least_items", INT, "items of the smallest basket", of=("baskets.item",)),
        Column("most_items", INT, "items of the largest", of=("baskets.item",)),
        Column("mean_items", REAL, "items of a basket, the mean", of=("baskets.item",)),
        Column("distinct", INT, "different baskets", of=("baskets.item",)),
    ),
)
ITEM_FREQUENCIES = Table(
    "item_frequencies",
    "How often each item occurs, those of groups that are not mined included.",
    ("scope", "item"),
    (
        SCOPE,
        Column("item", TEXT, "GROUP_LEVEL", of=("baskets.item",)),
        METRIC_GROUP,
        Column("level", TEXT, "LOW, MED or HIGH", of=("baskets.level",)),
        Column("count", INT, "baskets that hold it", of=("baskets.item",)),
        Column("support", REAL, "count / baskets of the scope", of=("baskets.item",)),
        Column("runs", INT, "runs and hosts in which it occurs", of=("baskets.run_key",)),
    ),
)
ITEM_PAIRS = Table(
    "item_pairs",
    "How often each two items of different groups occur together, those that never do included (count 0).",
    ("scope", "first", "second"),
    (
        SCOPE,
        Column("first", TEXT, "item", of=("baskets.item",)),
        Column("second", TEXT, "item of another group", of=("baskets.item",)),
        Column("count", INT, "baskets that hold both", of=("baskets.item",)),
        Column("support", REAL, "count / baskets of the scope", of=("baskets.item",)),
        Column("lift", REAL, "count / what independence of all baskets gives: not a test, see `association_rules`"),
    ),
)
