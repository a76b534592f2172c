"""`infrascope compare`: runs before a change and runs after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.text import Text

from infrascope_core.cli.console import DataOption, DebugOption, frame_table, one_sentence, stdout_console
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.wording import printable


def compare(
    before: Annotated[
        list[str], typer.Argument(help="Run keys, patterns of them (quote the *), or folders of run files.")
    ],
    after: Annotated[
        list[str], typer.Option("--with", help="The same for the runs after the change; may be given several times.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="All figures, as JSON.")] = False,
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Did a change help? Compare runs before it with runs after it: run time, anomalies, energy, levels."""
    with one_sentence(debug):
        from infrascope_core.comparing import verdict  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.comparing.figures import figures_of  # noqa: PLC0415
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415
        from infrascope_core.run_files.runs import accepted  # noqa: PLC0415

        folder = open_folder(data)
        known = accepted(folder)["run_key"].sort().to_list()
        sides = [_runs(asked, known) for asked in (before, after)]
        both = sorted(set(sides[0]) & set(sides[1]))
        if both:
            raise InfraScopeError(f"{both[0]}: a run cannot be before and after the change")
        found = verdict.compare(figures_of(folder, sides[0]), figures_of(folder, sides[1]))
        if as_json:
            typer.echo(json.dumps(asdict(found), indent=1, sort_keys=True))
            return
        console = stdout_console()
        console.print(Text(printable(found.sentence), style="bold"), soft_wrap=True)
        for obstacle in found.obstacles:
            console.print(Text(f"- {printable(obstacle)}"), soft_wrap=True)
        rows = [
            {
                "figure": change.figure.name,
                "before": verdict.shown(change.figure, change.before),
                "after": verdict.shown(change.figure, change.after),
                "difference": verdict.shown(change.figure, change.effect),
                "interval": "too few runs"
                if change.low is None or change.high is None
                else f"{verdict.shown(change.figure, change.low)} to {verdict.shown(change.figure, change.high)}",
                "q": "not tested" if change.q_value is None else f"{change.q_value:.3f}",
            }
            for change in verdict.worth_showing(found)
        ]
        title = f"{len(sides[0])} runs before, {len(sides[1])} after; medians over runs, 95 % intervals"
        names = {name: name for name in ("figure", "before", "after", "difference", "interval", "q")}
        console.print(frame_table(title, pl.DataFrame(rows), **names))


def _runs(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Keys of the runs that are asked for.

    Raises
    ------
    InfraScopeError
        One of them names no run.
    """
    found: dict[str, None] = {}
    for text in asked:
        place = Path(text)
        if place.is_dir():
            stems = {file.name.partition(".")[0] for file in place.rglob("*") if file.is_file()}
            matches = [key for key in known if key in stems or key.partition(".")[0] in stems]
        else:
            matches = [key for key in known if key == text or fnmatchcase(key, text)]
        if not matches:
            raise InfraScopeError(f"{text[:200]}: no accepted run is named so, nor is there a folder with such runs")
        found |= dict.fromkeys(matches)
    return list(found)
