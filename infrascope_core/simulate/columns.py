"""The columns of a simulated run file: names, order and decimals by platform, from `columns.yaml`.

What belongs here: the shape of a file. What the columns hold is the business of `instruments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from infrascope_core.run_files.tables import Platform
from infrascope_core.simulate.machines import machine


@dataclass(frozen=True)
class Column:
    """A column: its host-free metric, and how many decimals it is written with (0: whole numbers)."""

    metric: str
    digits: int


@cache
def columns(platform: Platform) -> tuple[Column, ...]:
    """The metric columns of a host in the file's order: 764 on GPU hosts, 791 on CPU hosts (docs/format.md)."""
    text = (resources.files(__package__) / "columns.yaml").read_text(encoding="utf-8")
    return tuple(column for block in yaml.safe_load(text)[platform] for column in _block(block, platform))


def _block(block: dict[str, Any], platform: Platform) -> list[Column]:
    here = machine(platform)
    source = block["source"] if block["source"].endswith(" ") else block["source"] + ":"
    if "utilisation_of" in block:
        names = sorted(f"{source}CPU{core}Utilization[%]" for core in range(here.cores))
        return [Column(name, 4) for name in (*names, "AverageCPUUtilization[%]")]
    metrics = [
        (entry, block["unit"], block.get("digits", 0))
        if isinstance(entry, str)
        else (entry[0], entry[1], entry[2] if len(entry) > 2 else 0)
        for entry in block["metrics"]
    ]
    if "instances" not in block:
        return [Column(f"{source}{name}[{unit}]", digits) for name, unit, digits in metrics]
    instances = here.instances(block["instances"])
    pairs = (
        [(metric, instance) for instance in instances for metric in metrics]
        if block.get("instance_first")
        else [(metric, instance) for metric in metrics for instance in instances]
    )
    return [Column(f"{source}{name}.{instance}[{unit}]", digits) for (name, unit, digits), instance in pairs]
