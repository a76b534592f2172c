"""`infrascope simulate`: run files with known faults.

What belongs here: arguments, and the lines about what was written.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from infrascope_core.cli.console import DebugOption, one_sentence
from infrascope_core.errors import SimulationError

_TWIN = 1_000_000
"""What the seed of a healthy twin is larger by."""
_FAULT_HELP = (
    r"NAME\[:INTENSITY]\[@START-END]\[#HOST], several times. INTENSITY is low, middle (default), high or a number up "
    "to 1; times are seconds or mm:ss from the first sample (default: the whole run); HOST counts from 0."
)


def simulate(
    platform: Annotated[Literal["gpu", "cpu"], typer.Option(help="Kind of host.")],
    out: Annotated[Path, typer.Option(help="Folder for the run files.")],
    workload: Annotated[
        str, typer.Option(help="MODEL, MODEL__TASK or MODEL__TASK__DATASET; an unknown one gets a profile of its own.")
    ] = "BERTBASE__TextClassification",
    phase: Annotated[Literal["train", "infer"], typer.Option(help="What the job does.")] = "train",
    fault: Annotated[list[str] | None, typer.Option(help=_FAULT_HELP)] = None,
    hosts: Annotated[int, typer.Option(help="Hosts of the job.")] = 1,
    one_file: Annotated[bool, typer.Option("--one-file", help="All hosts side by side in one file.")] = False,
    minutes: Annotated[float, typer.Option(help="Length of the run.")] = 5.0,
    interval: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    twin: Annotated[
        bool,
        typer.Option(help="Beside a job with faults, also the same one without, for `evaluate` to compare it with."),
    ] = True,
    debug: DebugOption = False,
) -> None:
    """Write the run files of a simulated job whose faults are known, each with its labels beside it.

    Faults: numa_misplacement, single_queue_pair (gpu), irq_imbalance, huge_pages_1g (whole run), packet_loss,
    thermal_throttling, pcie_downtraining (gpu), memory_leak, storage_burst, gpu_straggler (gpu), gpu_held_idle (gpu),
    noisy_neighbour, sensor_stuck, sensor_missing. docs/simulator.md describes each.

    Example: infrascope simulate --platform gpu --workload DEEPSEEK --fault packet_loss:high@2:00-2:40 --out runs
    """
    with one_sentence(debug):
        from infrascope_core.simulate import Job, parse_fault, task_of, write_job  # noqa: PLC0415 - for a fast `--help`

        model, task, dataset, *more = [*workload.split("__"), "", ""][: max(3, workload.count("__") + 1)]
        if more:
            raise SimulationError(f"the workload {workload!r} has more than a model, a task and a dataset")
        job = Job(
            platform=platform,
            model=model,
            task=task or task_of(model) or "TextClassification",
            dataset=dataset or "default",
            phase=phase,
            minutes=minutes,
            seed=seed,
            faults=tuple(parse_fault(text) for text in fault or ()),
            hosts=hosts,
            one_file=one_file,
            interval_s=interval,
        )
        console = Console(stderr=True, highlight=False)
        jobs = [job, replace(job, seed=seed + _TWIN, faults=())] if twin and job.faults else [job]
        for path in (path for each in jobs for path in write_job(each, out)):
            console.print(f"{job.samples} samples: {path}", markup=False, soft_wrap=True)
