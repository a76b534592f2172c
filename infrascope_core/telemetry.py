"""The telemetry frame: run_key, host, sample, ts, then one Float64 column per host-free metric.

What belongs here: what every reader of that frame needs. The rows of several hosts lie one after the other.
"""

from __future__ import annotations

import polars as pl

KEY_COLUMNS = ("run_key", "host", "sample", "ts")
"""Leading columns of a telemetry frame; no metric may be called so."""


def metric_names(telemetry: pl.DataFrame) -> list[str]:
    """Metric columns, in the file's order."""
    return [name for name in telemetry.columns if name not in KEY_COLUMNS]


def split_hosts(telemetry: pl.DataFrame) -> list[pl.DataFrame]:
    """One frame per host, in the frame's order; slices, not copies."""
    if not telemetry.height:
        return []
    one_host = telemetry["host"][0] == telemetry["host"][-1]
    starts = [0] if one_host else (telemetry["sample"] == 0).arg_true().to_list()
    ends = [*starts[1:], telemetry.height]
    return [telemetry.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
