"""Figures pooled over runs, with intervals: per fault, per part, and per data set.

What belongs here: from judgements to one long frame of figures. How they look is up to the command and the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from infrascope_core.evaluation.judged_run import ANY_FAULT, HITS
from infrascope_core.evaluation.judgement import METHODS, Judgement
from infrascope_core.evaluation.metrics import bootstrap_ratio
from infrascope_core.evaluation.settings import EvaluationSettings

SEPARATION_FIGURES = ("roc_auc", "average_precision", "vus_pr")
"""Per method; a mean over runs."""
EVENT_FIGURES = (
    "event_recall",
    "overlap",
    "delay_s",
    "subsystem_right",
    "host_first",
    *(f"{what}_{k}" for k in HITS for what in ("hit", "chance")),
    "hit_rate",
)
"""Of what the product raises; a mean over events."""

FIGURES = pl.Schema(
    {
        "data_set": pl.String(),
        "part": pl.String(),
        "fault": pl.String(),
        "method": pl.String(),
        "figure": pl.String(),
        "value": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "runs": pl.Int64(),
        "count": pl.Float64(),
    }
)
"""One figure a row: `value` in `low` to `high`, from `runs` runs and `count` events, hours, windows or runs. Null in
`part` or `fault` means over all of them; `method` is null for figures of the product as a whole."""

_VALUES = ("value", "low", "high", "runs", "count")
_SCOPES = (
    ("data_set",),
    ("data_set", "part"),
    ("data_set", "fault"),
    ("data_set", "part", "fault"),
)
_UNIT = ("data_set", "part", "run_key", "fault", "method", "figure")


def figures(judgements: Iterable[Judgement], settings: EvaluationSettings) -> pl.DataFrame:
    """Pool the figures of all judged runs.

    Parameters
    ----------
    judgements : iterable of Judgement
        One per data set.
    settings : EvaluationSettings
        `resamples`, `level`, `random_state`.

    Returns
    -------
    polars.DataFrame
        Schema `FIGURES`. A figure is a ratio of sums over runs: detected events to events, false episodes to healthy
        hours, the runs' areas to their number; runs without a value are left out of both. Rows without any value are
        left out.
    """
    units = pl.concat([part for judgement in judgements for part in _units(judgement)])
    parts = [_pooled(units, scope, settings) for scope in _SCOPES]
    place = pl.col("method").replace_strict(METHODS, range(len(METHODS)), default=-1, return_dtype=pl.Int64)
    return pl.concat(parts).sort("data_set", "part", "fault", "figure", place, nulls_last=False, maintain_order=True)


def _units(judgement: Judgement) -> list[pl.DataFrame]:
    """Numerator and denominator of each figure, by run and fault."""
    separation = judgement.separation.with_columns(fault=_none_if_any())
    areas = [_unit(separation, name, pl.col(name), pl.lit(1.0), by_method=True) for name in SEPARATION_FIGURES]
    # events of a run count for their own fault, and for all faults together
    events = judgement.events.with_columns(fault=pl.lit(None, pl.String))
    events = pl.concat([judgement.events, events]).with_columns(
        event_recall="detected", subsystem_right="blamed_rightly"
    )
    known = [_unit(events, name, pl.col(name).cast(pl.Float64), pl.lit(1.0)) for name in EVENT_FIGURES]
    runs = judgement.runs.with_columns(fault=pl.lit(None, pl.String))
    alarms = [
        _unit(runs, "false_episodes_per_hour", pl.col("false_episodes"), pl.col("healthy_hours")),
        _unit(runs, "false_window_share", pl.col("false_windows"), pl.col("healthy_windows")),
        _unit(runs.filter("healthy"), "healthy_differ", pl.col("differs").cast(pl.Float64), pl.lit(1.0)),
    ]
    return [*areas, *known, *alarms]


def _none_if_any() -> pl.Expr:
    return pl.when(pl.col("fault") != ANY_FAULT).then("fault")


def _unit(rows: pl.DataFrame, figure: str, above: pl.Expr, below: pl.Expr, by_method: bool = False) -> pl.DataFrame:
    method = pl.col("method") if by_method else pl.lit(None, pl.String)
    known = rows.with_columns(
        method=method, figure=pl.lit(figure), above=above.cast(pl.Float64), below=below.cast(pl.Float64)
    ).drop_nulls(["above", "below"])
    return known.group_by(_UNIT, maintain_order=True).agg(pl.col("above", "below").sum())


def _pooled(units: pl.DataFrame, scope: Sequence[str], settings: EvaluationSettings) -> pl.DataFrame:
    rows = units.filter(pl.col("fault").is_not_null() if "fault" in scope else pl.col("fault").is_null())
    keys = [*scope, "method", "figure"]
    found = []
    # the order of the runs decides what the seed draws
    by_run = rows.sort("data_set", "run_key", "part")
    for group, part in sorted(
        by_run.partition_by(keys, as_dict=True).items(), key=lambda item: list(map(str, item[0]))
    ):
        value, low, high = bootstrap_ratio(
            part["above"], part["below"], settings.resamples, settings.random_state, settings.level
        )
        interval = {"value": value, "low": low, "high": high}
        found.append(
            dict(zip(keys, group, strict=True)) | interval | {"runs": part.height, "count": part["below"].sum()}
        )
    frame = pl.DataFrame(found, schema={name: FIGURES[name] for name in (*keys, *_VALUES)})
    missing = [pl.lit(None, pl.String).alias(name) for name in ("data_set", "part", "fault") if name not in scope]
    return (
        frame.with_columns(missing)
        .with_columns(pl.col("value", "low", "high").fill_nan(None))
        .drop_nulls("value")
        .select(FIGURES.names())
    )
