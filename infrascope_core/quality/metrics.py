"""Quality of metrics within one run: what is missing, zero, constant or infinite, and how the sampling went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.run_files.columns import subsystem, unit
from infrascope_core.run_files.telemetry import metric_names, split_hosts

INTERVAL = "interval[s]"
"""Pseudo-metric for the time between samples: `zeros` counts repeated timestamps, `missing` lost samples."""
SAMPLING = "Sampling"
"""Subsystem of the pseudo-metric, which is no hardware's."""
_GAP = 1.5
"""An interval above this many median intervals has lost samples, unless the next ones make up for it."""
_CAUGHT_UP = 0.5
"""An interval below this many median intervals makes up for a late sample."""


def quality_metrics(telemetry: pl.DataFrame, types: pl.DataFrame | None = None) -> pl.DataFrame:
    """Facts about every metric of one run.

    Parameters
    ----------
    telemetry : pl.DataFrame
        run_key, host, sample, ts, then one column per metric; the rows of one run.
    types : pl.DataFrame, optional
        The table `metric_types` of the run: what is declared about its metrics.

    Returns
    -------
    pl.DataFrame
        The table `quality_metrics`; one more row per host, `interval[s]`, describes the sampling itself.
    """
    declared = {} if types is None else dict(types.select("metric", "type").iter_rows())
    parts = [_of_host(part, declared) for part in split_hosts(telemetry)]
    return pl.concat(parts) if parts else QUALITY_METRICS.empty()


def _of_host(telemetry: pl.DataFrame, declared: Mapping[str, str]) -> pl.DataFrame:
    values = telemetry.select(metric_names(telemetry))
    facts = _facts(values)
    endless = facts.filter(pl.col("min").is_infinite() | pl.col("max").is_infinite())["metric"].to_list()
    if endless:
        finite = values.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in endless)
        counts = values.select(pl.col(endless).is_infinite().sum()).row(0, named=True)
        facts = _facts(finite).with_columns(
            # infinities were taken out as if they were missing
            infinite=pl.col("metric").replace_strict(counts, default=0, return_dtype=pl.Int64)
        )
        facts = facts.with_columns(missing=pl.col("missing") - pl.col("infinite"))
    facts = facts.with_columns(
        unit=pl.Series([unit(name) for name in values.columns], dtype=pl.String),
        subsystem=pl.Series([subsystem(name) for name in values.columns], dtype=pl.String),
        declared=pl.Series([declared.get(name) for name in values.columns], dtype=pl.String),
        **_movements(values, facts),
    )
    samples = telemetry.height
    facts = pl.concat([facts, _interval(telemetry["ts"])], how="diagonal").with_columns(
        run_key=pl.lit(telemetry["run_key"][0]),
        host=pl.lit(telemetry["host"][0]),
        samples=pl.lit(samples, pl.Int64),
        cv=pl.when(pl.col("mean") == 0).then(0.0).otherwise(pl.col("std") / pl.col("mean")),
    )
    return facts.with_columns(
        verdict=pl.when(pl.col("subsystem") == SAMPLING)
        .then(pl.when(pl.col("missing") > 0).then(pl.lit("gaps")).otherwise(pl.lit("regular")))
        .when(pl.col("missing") + pl.col("infinite") == samples)
        .then(pl.lit("missing"))
        .when(pl.col("zeros") + pl.col("missing") == samples)
        .then(pl.lit("zero"))
        .when((pl.col("min") == pl.col("max")) & (pl.col("infinite") == 0))
        .then(pl.lit("constant"))
        .otherwise(pl.lit("usable"))
    ).select(QUALITY_METRICS.schema.names())


