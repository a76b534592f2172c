"""The frame of every workload: one core, rounds that begin at fixed moments, an end by the clock.

Fixed moments make runs of one workload alike; the rest of each round is idle.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path


def arguments() -> tuple[Path, float]:
    """The folder of prepared inputs and the seconds to run; puts the process on the first core, and notes its number.

    `FOLDER/workload.pid` is for the faults that are done to the workload itself.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=45)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    (given.folder / "workload.pid").write_text(str(os.getpid()), encoding="utf-8")
    return given.folder, given.seconds


def rounds(seconds: float, period_s: float) -> Iterator[int]:
    """Round numbers, one every `period_s` seconds (at once if the last took longer), for `seconds` in all."""
    began = time.monotonic()
    number = 0
    while True:
        due = max(began + number * period_s, time.monotonic())
        if due - began >= seconds:
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            return
        time.sleep(max(0.0, due - time.monotonic()))
        yield number
        number += 1
