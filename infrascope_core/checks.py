"""Standing questions about a data folder: what is missing, left behind, or no longer as it was fitted.

Each function returns the findings as rows; no rows is the good answer.
"""

from __future__ import annotations

import polars as pl

from infrascope_core.mining import is_mined, scopes
from infrascope_core.pipeline import Pipeline
from infrascope_core.tables import BASELINES, THRESHOLDS

_SMALLEST_SHARE = 1e-4
"""Shares are held above this in the stability index, so that an empty level does not make it infinite."""


def basket_gaps(pipeline: Pipeline) -> pl.DataFrame:
    """Runs whose baskets hold fewer rows than group_windows: run_key, metric_group, windows, baskets."""
    keys = pipeline.accepted()["run_key"].to_list()
    by = ["run_key", "metric_group"]
    windows = _counts(pipeline, "group_windows", keys, "windows")
    baskets = _counts(pipeline, "baskets", keys, "baskets")
    joined = windows.join(baskets, on=by, how="left").with_columns(pl.col("baskets").fill_null(0))
    return joined.filter(pl.col("windows") != pl.col("baskets")).sort(by)


def _counts(pipeline: Pipeline, table: str, keys: list[str], name: str) -> pl.DataFrame:
    by = ["run_key", "metric_group"]
    files = pipeline.lake.files(table, keys)
    if not files:
        return pl.DataFrame(schema={**dict.fromkeys(by, pl.String), name: pl.UInt32})
    return pl.scan_parquet(files, glob=False).group_by(by).agg(pl.len().alias(name)).collect()


def degenerate_groups(pipeline: Pipeline) -> pl.DataFrame:
    """Groups whose levels say nothing: platform, metric_group, low, high, and the share of each level."""
    return pipeline.lake.read(THRESHOLDS.name).filter("degenerate").drop("degenerate", "version")


def level_drift(pipeline: Pipeline) -> pl.DataFrame:
    """How far today's window values have moved from the shares that the thresholds were fitted on.

    Returns
    -------
    pl.DataFrame
        platform, metric_group, windows, stability_index: the population stability index over the three
        levels, sum((now - then) * ln(now / then)).
    """
    runs = pipeline.accepted()
    files = pipeline.lake.files("baskets", runs["run_key"].to_list())
    schema = {
        "platform": pl.String,
        "metric_group": pl.String,
        "windows": pl.UInt32,
        "stability_index": pl.Float64,
    }
    if not files:
        return pl.DataFrame(schema=schema)
    by = ["platform", "metric_group"]
    now = (
        pl.scan_parquet(files, glob=False)
        .join(runs.lazy().select("run_key", "platform"), on="run_key")
        .group_by(by)
        .agg(
            pl.len().alias("windows"),
            *((pl.col("level") == level.upper()).mean().alias(level) for level in ("low", "med", "high")),
        )
        .collect()
    )
    terms = []
    for level in ("low", "med", "high"):
        today = pl.max_horizontal(level, pl.lit(_SMALLEST_SHARE))
        then = pl.max_horizontal(f"{level}_share", pl.lit(_SMALLEST_SHARE))
        terms.append((today - then) * (today / then).log())
    joined = now.join(pipeline.lake.read(THRESHOLDS.name), on=by)
    return joined.select(*by, "windows", pl.sum_horizontal(terms).alias("stability_index")).sort(by)


def unjudged(pipeline: Pipeline) -> pl.DataFrame:
    """Runs of which nothing could be judged: run_key, why."""
    files = pipeline.lake.files("anomaly_report", pipeline.accepted()["run_key"].to_list())
    if not files:
        return pl.DataFrame(schema={"run_key": pl.String, "why": pl.String})
    reports = pl.scan_parquet(files, glob=False)
    return reports.filter(pl.col("verdict") == "not_judged").select("run_key", "why").collect().sort("run_key")


def unpooled(pipeline: Pipeline) -> pl.DataFrame:
    """What pooled products lack of the lake: table, what, why."""
    runs = pipeline.accepted()
    findings: list[tuple[str, str, str]] = []
    catalog = set(pipeline.lake.read("metric_catalog")["platform"])
    findings += [
        ("metric_catalog", platform, "no metric of this platform was judged")
        for platform in sorted(set(runs["platform"]) - catalog)
    ]
    findings += [
        ("thresholds", f"{platform}/{group}", "window values without thresholds")
        for platform, group in _groups_seen(pipeline, runs)
        - set(pipeline.lake.read(THRESHOLDS.name).select("platform", "metric_group").iter_rows())
    ]
    workload = ["platform", "phase", "workload"]
    without = (
        runs.join(pipeline.lake.read(BASELINES.name), on=workload, how="anti").group_by(workload).agg(pl.col("run_key"))
    )
    for *names, keys in without.sort(workload).iter_rows():
        windows = sum(pipeline.lake.read("window_features", key, ["host", "window"]).unique().height for key in keys)
        if windows >= pipeline.settings.detectors.min_windows:
            findings.append(("baselines", "/".join(names), f"{windows} windows and no baseline"))
    if runs.height and not is_mined(pipeline):
        findings.append(("frequent_itemsets", ", ".join(scopes(runs)), "baskets changed since they were mined"))
    return pl.DataFrame(findings, schema=["table", "what", "why"], orient="row", schema_overrides=_TEXT).sort(
        "table", "what"
    )


_TEXT = {"table": pl.String, "what": pl.String, "why": pl.String}


def _groups_seen(pipeline: Pipeline, runs: pl.DataFrame) -> set[tuple[str, str]]:
    seen = _counts(pipeline, "group_windows", runs["run_key"].to_list(), "windows")
    return set(seen.join(runs, on="run_key").select("platform", "metric_group").iter_rows())