def _facts(values: pl.DataFrame) -> pl.DataFrame:
    """Statistics of every column, one row a column.

    Two thirds of the columns of a run never move (docs/format.md, Typical values): their mean is their one value and
    their spread 0, exactly, and need not be computed.
    """
    facts = pl.DataFrame(
        {
            "metric": values.columns,
            "infinite": [0] * values.width,
            "missing": _each(values, pl.all().null_count()),
            "min": _each(values, pl.all().min()),
            "max": _each(values, pl.all().max()),
        },
        schema_overrides={c.name: c.dtype for c in QUALITY_METRICS.columns},
    )
    known = values.height - pl.col("missing")
    still = pl.col("min") == pl.col("max")
    moving = values.select(facts.filter(~still)["metric"].to_list())
    moved = pl.DataFrame(
        {
            "metric": moving.columns,
            "zeros": _each(moving, (pl.all() == 0).sum()),
            "mean": _each(moving, pl.all().mean()),
            "std": _each(moving, pl.all().std(ddof=1)),
        },
        schema_overrides={c.name: c.dtype for c in QUALITY_METRICS.columns},
    )
    return facts.join(moved, on="metric", how="left", maintain_order="left").with_columns(
        zeros=pl.coalesce("zeros", pl.when(still & (pl.col("min") == 0)).then(known).otherwise(0)),
        mean=pl.when(still).then("min").otherwise("mean"),
        std=pl.when(still & (known > 1)).then(0.0).otherwise("std"),
    )


def _each(values: pl.DataFrame, statistic: pl.Expr) -> tuple[Any, ...]:
    """One statistic of every column."""
    return values.select(statistic).row(0) if values.width else ()


def _movements(values: pl.DataFrame, facts: pl.DataFrame) -> dict[str, pl.Series]:
    """Different values, rises and falls of each column; only those that move have to be looked at."""
    counts = []
    for name, low, high, infinite in facts.select("metric", "min", "max", "infinite").iter_rows():
        if low == high and not infinite:
            counts.append((int(low is not None), 0, 0))
        else:
            # numpy's counting of floats is twice as fast as a hash table of them
            column = values[name]
            known = (column.drop_nulls() if column.has_nulls() else column).to_numpy()
            finite = known[np.isfinite(known)] if infinite else known
            before, after = finite[:-1], finite[1:]
            rises, changes = int(np.count_nonzero(after > before)), int(np.count_nonzero(after != before))
            counts.append((len(np.unique(known)), rises, changes - rises))
    table = pl.DataFrame(counts, schema=dict.fromkeys(("distinct", "rises", "falls"), pl.Int64), orient="row")
    return table.to_dict()


def _interval(ts: pl.Series) -> pl.DataFrame:
    """The pseudo-metric of the sampling itself."""
    seconds = ts.diff().drop_nulls().dt.total_microseconds() / 1e6
    return pl.DataFrame(
        {
            "metric": [INTERVAL],
            "unit": ["s"],
            "subsystem": [SAMPLING],
            "missing": [_lost(seconds)],
            "infinite": [0],
            "zeros": [int((seconds == 0).sum())],
            "mean": [seconds.mean()],
            "std": [seconds.std(ddof=1)],
            "min": [seconds.min()],
            "max": [seconds.max()],
            "distinct": [seconds.n_unique()],
        },
        schema_overrides={c.name: c.dtype for c in QUALITY_METRICS.columns},
    )


def _lost(seconds: pl.Series) -> int:
    """Samples that are missing from the intervals, as the recorder counts the ticks that it missed.

    A sample that only came late is not lost: the short intervals after it bring the sampling back into step.
    """
    median = seconds.filter(seconds > 0).median()
    if not isinstance(median, float):
        return 0
    stretches = (
        pl.DataFrame({"intervals": seconds / median})
        .with_columns(stretch=(pl.col("intervals") >= _CAUGHT_UP).cum_sum())
        .group_by("stretch")
        .agg(late=pl.col("intervals").first() > _GAP, lost=pl.col("intervals").sum().round(0) - pl.len())
    )
    return int(stretches.filter(pl.col("late"), pl.col("lost") > 0)["lost"].sum())
