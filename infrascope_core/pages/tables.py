"""The tables of the stage: where the pages lie."""

from __future__ import annotations

from infrascope_core.comparing.tables import COMPARISON
from infrascope_core.contract import INT, RUN_KEY, TEXT, TEXTS, Column, Table

RUN_PAGE = Table(
    "run_page",
    "A page for the browser on every run: verdict, evidence, causes over time. One file that loads nothing else.",
    ("run_key",),
    (
        RUN_KEY,
        Column("page", TEXT, "the file, relative to the data folder"),
        Column("bytes", INT, "its size"),
        Column("charts", INT, "evidence charts on it"),
        Column("heat_rows", INT, "metrics in its heat map"),
    ),
)
FLEET_PAGE = Table(
    "fleet_page",
    "The index of all pages: one row a run, and totals.",
    ("page",),
    (
        Column("page", TEXT, "the file, relative to the data folder"),
        Column("bytes", INT, "its size"),
        Column("runs", INT, "rows of runs"),
    ),
)
COMPARISON_PAGE = Table(
    "comparison_page",
    "The verdict of every comparison that the settings declare, and its page for the browser.",
    ("comparison",),
    (
        COMPARISON,
        Column("outcome", TEXT, "better, worse, mixed or unchanged after the change; not_judged with too few runs"),
        Column("sentence", TEXT, "what changed, in one sentence"),
        Column("runs_before", INT, "runs before the change"),
        Column("runs_after", INT, "runs after it"),
        Column("limits", TEXTS, "what is not comparable, or limits the comparison"),
        Column("page", TEXT, "the file, relative to the data folder"),
        Column("bytes", INT, "its size"),
    ),
)
