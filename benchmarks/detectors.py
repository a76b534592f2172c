"""Fitting a large workload's baseline, and scoring windows given their features: seconds and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from benchmarks.features import Context
from benchmarks.pipeline import Claim, best
from infrascope_core.anomalies.features import window_features
from infrascope_core.anomalies.reference_runs import baseline_of
from infrascope_core.anomalies.tables import BASELINES, WINDOW_FEATURES
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.studies.detector_latency import PAPER

RUNS, WINDOWS, METRICS = 60, 600, 400
BATCH = 1000
REVEALS = ("zscore", "mahalanobis", "isolation_forest")


def claims(console: Console) -> Iterator[Claim]:
    """Fill a lake with a workload's features, fit it in a process of its own, and score with what was fitted."""
    with tempfile.TemporaryDirectory() as place:
        folder = DataFolder(Path(place), Settings())
        for number in range(RUNS):
            _put_run(folder, number)
        code = (
            "import json, resource, sys, time; from pathlib import Path; "
            "from infrascope_core.pipeline import GRAPH; from infrascope_core.store.folder import DataFolder; "
            "start = time.perf_counter(); fitted = GRAPH.make_pooled(DataFolder(Path(sys.argv[1])), 'baselines'); "
            "print(json.dumps([time.perf_counter() - start, int(fitted['windows'][0]), "
            "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))"
        )
        printed = subprocess.run([sys.executable, "-c", code, place], check=True, capture_output=True, text=True).stdout
        seconds, windows, gib = json.loads(printed)
        console.print(
            f"fit of {RUNS} runs × {WINDOWS} windows × {METRICS} metrics: {seconds:.0f} s on {windows} of them"
        )
        yield Claim(f"peak memory of a fit, {RUNS} runs × {WINDOWS} windows × {METRICS} metrics", gib, 3.0, "GiB")
        GRAPH.make_pooled(folder, BASELINES)
        key = _key(0)
        baseline = baseline_of(folder, key)
        assert baseline is not None
        features = window_features(_telemetry(RUNS, BATCH), folder.settings.features)
        for batch, limit_ms in ((1, 5.0), (BATCH, 0.2)):
            some = features.filter(pl.col("window") < batch)
            residuals = baseline.judge(some)
            work: dict[str, Callable[[], object]] = {
                d.name: partial(d.score, residuals.of_kind(d.sees)) for d in baseline.detectors
            }
            work["judge"] = partial(baseline.judge, some)
            times = {name: took / batch for name, took in best(5, **work).items()}
            console.print(f"batch of {batch}: " + ", ".join(f"{n} {1e3 * took:.3g} ms" for n, took in times.items()))
            three = 1e3 * sum(times[name] for name in REVEALS)
            yield Claim(f"scoring a window given its features, 3 detectors, batch of {batch}", three, limit_ms, "ms")
            if batch == 1:
                for name in REVEALS:
                    yield Context(f"{name}, one window", times[name], PAPER[name], "s")


def _key(number: int) -> str:
    return f"train_NETforTask_default_2026-01-01T00-{number // 60:02d}-{number % 60:02d}_node01"


def _telemetry(seed: int, windows: int) -> pl.DataFrame:
    """Signals with a common course and noise of their own."""
    rng = np.random.default_rng(seed)
    samples = windows * 10 + 20
    course = np.sin(np.arange(samples) / 50)[:, None] * rng.uniform(0, 2, METRICS)
    values = course + np.cumsum(rng.normal(0, 0.01, (samples, METRICS)), axis=0) + rng.normal(0, 1, (samples, METRICS))
    start = datetime(2026, 1, 1)
    return pl.DataFrame(
        {
            "run_key": [_key(seed)] * samples,
            "host": ["node01"] * samples,
            "sample": np.arange(samples),
            "ts": [start + timedelta(seconds=0.1 * i) for i in range(samples)],
        }
    ).hstack(pl.DataFrame({f"Turbostat:m{i:03d}[-]": values[:, i] for i in range(METRICS)}))


def _put_run(folder: DataFolder, number: int) -> None:
    row = dict.fromkeys(RUN_FILES.schema.names()) | {
        "run_key": _key(number),
        "platform": "cpu",
        "phase": "train",
        "workload": "NET__Task__default",
        "host": "node01",
        "interval_s": 0.1,
        "labelled": False,
        "status": "accepted",
    }
    folder.lake.write(pl.DataFrame([row], schema=RUN_FILES.schema), RUN_FILES, _key(number))
    features = window_features(_telemetry(number, WINDOWS), folder.settings.features)
    folder.lake.write(features, WINDOW_FEATURES, _key(number))
