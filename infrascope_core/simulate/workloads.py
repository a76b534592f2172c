"""Workloads as data: what a model asks of its host, from `workloads.yaml`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict

from infrascope_core.run_files.tables import Platform
from infrascope_core.simulate.plan import Phase, seed_of


class Profile(BaseModel):
    """One workload on one platform; `workloads.yaml` says what each number means, units are in the names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    period_s: float
    input_share: float
    sync_share: float
    exposed_input: float
    startup_s: float
    loading_s: float
    warmup_s: float
    evaluation_every_s: float
    evaluation_s: float
    checkpoint_every_s: float
    checkpoint_s: float
    ending_s: float
    checkpoint_mb: float
    dataset_mb: float
    read_mb_s: float
    loading_mb_s: float
    host_memory_gb: float
    spin_cores: float
    loader_cores: float
    comm_cores: float
    ipc: float
    stall_share: float
    miss_share: float
    branch_miss_share: float
    sync_mb_s: float
    steady_mb_s: float
    management_kb_s: float
    retransmissions_per_s: float
    connections: float
    gpu_load: float
    gpu_memory_load: float
    gpu_memory_gb: float
    copy_share: float

    def shifted(self, rng: np.random.Generator, spread: float) -> Profile:
        """A profile whose numbers are multiplied by log-normal factors of that spread; shares keep below 0.9."""
        values = {name: value * float(np.exp(rng.normal(0, spread))) for name, value in self}
        return Profile(
            **{n: min(v, 0.9) if n.endswith(("_share", "_load")) and v < 1 else v for n, v in values.items()}
        )


@cache
def _data() -> dict[str, Any]:
    text = (resources.files(__package__) / "workloads.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def known_workloads() -> list[tuple[str, str]]:
    """Model and task of every workload that has a profile of its own."""
    return [(entry["model"], entry["task"]) for entry in _data()["workloads"]]


def task_of(model: str) -> str | None:
    """The first task that `workloads.yaml` lists for a model."""
    return next((task for known, task in known_workloads() if known.lower() == model.lower()), None)


@cache
def profile(platform: Platform, model: str, task: str, dataset: str, phase: Phase) -> Profile:
    """The profile of a workload; the same for the same names, whatever the seed of the job."""
    data = _data()
    entry = next(
        (e for e in data["workloads"] if (e["model"].lower(), e["task"].lower()) == (model.lower(), task.lower())), None
    )
    values = _changed(data["defaults"][platform], (entry or {}).get(platform, {}))
    if entry is None:
        rng = np.random.default_rng(seed_of("workload", model, task))
        spread = np.log(data["unknown_spread"])
        values = {name: value * float(np.exp(rng.uniform(-spread, spread))) for name, value in values.items()}
    if dataset != "default":  # another data set: other batches and files, the same model
        rng = np.random.default_rng(seed_of("data set", dataset))
        for name in ("period_s", "dataset_mb", "read_mb_s", "loading_s", "evaluation_s"):
            values[name] *= float(np.exp(rng.uniform(-0.2, 0.2)))
    if phase == "infer":
        values = _changed(values, data["infer"])
    return Profile(**values)


def _changed(values: dict[str, float], changes: dict[str, Any]) -> dict[str, float]:
    return values | {
        name: values[name] * change["times"] if isinstance(change, dict) else change for name, change in changes.items()
    }
