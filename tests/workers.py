"""Run workers as they are on the machines of a cluster: processes that share the database and the data folder alone.

Each has a home of its own, as a container has; what the launcher knows of one is the number of its process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import yaml
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClass
from dagster._serdes.config_class import ConfigurableClassData

ROOT = Path(__file__).parents[1]
WORKER = "test/worker"
PROCESS = "test/process"


def with_workers(place: Path, number: int = 2) -> str:
    """The cluster's own dagster.yaml, with workers in place of containers; each worker gets it too."""
    settings = yaml.safe_load((ROOT / "deploy" / "dagster.yaml").read_text())
    homes = [place / f"worker{n}" for n in range(1, number + 1)]
    config = {"homes": list(map(str, homes))}
    settings["run_launcher"] = {"module": "tests.workers", "class": "WorkerLauncher", "config": config}
    settings["concurrency"]["runs"]["max_concurrent_runs"] = number
    text = str(yaml.safe_dump(settings))
    for home in homes:
        home.mkdir()
        (home / "dagster.yaml").write_text(text)
    return text


class WorkerLauncher(RunLauncher, ConfigurableClass):
    """Gives runs to workers in turn."""

    def __init__(self, homes: list[str], inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        self._homes = cycle(homes)
        super().__init__()

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> Any:
        return {"homes": [str]}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> WorkerLauncher:
        return cls(inst_data=inst_data, **config_value)

    def launch_run(self, context: LaunchRunContext) -> None:
        run, home = context.dagster_run, next(self._homes)
        assert run.job_code_origin is not None
        # no reference to this instance: the worker makes its own from its home
        arguments = ExecuteRunArgs(job_origin=run.job_code_origin, run_id=run.run_id, instance_ref=None)
        log = Path(home, f"{run.run_id}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments.get_command_args()], env={**os.environ, "DAGSTER_HOME": home}, cwd=home,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._instance.add_run_tags(run.run_id, {WORKER: Path(home).name, PROCESS: str(process.pid)})

    def terminate(self, run_id: str) -> bool:
        raise NotImplementedError

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        try:
            process = psutil.Process(int(run.tags[PROCESS]))
            alive = process.status() != psutil.STATUS_ZOMBIE
        except (KeyError, psutil.NoSuchProcess):
            alive = False
        return CheckRunHealthResult(WorkerStatus.RUNNING if alive else WorkerStatus.FAILED)
