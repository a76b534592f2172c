"""Many files: what each of 1,200 small ones costs, what a second run costs; one dropped file, and a backfill, with a
real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import numpy as np
from rich.console import Console

from benchmarks.pipeline import Claim
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_dagster.partitions import UNFINISHED
from tests.daemon import Server, serving, wait_for
from tests.generated import GPU_HOST, frame, gpu_columns, write
from tests.runs import HEADER, UNITS

SMALL_FILES = 1_200
WIDE_FILES = 200
_REFRESH = """
import sys, time
from pathlib import Path
from infrascope_core.pipeline import refresh
from infrascope_core.store.folder import DataFolder
start = time.perf_counter()
refresh(DataFolder(Path(sys.argv[2]), sources=(Path(sys.argv[1]),)))
# the peak in resource usage is that of the parent, where that was larger
peak = next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmHWM"))
print(time.perf_counter() - start, peak / 2**20)
"""


def claims(console: Console) -> Iterator[Claim]:
    """Measure, print the times, and give the figures."""
    yield from _small_files(console)
    yield from _dropped(console)
    yield from _backfill(console)


def _small_files(console: Console) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as place:
        runs, data = Path(place, "runs"), Path(place, "data")
        files = [write_small(runs, number) for number in range(SMALL_FILES)]
        start = time.process_time()
        for file in files[:100]:
            read_run_file(file)
        read_ms = (time.process_time() - start) * 10
        first, again = refresh_alone(runs, data), refresh_alone(runs, data)
        cpu_ms = 1e3 * first[1] / SMALL_FILES
        console.print(f"{SMALL_FILES:,} files of 400 × 5: {first[0]:.0f} s, {cpu_ms:.0f} ms of CPU each, ")
        console.print(f"  reading alone {read_ms:.1f} ms; nothing new: {again[0]:.1f} s, {again[1]:.1f} s of CPU")
        # through an orchestrator, before there was a plain loop, it took 57 times as long as reading: 261 ms to 4.6 ms
        yield Claim("run over 1,200 small files, CPU each / reading them", cpu_ms / read_ms, 28, "×")
        yield Claim("run over 1,200 files with nothing new, start of the process included", again[0], 5, "s")
        yield Claim("peak memory of a run over 1,200 small files", first[2], 2, "GiB")


def refresh_alone(runs: Path, data: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory (GiB) of a refresh in a process of its own."""
    before = os.times()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _REFRESH, str(runs), str(data)], check=True, capture_output=True, text=True
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu, float(done.stdout.split()[1])


def write_small(folder: Path, number: int) -> Path:
    """A run of five noisy metrics; hosts take turns, a run a minute each."""
    rng, samples = np.random.default_rng(number), 400
    started, host = datetime(2026, 11, 1) + timedelta(minutes=number), f"h{number % 8}"
    columns = [
        50 + rng.normal(0, 2, samples),
        8e6 + np.cumsum(rng.normal(0, 100, samples)),
        np.floor(rng.exponential(20, samples)),
        np.floor(rng.exponential(500, samples)),
        np.floor(rng.normal(900, 40, samples)),
    ]
    names = [f"{name}.{host}[{unit}]" if name else "" for name, unit in zip(HEADER, UNITS, strict=True)]
    lines = ["\t".join(names)]
    for sample, values in enumerate(zip(*columns, strict=True)):
        moment = started + timedelta(milliseconds=100 * sample)
        lines.append("\t".join([moment.isoformat(" ", "milliseconds"), *(f"{value:.3f}" for value in values)]))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"train_MLPforImageClassification_Digits_{started:%Y-%m-%dT%H-%M-%S}_{host}.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def _dropped(console: Console) -> Iterator[Claim]:
    """A wide file that is put into the folder of a running server, until its report is there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = DataFolder(place / "data", sources=(place / "runs",))
        with serving(place) as server:
            wait_for(lambda: data.lake.has(REJECTED_FILES), 600)  # an empty list, of an empty folder
            seconds, before = [], _runs(server)
            for number in range(3):
                key = _write_wide(place / "aside", number)
                start = time.perf_counter()
                (place / "aside" / f"{key}.txt").rename(place / "runs" / f"{key}.txt")
                wait_for(partial(data.lake.has, "anomaly_report", key), 600)
                seconds.append(time.perf_counter() - start)
                wait_for(lambda: not _runs(server, unfinished=True), 600)
            started = _runs(server) - before
        shown = ", ".join(f"{time:.0f}" for time in seconds)
        console.print(f"a file of 1,000 × 764 to its report: {shown} s one after the other, {started} runs in all")
        yield Claim("a dropped file to its report, the slowest of three", max(seconds), 60, "s")
        yield Claim("runs for a dropped file", started / len(seconds), 3, "")


def _runs(server: Server, *, unfinished: bool = False) -> int:
    """How many runs there are, or are at work."""
    with server.instance as instance:
        return instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED) if unfinished else None)


def _write_wide(folder: Path, number: int) -> str:
    """A run of a GPU host, of 1,000 samples of 764 metrics; returns its key."""
    started = datetime(2025, 4, 26) + timedelta(hours=number)
    key = f"train_BARTBASEforTableQuestionAnswering_default_{started:%Y-%m-%dT%H-%M-%S}_{GPU_HOST}"
    write(folder / f"{key}.txt", frame(gpu_columns(), 1_000, seed=number), start=started)
    return key


def _backfill(console: Console) -> Iterator[Claim]:
    """Everything per run of wide files, by one backfill through a real daemon, beside the same by the plain loop."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        runs = place / "runs"
        keys = [_write_wide(runs, number) for number in range(WIDE_FILES)]
        plain = refresh_alone(runs, place / "plain")[0]
        per_run = [t.name for product in GRAPH.order if product.scope.per_run for t in product.tables]
        (place / "dagster").mkdir()
        with serving(place / "dagster", "benchmarks.location", runs) as server:
            server.add_partitions(keys)
            start = time.perf_counter()
            backfill = server.backfill(per_run, keys)
            wait_for(lambda: server.status(backfill)[0] not in ("REQUESTED", "IN_PROGRESS"), 3_600)
            seconds, (status, started_runs) = time.perf_counter() - start, server.status(backfill)
        storage = sum(f.stat().st_size for f in (place / "dagster" / "home").rglob("*") if f.is_file()) / 1e6
        reports = len([*(place / "dagster" / "data" / "lake" / "anomaly_report").glob("*.parquet")])
        console.print(
            f"backfill of {WIDE_FILES} files of 1,000 × 764: {status}, {reports} reports, {seconds:.0f} s in "
            f"{started_runs} runs, {storage:.0f} MB of instance storage; the plain loop, fits and patterns included: "
            f"{plain:.0f} s"
        )
        assert reports == WIDE_FILES, "the backfill did not finish"
        yield Claim("backfill of 200 files through a daemon / the plain loop", seconds / plain, 1.3, "×")
        yield Claim("runs of that backfill", started_runs, 10, "")
        yield Claim("instance storage after it", storage, 20, "MB")
