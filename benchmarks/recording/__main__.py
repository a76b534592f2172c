"""Records labelled runs of real workloads on this machine, some with a real fault; nothing is simulated.

    python -m benchmarks.recording PLAN --out FOLDER --host node01

Records a plan of plans.yaml with the project's own collector at 100 ms, writes what is known about each run beside it
as `STEM.faults.csv`, packs the run files, and notes machine and runs in `recorded.json`. A run that is there already is
not recorded again, so that it may be interrupted, or done a few runs at a time (`--runs`). For a machine with two cores
or more where nothing else runs; data/sample/README.md and data/faults/README.md say what each plan needs.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.recording import surroundings
from infrascope_core.collect.recorder import DEFAULT_INTERVAL_S, Recording, record

HERE = Path(__file__).parent
PYTHON = (
    "env",
    *(f"{library}_NUM_THREADS=1" for library in ("OMP", "OPENBLAS", "MKL")),
    "POLARS_MAX_THREADS=1",
    f"PYTHONPATH={HERE.parents[1]}",
    sys.executable,
    "-m",
)
"""One thread a workload: it has a core to itself, the other one is left to faults."""
WORKLOADS = "benchmarks.recording.workloads"
PAUSE_S = 3.0
"""Between runs, after a sync, so that one run's writes do not end in the next."""
UNDISTURBED = "undisturbed"


@dataclass(frozen=True)
class Run:
    """One run of a plan: the workload's script, and the fault with where it begins and what it is given."""

    workload: str
    fault: str = UNDISTURBED
    after_share: float = 0.0
    given: Sequence[str | float] = ()


@dataclass(frozen=True)
class Lengths:
    """Seconds of a run and of its fault."""

    run_s: float
    fault_s: float


@dataclass(frozen=True)
class Plan:
    """What to record, in order."""

    seconds: float
    fault_share: float
    runs: Sequence[Run]

    @property
    def needs(self) -> frozenset[str]:
        """What the faults act on beside the host."""
        return frozenset(need for run in self.runs if (need := FAULTS.get(run.fault, {}).get("needs")))


DECLARED: Mapping[str, Any] = yaml.safe_load((HERE / "plans.yaml").read_text(encoding="utf-8"))
FAULTS: Mapping[str, Mapping[str, Any]] = DECLARED["faults"]


def plan_of(name: str) -> Plan:
    """The plan of that name, with its healthy runs."""
    declared = DECLARED["plans"][name]
    faulty = [Run(*row) for row in declared["runs"]]
    before = declared.get("healthy_before_each", False)
    runs = [run for fault in faulty for run in ([Run(fault.workload), fault] if before else [fault])]
    return Plan(declared["seconds"], declared["fault_share"], runs)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recording", description=__doc__.splitlines()[0])
    parser.add_argument("plan", choices=sorted(DECLARED["plans"]))
    parser.add_argument("--out", type=Path, required=True, help="folder of the run files")
    parser.add_argument("--host", help="host in file and column names; this host's name if not given")
    parser.add_argument("--seconds", type=float, help="length of a run, if not the plan's; a few to try it out")
    parser.add_argument("--runs", type=int, help="stop after so many runs; the next call goes on")
    parser.add_argument("--inputs", type=Path, help="keep the workloads' inputs in this folder")
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    plan = plan_of(asked.plan)
    lengths = Lengths(seconds := asked.seconds or plan.seconds, seconds * plan.fault_share)
    noted = asked.out / "recorded.json"
    facts = (
        json.loads(noted.read_text(encoding="utf-8"))
        if noted.exists()
        else machine() | {"seconds": seconds, "runs": []}
    )
    if not facts["runs"] and any(asked.out.glob("*.txt.gz")):
        raise SystemExit(f"{asked.out} holds run files of something else; remove them and their labels first")
    first = len(facts["runs"])
    last = len(plan.runs) if asked.runs is None else min(first + asked.runs, len(plan.runs))
    with folder_of_inputs(asked.inputs) as folder, surroundings.prepared(folder, plan.needs):
        for number, run in enumerate(plan.runs[first:last], start=first + 1):
            os.sync()
            time.sleep(PAUSE_S)
            print(f"{number}/{len(plan.runs)} {run.workload} {run.fault} {' '.join(map(str, run.given))}", flush=True)
            facts["runs"].append(recorded(run, lengths, folder, asked.out, asked.host))
            facts["bytes"] = sum((asked.out / done["file"]).stat().st_size for done in facts["runs"])
            noted.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{len(facts['runs'])} runs, {facts.get('bytes', 0) / 1e6:.2f} MB")


