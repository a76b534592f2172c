"""Run files with known faults, from a small model of a training or inference job.

    job = Job("gpu", model="DEEPSEEK", minutes=5, seed=7, faults=(parse_fault("packet_loss:middle@2:00-3:00"),))
    paths = write_job(job, Path("runs"))

The way through the package: `plan` (what is asked) and `workloads`, `machines`, `faults.yaml` (data) → `disturbance`
(what is wrong) → `activity` (what the job does) → `host` (the latent state) → `instruments` (what tools report of it)
→ `writer`. Nothing here knows the detectors, and they know nothing of this (docs/adr/0014).
"""

from __future__ import annotations

from infrascope_core.simulate.columns import columns
from infrascope_core.simulate.plan import FAULTS, LEVELS, Fault, FaultKind, Job, parse_fault
from infrascope_core.simulate.workloads import known_workloads, task_of
from infrascope_core.simulate.writer import simulate_job, write_job

__all__ = [
    "FAULTS",
    "LEVELS",
    "Fault",
    "FaultKind",
    "Job",
    "columns",
    "known_workloads",
    "parse_fault",
    "simulate_job",
    "task_of",
    "write_job",
]
