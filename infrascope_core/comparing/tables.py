"""The tables of the stage: what changed, by figure."""

from __future__ import annotations

from infrascope_core.contract import FLAG, INT, REAL, TEXT, Column, Table

COMPARISON = Column("comparison", TEXT, "name of the comparison in the settings")
RUN_COMPARISONS = Table(
    "run_comparisons",
    "Runs before a change and after it, figure by figure, for every comparison that the settings declare; a run counts "
    "once. The verdicts are in `comparison_page`.",
    ("comparison", "kind", "figure"),
    (
        COMPARISON,
        Column("kind", TEXT, "run; anomalous time by subsystem or by metric (a family of them); level of a group"),
        Column("figure", TEXT, "what is compared"),
        Column("unit", TEXT, "unit of the values; `share` is of the judged windows"),
        Column("runs_before", INT, "runs before the change that have the figure"),
        Column("runs_after", INT, "runs after it that have the figure"),
        Column("before", REAL, "median over the runs before"),
        Column("after", REAL, "median over the runs after"),
        Column("effect", REAL, "typical difference, after less before (Hodges and Lehmann)"),
        Column("low", REAL, "lower end of its 95 % interval; none with too few runs for one"),
        Column("high", REAL, "upper end of the interval"),
        Column("p_value", REAL, "of ranks as unequal as these by chance, exact; none with too few runs for a test"),
        Column("q_value", REAL, "by Holm for run time and anomalous time, by Benjamini and Hochberg for the others"),
        Column("significant", FLAG, "more than chance: q_value below 0.05"),
    ),
)
