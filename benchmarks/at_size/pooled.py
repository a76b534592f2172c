"""What pooled products cost: they are made by a process of their own, and those that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter, sleep

from infrascope_core.pipeline import GRAPH
from infrascope_core.processes import Processes
from infrascope_core.store.folder import DataFolder

PROCESSES = os.cpu_count() or 1
_LOOK_S = 0.1


@dataclass(frozen=True)
class Cost:
    """CPU seconds and wall seconds of all processes, and the most memory that they had together, GiB."""

    cpu_s: float
    wall_s: float
    gib: float

    def __str__(self) -> str:
        """The three, in words."""
        return f"{self.cpu_s:7.1f} CPU s {self.wall_s:7.1f} s {self.gib:5.2f} GiB"


def made_alone(folder: DataFolder, tables: Sequence[str]) -> Cost:
    """What pooled products cost; what they need must be there."""
    command = [sys.executable, "-m", __name__, str(folder.root), *tables]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        most = 0.0
        while started.poll() is None:
            most = max(most, _resident(started.pid))
            sleep(_LOOK_S)
        assert started.stdout is not None
        if started.returncode:
            raise subprocess.CalledProcessError(started.returncode, command)
        cpu, wall = json.loads(started.stdout.read())
        return Cost(cpu, wall, most)


def _resident(pid: int) -> float:
    """Memory of a process and of those that it started, GiB."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (OSError, ValueError):  # it ended meanwhile
        return 0.0
    # what several processes share counts once
    kib = next(int(line.split()[1]) for line in own.splitlines() if line.startswith("Pss:"))
    return kib / 2**20 + sum(_resident(int(child)) for child in children)


def _make(root: str, tables: Sequence[str]) -> None:
    start = perf_counter()
    with Processes(PROCESSES) as processes:
        folder = replace(DataFolder.as_last_filled(Path(root)), processes=processes)
        for table in tables:
            GRAPH.make_pooled(folder, table, refit=True)
        folder.lake.save_index()
        wall = perf_counter() - start
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    print(json.dumps([sum(one.ru_utime + one.ru_stime for one in used), wall]))


if __name__ == "__main__":
    _make(sys.argv[1], sys.argv[2:])
