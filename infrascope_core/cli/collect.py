"""`infrascope collect`: run a command and record its host until it ends."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from infrascope_core.cli.console import DebugOption, complain, one_sentence


def collect(
    command: Annotated[list[str], typer.Argument(help="The command to run and its arguments, after --.")],
    interval: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.1,
    out: Annotated[Path, typer.Option(help="Folder for the run file.")] = Path("data/runs"),
    model: Annotated[str, typer.Option(help="Model, for the file's name.")] = "unknown",
    task: Annotated[str, typer.Option(help="Task, for the file's name; begins with a capital.")] = "Unknown",
    dataset: Annotated[str, typer.Option(help="Dataset, for the file's name.")] = "default",
    phase: Annotated[Literal["train", "infer"], typer.Option(help="What the command does.")] = "train",
    debug: DebugOption = False,
) -> None:
    """Run COMMAND and record the host until it ends; exits with the command's own status."""
    with one_sentence(debug):
        from infrascope_core.collect.recorder import RecordingLostError, record  # noqa: PLC0415 - for a fast `--help`

        logging.basicConfig(level=logging.INFO, format="infrascope: %(message)s")
        out.mkdir(parents=True, exist_ok=True)
        try:
            recording = record(
                command,
                out_dir=out,
                interval_s=interval,
                model=model,
                task=task,
                dataset=dataset,
                phase=phase,
            )
        except RecordingLostError as error:
            complain(str(error))
            raise typer.Exit(error.exit_code or 1) from None
        console = Console(stderr=True, highlight=False)
        if recording.path is not None:
            console.print(
                f"{recording.samples} samples, {recording.missed_ticks} ticks missed: {recording.path}",
                markup=False,
                soft_wrap=True,
            )
    raise typer.Exit(recording.exit_code)
