"""Fits over as many runs as the public data set has: time and memory of everything that is fitted."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs
from rich.console import Console

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
SIMULATED = 4
"""Runs that all others are copies of, with jitter."""
POOLED = ("metric_catalog", "pruning_curve", "thresholds")
_JITTER = 0.01
_FIT = """
import json, resource, sys, time
from pathlib import Path
from infrascope_core.pipeline import GRAPH
from infrascope_core.store.folder import DataFolder
start = time.perf_counter(), time.process_time()
made = GRAPH.make_pooled(DataFolder(Path(sys.argv[1])), sys.argv[2], refit=True)
print(json.dumps([time.perf_counter() - start[0], time.process_time() - start[1],
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, made.height]))
"""


def claims(console: Console) -> Iterator[Claim]:
    """Fit on the real products of simulated runs under thousands of run keys.

    What is fitted over all runs is measured over all. Baselines are fitted workload by workload, so one with its share
    of the runs is measured, and counts as often as there are workloads.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for number in range(SIMULATED):
            write_job(Job("gpu", minutes=MINUTES, seed=number), place / "runs")
        made = DataFolder(place / "made", sources=(place / "runs",))
        refresh(made)
        everyone, one = DataFolder(place / "everyone"), DataFolder(place / "one")
        _copies(made, everyone, RUNS, (QUALITY_METRICS, GROUP_WINDOWS, CURATED_METRICS))
        found = {table: _fit(everyone, table) for table in POOLED}
        _copies(made, one, -(-RUNS // WORKLOADS), (QUALITY_METRICS, WINDOW_FEATURES), workloads=1)
        _fit(one, "metric_catalog")
        found["baselines"] = _fit(one, "baselines")
    for table, (seconds, cpu, gib, rows) in found.items():
        of = f"a workload of {-(-RUNS // WORKLOADS)} runs" if table == "baselines" else f"{RUNS:,} runs"
        console.print(f"{table} of {of}: {seconds:.1f} s, {cpu:.1f} s of CPU, {gib:.2f} GiB, {rows:,.0f} rows")
    seconds = sum(found[table][0] for table in POOLED) + WORKLOADS * found["baselines"][0]
    yield Claim(f"catalogue, its curve and levels of {RUNS:,} runs", sum(found[t][0] for t in POOLED), 300, "s")
    yield Claim(f"all fits of {RUNS:,} runs in {WORKLOADS} workloads", seconds, 300, "s")
    yield Claim("peak memory of a fit", max(gib for _, _, gib, _ in found.values()), 4.0, "GiB")


def _fit(folder: DataFolder, table: str) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, peak memory (GiB) and rows of a fit in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _FIT, str(folder.root), table], check=True, capture_output=True)
    seconds, cpu, gib, rows = json.loads(done.stdout)
    return seconds, cpu, gib, rows


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
        to.lake.write(row, RUN_FILES, key, key)


def _jittered(frame: pl.DataFrame, key: str, rng: np.random.Generator) -> pl.DataFrame:
    factors = {name: 1.0 + _JITTER * rng.normal() for name in frame.select(cs.float()).columns}
    return frame.with_columns(
        pl.lit(key).alias("run_key"),
        *((pl.col(name) * factor).cast(frame.schema[name]) for name, factor in factors.items()),
    )
