"""`infrascope compare`: runs before a change and runs after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer
from rich.text import Text

from infrascope_core.cli.console import DataOption, DebugOption, frame_table, one_sentence, stdout_console
from infrascope_core.cli.page import open_in_browser
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.wording import named, printable
from infrascope_core.store.folder import DataFolder

if TYPE_CHECKING:
    from infrascope_core.comparing.sides import Sides

_AD_HOC = "comparison"
"""What a comparison that the settings do not declare goes by."""
_NAMED = 5
"""Most declared comparisons that a message lists."""


def compare(
    before: Annotated[
        list[str],
        typer.Argument(
            help="Run keys, patterns of them (quote the *), or folders of run files. "
            "Without --with: a comparison that the settings declare."
        ),
    ],
    after: Annotated[
        list[str] | None,
        typer.Option("--with", help="The same for the runs after the change; may be given several times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All figures, as JSON.")] = False,
    page: Annotated[Path | None, typer.Option("--page", help="Write a page for the browser to this file.")] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser; without --page, one in the data folder.")
    ] = False,
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Did a change help? Compare runs before it with runs after it: run time, anomalies, throughput, energy, levels."""
    with one_sentence(debug):
        from infrascope_core.pages.products import pages, write_comparison  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415

        folder = open_folder(data)
        name, sides = _declared(folder, before) if after is None else (_AD_HOC, _asked(folder, before, after))
        if as_json:
            keys = {"before": [run.run_key for run in sides.before], "after": [run.run_key for run in sides.after]}
            found = asdict(sides.comparison) | {"judged": sides.comparison.judged, "runs": keys}
            typer.echo(json.dumps(found, indent=1, sort_keys=True))
        else:
            _print(sides)
        file = page or (pages(folder) / f"{_AD_HOC}.html" if show else None)
        if file is not None:
            write_comparison(folder, name, sides, file)
            if not as_json:
                stdout_console().print(Text(str(file)), soft_wrap=True)
            if show:
                open_in_browser(file)


def _asked(folder: DataFolder, before: Sequence[str], after: Sequence[str]) -> Sides:
    from infrascope_core.comparing.sides import chosen, compared  # noqa: PLC0415 - for a fast `--help`
    from infrascope_core.run_files.runs import accepted  # noqa: PLC0415

    known = accepted(folder)["run_key"].to_list()
    return compared(folder, chosen(before, known), chosen(after, known))


def _declared(folder: DataFolder, asked: Sequence[str]) -> tuple[str, Sides]:
    """The comparison of this name, as the settings of the data folder declare it.

    Raises
    ------
    InfraScopeError
        They declare none of this name.
    """
    from infrascope_core.comparing.sides import compared_as_declared  # noqa: PLC0415 - for a fast `--help`

    declared = {one.name: one for one in folder.settings.comparisons.declared}
    if len(asked) == 1 and asked[0] in declared:
        return asked[0], compared_as_declared(folder, declared[asked[0]])
    known = f", or one comparison that the settings declare ({named(list(declared), _NAMED)})" if declared else ""
    raise InfraScopeError(f"expected the runs after the change, as --with RUN{known}")


def _print(sides: Sides) -> None:
    from infrascope_core.comparing.verdict import difference, interval_of, shown, worth_showing  # noqa: PLC0415

    found, console = sides.comparison, stdout_console()
    console.print(Text(printable(found.sentence), style="bold"), soft_wrap=True)
    for obstacle in found.obstacles:
        console.print(Text(f"- {printable(obstacle)}"), soft_wrap=True)
    rows = [
        {
            "figure": change.figure.name,
            "before": shown(change.figure, change.before),
            "after": shown(change.figure, change.after),
            "difference": difference(change.figure, change.effect),
            "interval": interval_of(change),
            "q": "not tested" if change.q_value is None else f"{change.q_value:.3f}",
        }
        for change in worth_showing(found)
    ]
    if rows:
        title = f"{sides.number}; medians over runs, 95 % intervals"
        # the median of all differences between two runs: not that of the medians
        titles = {name: name for name in rows[0]} | {"difference": "typical difference"}
        console.print(frame_table(title, pl.DataFrame(rows), **titles))
