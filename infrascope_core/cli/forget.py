"""`infrascope forget`: remove a run whose file was deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrascope_core.cli.console import DataOption, DebugOption, one_sentence
from infrascope_core.cli.progress import shown_progress


def forget(
    run_key: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run file without its ending.")],
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Remove a run whose file was deleted, with all that was made of it; patterns are mined anew without it.

    Deleting a run file alone changes nothing: what was made of it stays.
    """
    with one_sentence(debug):
        from infrascope_core import pipeline  # noqa: PLC0415 - for a fast `--help`

        folder = pipeline.open_folder(data)
        with shown_progress() as on_progress:
            pipeline.forget(folder, run_key, on_progress)
        typer.echo(f"{run_key} is forgotten")