@contextlib.contextmanager
def folder_of_inputs(kept: Path | None) -> Iterator[Path]:
    """A folder with the workloads' inputs, made unless they are kept from an earlier call."""
    with contextlib.ExitStack() as stack:
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infrascope-recording-")))
        if not (folder / "model.joblib").exists():
            subprocess.run([*PYTHON, f"{WORKLOADS}.prepare", str(folder)], check=True)
        yield folder


def recorded(run: Run, lengths: Lengths, folder: Path, out: Path, host: str | None) -> dict[str, Any]:
    """Record one run with its labels; what `recorded.json` says about it."""
    recording, interval = record_one(run, lengths, folder, out, host)
    assert recording.path is not None, "runs are longer than an interval"
    write_labels(recording.path, run.fault, interval)
    packed = pack(recording.path)
    said = {"given": [str(word) for word in run.given]} if run.given else {}
    return {
        "file": packed.name,
        "samples": recording.samples,
        "missed_ticks": recording.missed_ticks,
        "disturbance": run.fault,
    } | said


def record_one(
    run: Run, lengths: Lengths, folder: Path, out: Path, host: str | None
) -> tuple[Recording, tuple[str, str] | None]:
    """Record one run; the moments between which its fault acted, as it said itself."""
    said: list[str] = []

    def disturb() -> None:
        acting = ["--", run.fault, str(folder), *map(str, run.given)]
        command = [*PYTHON, f"{WORKLOADS}.disturb", f"--seconds={lengths.fault_s:g}", *acting]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        said.extend(done.stdout.split("\n")[:2])

    faulty = run.fault != UNDISTURBED
    timer = threading.Timer(run.after_share * lengths.run_s, disturb) if faulty else None
    if timer:
        timer.start()
    recording = record(
        [*PYTHON, f"{WORKLOADS}.{run.workload}", str(folder), f"--seconds={lengths.run_s:g}"],
        out_dir=out,
        interval_s=DEFAULT_INTERVAL_S,
        **DECLARED["workloads"][run.workload],
        host=host,
    )
    if timer:
        timer.join()
    if recording.exit_code != 0 or (faulty and len(said) != 2):
        raise SystemExit(f"{run.workload} or its fault {run.fault} failed (exit code {recording.exit_code})")
    return recording, (said[0], said[1]) if faulty else None


def write_labels(path: Path, fault: str, interval: tuple[str, str] | None) -> None:
    """Write `STEM.faults.csv`; header only for an undisturbed run. Only columns of the file are named."""
    with path.open(encoding="utf-8") as file:
        columns = file.readline().rstrip("\n").split("\t")[1:]
    host = path.stem.rpartition("_")[2]
    there = {name.replace(f".{host}[", "[") for name in columns}
    with path.with_name(f"{path.stem}.faults.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["start", "end", "fault", "subsystem", "metrics"])
        if interval:
            last_core = max(os.sched_getaffinity(0))
            metrics = [metric.replace("{core}", str(last_core)) for metric in FAULTS[fault]["metrics"]]
            named = [metric for metric in metrics if metric in there]
            if not named:
                raise SystemExit(f"{path.name} has none of the columns {fault} acts on")
            table.writerow([*interval, fault, FAULTS[fault]["subsystem"], ";".join(named)])


def pack(path: Path) -> Path:
    """Replace the file by its gzip, the same bytes for the same content."""
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=9, mtime=0))
    path.unlink()
    return packed


def machine() -> dict[str, Any]:
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
    main(sys.argv[1:])
