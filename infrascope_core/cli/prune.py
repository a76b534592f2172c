"""`infrascope prune`: drop the samples of old runs, and keep what was learnt from them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from infrascope_core.cli.console import DataOption, DebugOption, one_sentence
from infrascope_core.cli.progress import shown_progress
from infrascope_core.errors import InfraScopeError
from infrascope_core.quantities import quantity
from infrascope_core.reports.wording import count

_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def prune(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="As 30d, 12h or 8w, since the beginning of a run.")],
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Drop samples and features of old runs: most of what they take on disk.

    Models, patterns, verdicts, reports and pages stay, and run files are not touched. What is made of such a run stays
    as it is until its file changes.
    """
    with one_sentence(debug):
        from infrascope_core import pipeline  # noqa: PLC0415 - for a fast `--help`

        before = datetime.now(UTC).replace(tzinfo=None) - _age(older_than)
        with shown_progress() as on_progress:
            done = pipeline.prune(pipeline.open_folder(data), before, on_progress)
        typer.echo(f"{count(len(done.runs), 'run')} pruned, {quantity(done.bytes, 'bytes')} free")


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise InfraScopeError(f"--older-than {text[:20]!r}: expected hours, days or weeks, as 12h, 30d or 8w")
    return int(match[1]) * _UNITS[match[2]]
