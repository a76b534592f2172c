"""The telemetry frame: run_key, host, sample, ts, then one Float64 column per host-free metric.

What belongs here: what every reader of that frame needs. The rows of several hosts lie one after the other.
"""

from __future__ import annotations

import polars as pl

from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.store.lake import Lake

KEY_COLUMNS = tuple(TELEMETRY.schema.names())
"""Leading columns of a telemetry frame; no metric may be called so."""


def metric_names(telemetry: pl.DataFrame) -> list[str]:
    """Metric columns, in the file's order."""
    return [name for name in telemetry.columns if name not in KEY_COLUMNS]


def split_hosts(telemetry: pl.DataFrame) -> list[pl.DataFrame]:
    """One frame per host, in the frame's order; slices, not copies.

    Where several hosts lie in one frame, each has columns for the other's metrics. A column without a value on this
    host and with one on another is not this host's; one without any value is everybody's.
    """
    if not telemetry.height:
        return []
    if telemetry["host"][0] == telemetry["host"][-1]:
        return [telemetry]
    starts = (telemetry["sample"] == 0).arg_true().to_list()
    ends = [*starts[1:], telemetry.height]
    parts = [telemetry.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    silent = [{column.name for column in part if column.null_count() == part.height} for part in parts]
    nobody = set.intersection(*silent)
    return [part.drop(names - nobody) for part, names in zip(parts, silent, strict=True)]


def metrics_by_host(lake: Lake, key: str) -> list[tuple[str, list[str]]]:
    """Each host of a run with its metrics, sorted by host; reads as little of the telemetry as will do."""
    hosts = lake.read(TELEMETRY, key, ["host"])["host"]
    if hosts.n_unique() > 1:
        parts = split_hosts(lake.read(TELEMETRY, key))
        return sorted((str(part["host"][0]), metric_names(part)) for part in parts)
    metrics = [name for name in lake.columns(TELEMETRY, key) if name not in KEY_COLUMNS]
    return [(str(host), metrics) for host in hosts.head(1)]
