"""Pooling: ratios of sums over runs, per scope."""

from __future__ import annotations

import polars as pl

from infrascope_core.evaluation.judged_run import ANY_FAULT, EVENTS, RUNS, SEPARATION
from infrascope_core.evaluation.judgement import Judgement
from infrascope_core.evaluation.report import FIGURES, figures
from infrascope_core.evaluation.settings import EvaluationSettings

SETTINGS = EvaluationSettings(resamples=50)


def table(schema: pl.Schema, *rows: dict) -> pl.DataFrame:
    return pl.DataFrame([dict.fromkeys(schema.names()) | row for row in rows], schema=schema)


def event(run: str, fault: str, part: str = "", **fields) -> dict:
    return {"data_set": "a", "part": part, "run_key": run, "fault": fault} | fields


def area(run: str, fault: str, method: str, roc_auc: float | None) -> dict:
    return {"data_set": "a", "part": "", "run_key": run, "fault": fault, "method": method, "roc_auc": roc_auc}


def run(key: str, false: int | None, hours: float, part: str = "", data_set: str = "a") -> dict:
    return {"data_set": data_set, "part": part, "run_key": key, "false_episodes": false, "healthy_hours": hours}


def judgement(separation=(), events=(), runs=()) -> Judgement:
    return Judgement(table(SEPARATION, *separation), table(EVENTS, *events), table(RUNS, *runs), (), ())


def value(frame: pl.DataFrame, figure: str, data_set="a", *, part=None, fault=None, method=None, of="value"):
    scope = {"data_set": data_set, "part": part, "fault": fault, "method": method, "figure": figure}
    rows = frame.filter(pl.all_horizontal(pl.col(n).eq_missing(pl.lit(v, pl.String)) for n, v in scope.items()))
    assert rows.height <= 1
    return rows[of][0] if rows.height else None


def test_recall_counts_events_not_runs():
    events = [event("r1", "leak", detected=True)] * 3 + [event("r2", "leak", detected=False)]
    pooled = figures([judgement(events=events)], SETTINGS)
    assert value(pooled, "event_recall") == 0.75
    assert value(pooled, "event_recall", "a", fault="leak", of="runs") == 2
    assert value(pooled, "event_recall", "a", fault="leak", of="count") == 4


def test_each_fault_and_part_has_its_own_figures():
    events = [
        event("r1", "leak", "low", detected=False),
        event("r2", "leak", "high", detected=True),
        event("r2", "hog", "high", detected=True),
    ]
    pooled = figures([judgement(events=events)], SETTINGS)
    assert value(pooled, "event_recall", "a", fault="leak") == 0.5
    assert value(pooled, "event_recall", "a", fault="hog") == 1.0
    assert value(pooled, "event_recall", "a", part="low") == 0.0
    assert value(pooled, "event_recall", "a", part="high", fault="leak") == 1.0


def test_false_episodes_are_per_hour_of_all_runs():
    pooled = figures([judgement(runs=[run("r1", 2, 1.0), run("r2", 0, 3.0)])], SETTINGS)
    assert value(pooled, "false_episodes_per_hour") == 0.5


def test_what_is_not_known_is_left_out():
    events = [event("r1", "leak", detected=None), event("r2", "leak", detected=True, blamed_rightly=None)]
    pooled = figures([judgement(events=events, runs=[run("r1", None, 1.0)])], SETTINGS)
    assert value(pooled, "event_recall") == 1.0
    assert value(pooled, "subsystem_right") is None
    assert value(pooled, "false_episodes_per_hour") is None


def test_areas_are_means_over_runs_per_method():
    rows = [
        area("r1", ANY_FAULT, "combination", 0.5),
        area("r2", ANY_FAULT, "combination", 1.0),
        area("r3", ANY_FAULT, "combination", None),
        area("r1", "leak", "combination", 0.25),
        area("r1", ANY_FAULT, "zscore", 0.6),
    ]
    pooled = figures([judgement(rows)], SETTINGS)
    assert value(pooled, "roc_auc", "a", method="combination") == 0.75
    assert value(pooled, "roc_auc", "a", method="combination", of="runs") == 2
    assert value(pooled, "roc_auc", "a", fault="leak", method="combination") == 0.25
    assert value(pooled, "roc_auc", method="zscore") == 0.6


def test_data_sets_are_not_pooled():
    sets = [judgement(runs=[run("r1", 1, 1.0)]), judgement(runs=[run("r1", 0, 1.0, data_set="b")])]
    pooled = figures(sets, SETTINGS)
    assert value(pooled, "false_episodes_per_hour", "a") == 1.0
    assert value(pooled, "false_episodes_per_hour", "b") == 0.0
    assert pooled["data_set"].null_count() == 0


def test_the_order_of_runs_changes_nothing():
    events = [event(f"r{i}", "leak", detected=i % 3 > 0) for i in range(9)]
    there, back = (figures([judgement(events=e)], SETTINGS) for e in (events, events[::-1]))
    assert there.equals(back)
    assert there.schema == FIGURES
    low, high = (value(there, "event_recall", of=end) for end in ("low", "high"))
    assert low < 2 / 3 < high
