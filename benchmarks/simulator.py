"""How fast run files are simulated and written: bytes of file per second of processor time, so on one core."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.pipeline import Claim
from infrascope_core.simulate import Fault, Job, write_job

MINUTES = 10
ROUNDS = 5


def claims(console: Console) -> Iterator[Claim]:
    """Megabytes per second of processor time, the median of several rounds, by platform."""
    faults = (Fault("packet_loss", 0.5, 120, 180), Fault("memory_leak", 0.5, 300, 360))
    for platform in ("gpu", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            rates = []
            for seed in range(ROUNDS):
                job = Job(platform, "DEEPSEEK", minutes=MINUTES, seed=seed, faults=faults)
                start = time.process_time()  # all threads of the process count
                (path,) = write_job(job, Path(folder))
                rates.append(path.stat().st_size / 1e6 / (time.process_time() - start))
        rate = sorted(rates)[ROUNDS // 2]
        console.print(f"simulator, {platform}: {job.samples:,} samples, {', '.join(f'{r:.0f}' for r in rates)} MB/s")
        yield Claim(f"simulated run files ({platform}), per second of one core", rate, 50, "MB/s", at_least=True)
