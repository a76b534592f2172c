"""Fits over as many runs as the public data set has: time and memory of everything that is fitted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs
from rich.console import Console

from benchmarks.at_size.pooled import PROCESSES, made_alone
from benchmarks.pipeline import Claim
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.contract import Table
from infrascope_core.pipeline import refresh
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.run_files.tables import FAULTS, METRIC_TYPES, RUN_FILES, TELEMETRY
from infrascope_core.simulate import Job, write_job
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import CURATED_METRICS, GROUP_WINDOWS

RUNS, WORKLOADS = 4_522, 60
"""Runs and workloads of the public data set: 13 models, 4 tasks, training and inference, two platforms."""
MINUTES = 6.0
FEW = 4
"""Workloads of which baselines are measured."""
SIMULATED = 4
"""Runs that all others are copies of, with jitter."""
POOLED = ("metric_catalog", "pruning_curve", "thresholds")
_JITTER = 0.01


def claims(console: Console) -> Iterator[Claim]:
    """Fit on the real products of simulated runs under thousands of run keys.

    What is fitted over all runs is measured over all. Baselines are fitted workload by workload, so a few with their
    share of the runs are measured, and count as often as there are workloads.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for number in range(SIMULATED):
            write_job(Job("gpu", minutes=MINUTES, seed=number), place / "runs")
        made = DataFolder(place / "made", sources=(place / "runs",))
        refresh(made)
        everyone, few = DataFolder(place / "everyone"), DataFolder(place / "few")
        _copies(made, everyone, RUNS, (QUALITY_METRICS, GROUP_WINDOWS, CURATED_METRICS))
        found = {table: made_alone(everyone, [table]) for table in POOLED}
        _copies(made, few, FEW * -(-RUNS // WORKLOADS), (QUALITY_METRICS, WINDOW_FEATURES), workloads=FEW)
        made_alone(few, ["metric_catalog"])
        found["baselines"] = made_alone(few, ["baselines"])
    for table, cost in found.items():
        of = f"{FEW} workloads of {-(-RUNS // WORKLOADS)} runs each" if table == "baselines" else f"{RUNS:,} runs"
        console.print(f"{table} of {of}: {cost}")
    pooled = sum(found[table].wall_s for table in POOLED)
    seconds = pooled + WORKLOADS / FEW * found["baselines"].wall_s
    yield Claim(f"catalogue, its curve and levels of {RUNS:,} runs, {PROCESSES} processes", pooled, 300, "s")
    yield Claim(f"all fits of {RUNS:,} runs in {WORKLOADS} workloads, {PROCESSES} processes", seconds, 300, "s")
    yield Claim("peak memory of the fits, all processes", max(cost.gib for cost in found.values()), 4.0, "GiB")


def _copies(made: DataFolder, to: DataFolder, runs: int, tables: tuple[Table, ...], workloads: int = WORKLOADS) -> None:
    """Put products of a few runs under many run keys, with jitter; telemetry, which is only read in part, as links."""
    to.root.mkdir()
    to.remember_settings()
    keys = made.lake.keys(RUN_FILES)
    read = {(table, key): made.lake.read(table, key) for table in tables for key in keys}
    rows = {key: made.lake.read(RUN_FILES, key) for key in keys}
    for number in range(runs):
        source, started = keys[number % len(keys)], datetime(2025, 1, 1) + timedelta(minutes=10 * number)
        key = f"train_M{number % workloads}forTask_default_{started:%Y-%m-%dT%H-%M-%S}_node01"
        row = rows[source].with_columns(
            run_key=pl.lit(key),
            workload=pl.lit(f"M{number % workloads}__Task__default"),
            started_at=pl.lit(started, pl.Datetime("us")),
            source=pl.lit(""),
        )
        rng = np.random.default_rng(number)
        for table in tables:
            to.lake.write(_jittered(read[table, source], key, rng), table, key, key)
        for empty in (FAULTS, METRIC_TYPES):
            to.lake.write(empty.empty(), empty, key, key)
        telemetry = to.lake.path(TELEMETRY, key)
        telemetry.parent.mkdir(parents=True, exist_ok=True)
        telemetry.hardlink_to(made.lake.path(TELEMETRY, source))
        to.lake.made_from(TELEMETRY, key)  # as if it had been written: its footer is known
        to.lake.write(row, RUN_FILES, key, key)
    to.lake.save_index()


def _jittered(frame: pl.DataFrame, key: str, rng: np.random.Generator) -> pl.DataFrame:
    factors = {name: 1.0 + _JITTER * rng.normal() for name in frame.select(cs.float()).columns}
    return frame.with_columns(
        pl.lit(key).alias("run_key"),
        *((pl.col(name) * factor).cast(frame.schema[name]) for name, factor in factors.items()),
    )
