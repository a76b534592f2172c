"""What the collector costs while it records: CPU time beside the paper's, and ticks it missed.

Reveal (section 5.3, figure 5) reports 1.2 to 1.4 % CPU overhead at 100 ms. The paper does not say of what, so
both readings are given: of one core, and of the host's CPU time.
"""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from infrascope_core.collect.recorder import DEFAULT_INTERVAL_S, record

PAPER_PERCENT = (1.2, 1.4)


def measure(seconds: float = 20) -> dict[str, float]:
    """Record `sleep seconds` at 100 ms with all probes of this host.

    Returns
    -------
    dict
        `sampling_percent_of_core`: CPU time of the sampling process while the command runs.
        `probe_children_percent_of_core`: of nvidia-smi, perf and turbostat, trial runs included, and of
        `sleep` itself (about a millisecond). `percent_of_core`, `percent_of_host`: both together.
        `writing_ms_per_1000_samples`: CPU time of parsing and writing, after the command has ended.
        `missed_per_10000`: sampling moments without a sample.
    """
    children = _cpu_s(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        recording = record(
            ["sleep", f"{seconds:g}"],
            out_dir=Path(folder),
            interval_s=DEFAULT_INTERVAL_S,
            model="Sleep",
            task="Bench",
            dataset="default",
            phase="infer",
        )
    children = _cpu_s(resource.RUSAGE_CHILDREN) - children
    ticks = recording.samples + recording.missed_ticks
    core = 100 / recording.elapsed_s
    percent_of_core = core * (recording.sampling_cpu_s + children)
    return {
        "seconds": recording.elapsed_s,
        "samples": recording.samples,
        "sampling_percent_of_core": core * recording.sampling_cpu_s,
        "probe_children_percent_of_core": core * children,
        "percent_of_core": percent_of_core,
        "percent_of_host": percent_of_core / (os.cpu_count() or 1),
        "paper_percent_low": PAPER_PERCENT[0],
        "paper_percent_high": PAPER_PERCENT[1],
        "writing_ms_per_1000_samples": 1e6 * recording.writing_cpu_s / max(1, recording.samples),
        "missed_per_10000": 10_000 * recording.missed_ticks / max(1, ticks),
    }


def _cpu_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
