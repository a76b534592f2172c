"""A straightforward pandas reading of the recipe `infrascope` (docs/design.md, Recipes): slow, plain, the oracle.

It shares no code with the package; the run is taken from the file name, and the platform from the columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

GROUPS = {
    "GPU_util": r"utilization\.gpu\.\d+\.",
    "GPU_mem_util": r"utilization\.memory\.\d+\.",
    "GPU_power": r"power\.draw\.\d+\.",
    "GPU_temp": r"temperature\.gpu\.\d+\.",
    "CPU_busy": r"Turbostat:Busy%\.\-\.",
    "CPU_ipc": r"Perf:IPC\.[A-Za-z]",
    "CPU_stall": r"Perf:StallRatio\.",
    "Mem_util": r"Memory:MemoryUtilization\.",
    "Mem_available": r"MemAvailable\.",
    "Net_rx_bytes": r"rx_bytes\.",
    "Net_tx_bytes": r"tx_bytes\.",
}


def load(paths: list[Path]) -> dict[str, pd.DataFrame]:
    """Metric columns of each file by run key; index is the row."""
    frames = {}
    for path in paths:
        key = path.name.removesuffix(".gz").removesuffix(".txt")
        frames[key] = pd.read_csv(path, sep="\t", index_col=0).reset_index(drop=True).astype(float)
    return frames


def platform(frame: pd.DataFrame) -> str:
    return "gpu" if any(column.startswith("GPU:") for column in frame) else "cpu"


def excluded(frames: list[pd.DataFrame]) -> set[str]:
    """Columns that are always missing, always zero or near constant over the files that have them."""
    out = set()
    for column in {c for frame in frames for c in frame}:
        having = [frame[column] for frame in frames if column in frame]
        if np.mean([series.isna().mean() for series in having]) == 1 or all(
            ((series == 0) | series.isna()).all() for series in having
        ):
            out.add(column)
            continue
        ratios = []
        for series in having:
            mean = series.mean()
            ratio = 0.0 if mean == 0 else series.std() / mean
            ratios.append(ratio if np.isnan(ratio) else max(ratio, 0.0))
        if np.nanmean(ratios) < 0.01:
            out.add(column)
    return out


def columns_of(frame: pd.DataFrame, pattern: str, without: set[str]) -> list[str]:
    matched = frame.columns[frame.columns.str.contains(pattern, case=False, regex=True)]
    return [column for column in matched if column not in without]


def thresholds(frames: dict[str, pd.DataFrame]) -> dict[tuple[str, str], tuple[float, float]]:
    """(platform, group) -> (low, high) from all raw samples."""
    fitted = {}
    for name in ("gpu", "cpu"):
        own = [frame for frame in frames.values() if platform(frame) == name]
        without = excluded(own)
        for group, pattern in GROUPS.items():
            values = [frame[columns_of(frame, pattern, without)].to_numpy().ravel() for frame in own]
            pooled = pd.Series(np.concatenate(values) if values else [], dtype=float).dropna()
            if len(pooled):
                fitted[name, group] = (pooled.quantile(0.33), pooled.quantile(0.67))
    return fitted


def baskets(frames: dict[str, pd.DataFrame], samples: int = 10) -> dict[tuple[str, int], set[str]]:
    """(run key, window) -> items."""
    fitted = thresholds(frames)
    found: dict[tuple[str, int], set[str]] = {}
    excluded_on = {p: excluded([f for f in frames.values() if platform(f) == p]) for p in ("gpu", "cpu")}
    for key, frame in frames.items():
        name = platform(frame)
        chosen = {group: columns_of(frame, pattern, excluded_on[name]) for group, pattern in GROUPS.items()}
        for window in range(len(frame) // samples):
            rows = frame.iloc[window * samples : (window + 1) * samples]
            for group, columns in chosen.items():
                value = rows[columns].median().median() if columns else np.nan
                if (name, group) in fitted and not np.isnan(value):
                    low, high = fitted[name, group]
                    level = "LOW" if value <= low else "MED" if value <= high else "HIGH"
                    found.setdefault((key, window), set()).add(f"{group}_{level}")
    return found
