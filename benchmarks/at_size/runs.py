"""One run file from source to page, its room in the lake, and memory over many files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console

from benchmarks.fleet import refresh_alone, write_small
from benchmarks.pipeline import Claim
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.simulate import Job, write_job
from infrascope_core.store.folder import DataFolder
from tests.generated import GPU_HOST, frame, gpu_columns, write

SAMPLES = 3_500
"""Of a generated file of 764 metrics: 22 MB, the mean of the public data set's files (98 GB in 4,522)."""
MEAN_BYTES = 22e6
MINUTES = 6.0
"""Of a simulated run at 100 ms, 3,600 samples. Its text is terse, 9 MB, so that the lake is larger beside it."""
FITTED_ON, MEASURED = 6, 6
REPORT = "anomaly_report"
SMALL_FILES = (50, 400, 3_200)


def claims(console: Console) -> Iterator[Claim]:
    """CPU time and room of a file when levels, catalogue and baseline are there."""
    for kind, samples in (("generated", SAMPLES), ("simulated", int(600 * MINUTES))):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            _write(kind, place / "all")
            code = f"from benchmarks.at_size.runs import steady; steady({folder!r})"
            found = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        text = found["text"]
        console.print(f"{kind}, {text / 1e6:.1f} MB: " + _listed(found["cpu_ms"], "ms"))
        console.print("  " + _listed({name: size / 1e6 for name, size in found["bytes"].items()}, "MB"))
        console.print(f"  all that is made of a run, its page included: {sum(found['cpu_ms'].values()) / 1e3:.2f} s")
        cpu = sum(found["cpu_ms"].get(product.name, 0.0) for product in GRAPH.upstream(REPORT)) / 1e3
        lake = sum(found["bytes"].values())
        yield Claim(f"CPU from source to report, {samples:,} × {found['metrics']} {kind}", cpu, 1.0, "s")
        if kind == "generated":
            yield Claim("the same for 22 MB", cpu * MEAN_BYTES / text, 1.0, "s")
        yield Claim(f"lake, models aside, and pages / text, {kind}", lake / text, 0.8, "×")


def memory(console: Console) -> Iterator[Claim]:
    """Peak memory of refreshes of more and more files, each in a process of its own."""
    peaks = {}
    for number in SMALL_FILES:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for run in range(number):
                write_small(place / "runs", run)
            seconds, cpu, peaks[number] = refresh_alone(place / "runs", place / "data")
        console.print(f"{number:,} files of 400 × 5: {peaks[number]:.2f} GiB, {seconds:.0f} s, {cpu:.0f} s of CPU")
        yield Claim(f"peak memory of a run over {number:,} small files", peaks[number], 2.0, "GiB")
    few, many = SMALL_FILES[0], SMALL_FILES[-1]
    growth = (peaks[many] - peaks[few]) * 2**30 / (many - few) / 1e3
    yield Claim(f"memory for each file from {few} to {many:,}", growth, 30, "kB")


def steady(folder: str) -> None:
    """Fit on the first files of a folder, make the others run by run, and print what that takes as JSON."""
    place = Path(folder)
    files = sorted((place / "all").rglob("*.txt"))
    (place / "runs").mkdir()
    _move(files[:FITTED_ON], place / "runs")
    refresh(DataFolder(place / "data", sources=(place / "runs",)))
    later = _move(files[FITTED_ON:], place / "runs")
    data = DataFolder(place / "data", sources=(place / "runs",))
    cpu: defaultdict[str, float] = defaultdict(float)
    for product in (product for product in GRAPH.order if product.scope.per_run):
        for key in later:
            start = time.process_time()
            GRAPH.make(data, product.name, key)
            cpu[product.name] += 1e3 * (time.process_time() - start) / len(later)
    sizes: defaultdict[str, float] = defaultdict(float)
    for file in data.root.rglob("*"):
        if file.is_file() and file.stem in later:
            sizes[str(file.parent.relative_to(data.root))] += file.stat().st_size / len(later)
    text = sum((place / "runs" / f"{key}.txt").stat().st_size for key in later) / len(later)
    metrics = len((place / "runs" / f"{later[0]}.txt").open().readline().split("\t")) - 1
    print(json.dumps({"cpu_ms": cpu, "bytes": sizes, "text": text, "metrics": metrics}))


def _write(kind: str, folder: Path) -> None:
    for number in range(FITTED_ON + MEASURED):
        if kind == "simulated":
            write_job(Job("gpu", minutes=MINUTES, seed=number), folder)
        else:
            started = datetime(2025, 4, 26) + timedelta(hours=number)
            key = f"train_BARTBASEforTableQuestionAnswering_default_{started:%Y-%m-%dT%H-%M-%S}_{GPU_HOST}"
            write(folder / f"{key}.txt", frame(gpu_columns(), SAMPLES, seed=number), start=started)


def _move(files: Sequence[Path], to: Path) -> list[str]:
    """Move run files with their labels; returns their run keys."""
    for file in files:
        for part in file.parent.glob(f"{file.stem}.*"):
            part.rename(to / part.name)
    return [file.stem for file in files]


def _listed(figures: dict[str, float], unit: str) -> str:
    largest = sorted(figures.items(), key=lambda figure: -figure[1])[:8]
    return ", ".join(f"{name} {value:.3g} {unit}" for name, value in largest)
