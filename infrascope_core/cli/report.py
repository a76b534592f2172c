"""`infrascope report`: the reports that a run of the folder has left, as text or as JSON."""

from __future__ import annotations

import json
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infrascope_core.cli.console import DebugOption, one_sentence
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.store.folder import DataFolder


def report(
    run_key: Annotated[str | None, typer.Argument(help="The run: its file's name without the ending.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run, one after another.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON: one report, or with --all a list.")] = False,
    data: Annotated[Path, typer.Option("--data", help="Folder that `infrascope run` filled.")] = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Show the verdict on a run: what was abnormal, where, why, and what to look at first.

    On a terminal the text is laid out; into a file or a pipe it goes as markdown.
    """
    with one_sentence(debug):
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415 - for a fast `--help`

        folder = open_folder(data)
        texts = [_text(folder, key, as_json) for key in _chosen(folder, run_key, every)]
        if as_json:
            reports = [json.loads(text) for text in texts]
            typer.echo(json.dumps(reports if every else reports[0], sort_keys=True, indent=1))
        elif sys.stdout.isatty():
            _lay_out(texts)
        else:
            typer.echo("\n---\n\n".join(texts), nl=False)


def _lay_out(texts: list[str]) -> None:
    """Print markdown as a terminal shows it."""
    from rich.console import ConsoleOptions, RenderResult  # noqa: PLC0415 - for a fast `--help`
    from rich.markdown import Markdown, TableElement  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    class Whole(TableElement):
        """A table that breaks long names instead of cutting them off."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                for column in part.columns if isinstance(part, Table) else ():
                    column.overflow = "fold"
                yield part

    class Report(Markdown):
        elements = {**Markdown.elements, "table_open": Whole}  # noqa: RUF012 - rich's own way

    console = Console(highlight=False)
    for text in texts:
        console.print(Report(text, hyperlinks=False))


def _chosen(folder: DataFolder, run_key: str | None, every: bool) -> list[str]:
    """Keys of the runs to show.

    Raises
    ------
    InfraScopeError
        Neither a run nor all were asked for, or both, or there is no report on the run.
    """
    if every == (run_key is not None):
        raise InfraScopeError("name one run, or give --all")
    known = folder.lake.keys(ANOMALY_REPORT)
    if run_key is None:
        return known
    if run_key not in known:
        like = get_close_matches(run_key, known, n=1)
        hint = f"; did you mean {like[0]}?" if like else ""
        raise InfraScopeError(f"{run_key[:200]}: there is no report on a run of that name{hint}")
    return [run_key]


def _text(folder: DataFolder, key: str, as_json: bool) -> str:
    from infrascope_core.pipeline import GRAPH  # noqa: PLC0415 - for a fast `--help`
    from infrascope_core.reports.products import report_files  # noqa: PLC0415

    markdown, as_data = report_files(folder, key)
    if not (markdown.is_file() and as_data.is_file()):  # somebody deleted them
        GRAPH.make(folder, ANOMALY_REPORT, key)
    return (as_data if as_json else markdown).read_text(encoding="utf-8")
