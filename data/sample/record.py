"""Records the committed sample again: real workloads on this machine, some with a real disturbance.

    python data/sample/record.py --out data/sample --host node01

Records with the project's own collector at 100 ms, writes what is known about each run beside it as
`STEM.faults.csv`, packs the run files, and notes machine and runs in `recorded.json`. Nothing is simulated.
Run it on a machine with at least two cores where nothing else runs; see README.md beside this file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from infrascope_core.collect.recorder import DEFAULT_INTERVAL_S, Recording, record

WORKLOADS = Path(__file__).parent / "workloads"
PYTHON = (
    "env",
    *(f"{library}_NUM_THREADS=1" for library in ("OMP", "OPENBLAS", "MKL")),
    "POLARS_MAX_THREADS=1",
    sys.executable,
)
"""One thread a workload: it has a core to itself, the other one is left to disturbances."""
PAUSE_S = 3.0
"""Between runs, after a sync, so that one run's writes do not end in the next."""


@dataclass(frozen=True)
class Workload:
    script: str
    phase: Literal["train", "infer"]
    model: str
    task: str
    dataset: str


@dataclass(frozen=True)
class Disturbance:
    name: str
    subsystem: str
    metrics: tuple[str, ...]


MLP_TRAIN = Workload("mlp_train.py", "train", "MLP", "ImageClassification", "Digits")
HGB_TRAIN = Workload("hgb_train.py", "train", "HGB", "TabularClassification", "SyntheticCovtype")
HGB_INFER = Workload("hgb_infer.py", "infer", "HGB", "TabularClassification", "SyntheticCovtype")
SGD_TRAIN = Workload("loader_train.py", "train", "SGD", "TabularClassification", "ParquetShards")

LAST_CORE = max(os.sched_getaffinity(0))
CPU_HOG = Disturbance(
    "cpu_hog",
    "CPU",
    (
        f"CPU:CPU{LAST_CORE}Utilization[%]",
        "AverageCPUUtilization[%]",
        "CPU:user[%]",
        "Processes:running[count]",
    ),
)
MEMORY_GROWTH = Disturbance(
    "memory_growth",
    "Memory",
    (
        "Memory:MemAvailable[kB]",
        "Memory:MemFree[kB]",
        "Memory:MemoryUtilization[%]",
        "Memory:Active(anon)[kB]",
        "Memory:Inactive(anon)[kB]",
        "Memory:AnonPages[kB]",
        "Memory:Active[kB]",
        "Memory:Inactive[kB]",
        "Memory:AnonHugePages[kB]",
        "Memory:Committed_AS[kB]",
        "Memory:PageTables[kB]",
        "Vmstat_diff:pgfault[count]",
    ),
)
SYNC_WRITES = Disturbance(
    "sync_writes",
    "Storage",
    (
        "Storage:I/Os_currently_in_progress[count]",
        "Storage_diff:writes_completed[count]",
        "Storage_diff:sectors_written[count]",
        "Storage_diff:time_spent_writing_(ms)[ms]",
        "Storage_diff:time_spent_doing_I/Os_(ms)[ms]",
        "Storage_diff:weighted_time_spent_doing_I/Os_(ms)[ms]",
        "Storage_diff:flush_requests_completed_successfully[count]",
        "Storage_diff:time_spent_flushing_(ms)[ms]",
        "Pressure_diff:io_some_total[us]",
        "Pressure:io_some_avg10[%]",
        "Vmstat_diff:pgpgout[kB]",
        "Memory:Writeback[kB]",
    ),
)
LOOPBACK_TRAFFIC = Disturbance(
    "loopback_traffic",
    "Network",
    (
        "NetworkInterStat_diff:rx_bytes.lo[Bytes]",
        "NetworkInterStat_diff:tx_bytes.lo[Bytes]",
        "NetworkInterStat_diff:rx_packets.lo[count]",
        "NetworkInterStat_diff:tx_packets.lo[count]",
        "NetworkProtocolCounts:TCP[count]",
        "NetworkProtocolCounts:total_connections[count]",
    ),
)

