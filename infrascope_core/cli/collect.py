"""`infrascope collect`: run a command and record its host until it ends."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from infrascope_core.cli.console import DebugOption, complain, one_sentence
from infrascope_core.errors import InfraScopeError


def collect(
    command: Annotated[list[str] | None, typer.Argument(help="The command to run and its arguments, after --.")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.1,
    out: Annotated[Path, typer.Option(help="Folder for the run file.")] = Path("data/runs"),
    model: Annotated[str, typer.Option(help="Model, for the file's name.")] = "unknown",
    task: Annotated[str, typer.Option(help="Task, for the file's name; begins with a capital.")] = "Unknown",
    dataset: Annotated[str, typer.Option(help="Dataset, for the file's name.")] = "default",
    phase: Annotated[Literal["train", "infer"], typer.Option(help="What the command does.")] = "train",
    recover: Annotated[
        Path | None,
        typer.Option(help="Run no command; make run files of this folder's recordings that were cut off."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Run COMMAND and record the host until it ends; exits with the command's own status.

    Without such a command it exits 127, and 126 if it cannot be executed, as a shell does.

    If a recording is cut off (kill -9, a power cut), the next `collect` into the same folder recovers it.
    """
    with one_sentence(debug):
        # for a fast `--help`
        from infrascope_core.collect.recorder import (  # noqa: PLC0415
            CommandNotStartedError,
            RecordingLostError,
            record,
        )

        if recover is not None:
            raise typer.Exit(0 if _recover(recover) else 1)
        logging.basicConfig(level=logging.INFO, format="infrascope: %(message)s")
        out.mkdir(parents=True, exist_ok=True)
        try:
            recording = record(
                command or [],
                out_dir=out,
                interval_s=interval,
                model=model,
                task=task,
                dataset=dataset,
                phase=phase,
            )
        except (RecordingLostError, CommandNotStartedError) as error:
            complain(str(error))
            raise typer.Exit(error.exit_code or 1) from None
        console = Console(stderr=True, highlight=False)
        if recording.path is not None:
            console.print(
                f"{recording.samples} samples, {recording.missed_ticks} ticks missed: {recording.path}",
                markup=False,
                soft_wrap=True,
            )
        _recover(out)
    raise typer.Exit(recording.exit_code)


def _recover(folder: Path) -> bool:
    """Make run files of the recordings of a folder that were cut off; whether all could be used."""
    from infrascope_core.collect.recovery import Recovered, recover_all  # noqa: PLC0415 - for a fast `--help`

    if not folder.is_dir():
        raise InfraScopeError(f"{folder}: no such folder")
    found = recover_all(folder)
    for result in found:
        if not isinstance(result, Recovered):
            complain(str(result))
        elif result.path is None:
            complain(f"{result.recording}: cut off before the first full sample; removed")
        else:
            complain(f"{result.samples} samples recovered from a recording that was cut off: {result.path}")
    return all(isinstance(result, Recovered) for result in found)
