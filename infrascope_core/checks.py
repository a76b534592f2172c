"""Checks of a data folder: what is missing, stale, or no longer as it was fitted.

Each function returns the findings as rows; no rows is the good answer.
"""

from __future__ import annotations

import shutil

import polars as pl

from infrascope_core.contract import Table
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

_SMALLEST_SHARE = 1e-4
"""Shares are held above this in the stability index, so that an empty level does not make it infinite."""
_CHANGED = "its runs, their data or its settings changed after it was made"


def basket_gaps(folder: DataFolder) -> pl.DataFrame:
    """Runs whose baskets hold fewer rows than group_windows: run_key, metric_group, windows, baskets."""
    keys = accepted(folder)["run_key"].to_list()
    by = ["run_key", "metric_group"]
    windows = _counts(folder, GROUP_WINDOWS, keys, "windows")
    baskets = _counts(folder, BASKETS, keys, "baskets")
    joined = windows.join(baskets, on=by, how="left").with_columns(pl.col("baskets").fill_null(0))
    return joined.filter(pl.col("windows") != pl.col("baskets")).sort(by)


def _counts(folder: DataFolder, table: Table, keys: list[str], name: str) -> pl.DataFrame:
    by = ["run_key", "metric_group"]
    files = folder.lake.files(table, keys)
    if not files:
        return pl.DataFrame(schema={**dict.fromkeys(by, pl.String), name: pl.UInt32})
    return pl.scan_parquet(files, glob=False).group_by(by).agg(pl.len().alias(name)).collect()


def degenerate_groups(folder: DataFolder) -> pl.DataFrame:
    """Groups whose windows share one level: platform, metric_group, low, high, and the share of each level."""
    return folder.lake.read(THRESHOLDS).filter("degenerate").drop("degenerate", "version")


def level_drift(folder: DataFolder) -> pl.DataFrame:
    """How far today's window values have moved from the shares that the thresholds were fitted on.

    Returns
    -------
    pl.DataFrame
        platform, metric_group, windows, stability_index: the population stability index over the three
        levels, sum((now - then) * ln(now / then)).
    """
    runs = accepted(folder)
    files = folder.lake.files(BASKETS, runs["run_key"].to_list())
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
    joined = now.join(folder.lake.read(THRESHOLDS), on=by)
    return joined.select(*by, "windows", pl.sum_horizontal(terms).alias("stability_index")).sort(by)


def unjudged(folder: DataFolder) -> pl.DataFrame:
    """Runs that could not be judged: run_key, why."""
    files = folder.lake.files(ANOMALY_REPORT, accepted(folder)["run_key"].to_list())
    if not files:
        return pl.DataFrame(schema={"run_key": pl.String, "why": pl.String})
    reports = pl.scan_parquet(files, glob=False)
    return reports.filter(pl.col("verdict") == "not_judged").select("run_key", "why").collect().sort("run_key")


def disk_use(folder: DataFolder) -> pl.DataFrame:
    """What the data folder takes, and what is left on its disk.

    Returns
    -------
    pl.DataFrame
        table, files, bytes, free: the tables with most first; `free` is the share of the disk that is left. No rows
        where that is at least `retention.least_free`.
    """
    schema = {"table": pl.String, "files": pl.Int64, "bytes": pl.Int64, "free": pl.Float64}
    if not folder.root.is_dir():
        return pl.DataFrame(schema=schema)
    disk = shutil.disk_usage(folder.root)
    free = disk.free / disk.total
    if free >= folder.settings.retention.least_free:
        return pl.DataFrame(schema=schema)
    rows = [
        (table.name, len(sizes), sum(sizes), free)
        for table in sorted(folder.lake.root.iterdir())
        if table.is_dir() and (sizes := [stat[0] for stat in folder.lake.stats(table.name).values()])
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").sort("bytes", "table", descending=[True, False])


def unpooled(folder: DataFolder, graph: Graph) -> pl.DataFrame:
    """Fitted, mined and compared products that do not cover the runs of the lake: table, why.

    A folder without runs lacks nothing; what is made on demand is never missing.
    """
    scopes = (Scope.FITTED, Scope.MINED, Scope.COMPARED) if accepted(folder).height else ()
    stale = [
        (product.name, _CHANGED if folder.lake.has(product.tables[0]) else "never made")
        for product in graph.order
        if product.scope in scopes and not graph.is_current(folder, product.name)
    ]
    return pl.DataFrame(stale, schema={"table": pl.String, "why": pl.String}, orient="row")