DISTURBED = (
    # workload, disturbance, share of the run after which it begins
    (MLP_TRAIN, CPU_HOG, 0.45),
    (HGB_INFER, LOOPBACK_TRAFFIC, 0.60),
    (SGD_TRAIN, MEMORY_GROWTH, 0.40),
    (HGB_TRAIN, MEMORY_GROWTH, 0.55),
    (MLP_TRAIN, SYNC_WRITES, 0.60),
    (HGB_INFER, CPU_HOG, 0.40),
)
DISTURBED_SHARE = 0.25
"""A disturbance lasts this share of its run: 11 s of 45 s."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the run files")
    parser.add_argument("--host", help="host in file and column names; this host's name if not given")
    parser.add_argument("--seconds", type=float, default=45, help="length of a run; a few to try it out")
    parser.add_argument("--healthy", type=int, default=3, help="undisturbed runs per workload and phase")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if any(given.out.glob("*.txt.gz")):
        raise SystemExit(f"{given.out} holds run files already; remove them and their labels first")

    undisturbed = [(workload, None, 0.0) for workload in (MLP_TRAIN, HGB_TRAIN, HGB_INFER, SGD_TRAIN)]
    # healthy runs before, between and after the disturbed ones, so that neither kind is all early or all late
    plan = [*undisturbed, *DISTURBED[:3], *(undisturbed * (given.healthy - 1)), *DISTURBED[3:]]
    facts = machine()
    runs = []
    with tempfile.TemporaryDirectory(prefix="infrascope-sample-") as name:
        folder = Path(name)
        subprocess.run([*PYTHON, str(WORKLOADS / "prepare.py"), str(folder)], check=True)
        for number, (workload, disturbance, share) in enumerate(plan, start=1):
            os.sync()
            time.sleep(PAUSE_S)
            label = disturbance.name if disturbance else "undisturbed"
            print(f"{number}/{len(plan)} {workload.phase} {workload.model} {label}", flush=True)
            recording, interval = record_one(
                workload, disturbance, share * given.seconds, folder, given.out, given.seconds, given.host
            )
            assert recording.path is not None, "runs are longer than an interval"
            write_labels(recording.path, disturbance, interval)
            packed = pack(recording.path)
            runs.append(
                {
                    "file": packed.name,
                    "samples": recording.samples,
                    "missed_ticks": recording.missed_ticks,
                    "disturbance": label,
                }
            )
    total = sum((given.out / run["file"]).stat().st_size for run in runs)
    facts |= {"bytes": total, "seconds": given.seconds, "runs": runs}
    (given.out / "recorded.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(f"{len(runs)} runs, {total / 1e6:.2f} MB")


def record_one(  # noqa: PLR0917
    workload: Workload,
    disturbance: Disturbance | None,
    offset_s: float,
    folder: Path,
    out: Path,
    seconds: float,
    host: str | None,
) -> tuple[Recording, tuple[str, str] | None]:
    """Record one run; the moments between which the disturbance acted, as it said itself."""
    said: list[str] = []

    def disturb(name: str) -> None:
        command = [*PYTHON, str(WORKLOADS / "disturb.py"), name, str(folder)]
        length = f"--seconds={seconds * DISTURBED_SHARE:g}"
        done = subprocess.run([*command, length], check=True, capture_output=True, text=True)
        said.extend(done.stdout.split("\n")[:2])

    timer = threading.Timer(offset_s, disturb, [disturbance.name]) if disturbance else None
    if timer:
        timer.start()
    recording = record(
        [*PYTHON, str(WORKLOADS / workload.script), str(folder), f"--seconds={seconds:g}"],
        out_dir=out,
        interval_s=DEFAULT_INTERVAL_S,
        model=workload.model,
        task=workload.task,
        dataset=workload.dataset,
        phase=workload.phase,
        host=host,
    )
    if timer:
        timer.join()
    if recording.exit_code != 0 or (disturbance and len(said) != 2):
        raise SystemExit(f"{workload.script} or its disturbance failed (exit code {recording.exit_code})")
    return recording, (said[0], said[1]) if disturbance else None


def write_labels(path: Path, disturbance: Disturbance | None, interval: tuple[str, str] | None) -> None:
    """Write `STEM.faults.csv`; header only for an undisturbed run. Only columns of the file are named."""
    with path.open(encoding="utf-8") as file:
        columns = file.readline().rstrip("\n").split("\t")[1:]
    host = path.stem.rpartition("_")[2]
    metrics = {name.replace(f".{host}[", "[") for name in columns}
    with path.with_name(f"{path.stem}.faults.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["start", "end", "fault", "subsystem", "metrics"])
        if disturbance and interval:
            named = [metric for metric in disturbance.metrics if metric in metrics]
            if not named:
                raise SystemExit(f"{path.name} has none of the columns {disturbance.name} acts on")
            table.writerow([*interval, disturbance.name, disturbance.subsystem, ";".join(named)])


def pack(path: Path) -> Path:
    """Replace the file by its gzip, the same bytes for the same content."""
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=9, mtime=0))
    path.unlink()
    return packed


def machine() -> dict[str, object]:
    """What the numbers depend on."""
    cpu = Path("/proc/cpuinfo").read_text()
    memory = Path("/proc/meminfo").read_text()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": field(cpu, "model name"),
        "cores": os.cpu_count(),
        "memory": field(memory, "MemTotal"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "polars", "scikit-learn")},
        "interval_s": DEFAULT_INTERVAL_S,
    }


def field(text: str, key: str) -> str:
    """The value of the first `key: value` line; `unknown` if there is none."""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "unknown")


if __name__ == "__main__":
    main()
