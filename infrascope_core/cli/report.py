"""`infrascope report`: the verdict on a run as text, markdown or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from rich.text import Text

from infrascope_core.cli.console import DataOption, DebugOption, one_sentence, stdout_console
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.reports.wording import named
from infrascope_core.store.atomic import write_text
from infrascope_core.store.folder import DataFolder

Format = Literal["text", "markdown", "json"]
_ENDINGS: dict[str, Format] = {".md": "markdown", ".markdown": "markdown", ".json": "json"}
_MATCHES = 5
"""Most runs that are listed where a prefix matches several."""


def report(
    run_key: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Name of the run file without its ending, or a unique prefix.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All runs, one after another.")] = False,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default as the ending of --out says (.md, .json), else text."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --format json; with --all a list of reports.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the terminal.")] = None,
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Show the verdict on a run: what was abnormal, where, why, and what to check first."""
    with one_sentence(debug):
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415 - for a fast `--help`

        form = "json" if as_json else form or _ENDINGS.get(out.suffix.lower() if out else "", "text")
        if out is not None and not out.absolute().parent.is_dir():
            raise InfraScopeError(f"{out}: its folder does not exist")
        folder = open_folder(data)
        keys = chosen_runs(folder, run_key, every=every)
        if form == "text" and out is None:
            _print_text(folder, keys)
            return
        text = _joined(folder, keys, form, every)
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_text(out, text)


def _joined(folder: DataFolder, keys: Sequence[str], form: Format, every: bool) -> str:
    texts = [_in_form(folder, key, form) for key in keys]
    if form == "json":
        reports = [json.loads(text) for text in texts]
        return json.dumps(reports if every else reports[0], sort_keys=True, indent=1) + "\n"
    return ("\n---\n\n" if form == "markdown" else "\n\n").join(texts)


def _print_text(folder: DataFolder, keys: Sequence[str]) -> None:
    """Print plain text: wrapped, with bold headings, on a terminal; a line a sentence in a pipe."""
    console = stdout_console()
    width = console.width if sys.stdout.isatty() else None
    for line in "\n\n".join(_in_form(folder, key, "text", width) for key in keys).splitlines():
        heading = line and not line.startswith(" ")
        console.print(Text(line, style="bold" if heading else ""), soft_wrap=True)


def _in_form(folder: DataFolder, key: str, form: Format, width: int | None = None) -> str:
    """The report on a run; its files are made again if somebody deleted them or an earlier version left them."""
    from infrascope_core.pipeline import GRAPH  # noqa: PLC0415 - for a fast `--help`
    from infrascope_core.reports.model import RunReport  # noqa: PLC0415
    from infrascope_core.reports.products import report_files  # noqa: PLC0415
    from infrascope_core.reports.rendering import as_text  # noqa: PLC0415

    markdown, as_data = report_files(folder, key)
    if not (markdown.is_file() and as_data.is_file()):
        GRAPH.make(folder, ANOMALY_REPORT, key)
    if form != "text":
        return (as_data if form == "json" else markdown).read_text(encoding="utf-8")
    try:
        return as_text(RunReport.model_validate_json(as_data.read_text(encoding="utf-8")), width)
    except ValidationError:
        GRAPH.make(folder, ANOMALY_REPORT, key)
        return as_text(RunReport.model_validate_json(as_data.read_text(encoding="utf-8")), width)


def chosen_runs(folder: DataFolder, run_key: str | None, *, every: bool) -> list[str]:
    """Keys of the runs to show.

    Raises
    ------
    InfraScopeError
        Neither a run nor all were asked for, or both; or no report, or more than one, is on a run of that name.
    """
    if every == (run_key is not None):
        raise InfraScopeError("name one run, or give --all")
    known = folder.lake.keys(ANOMALY_REPORT)
    if run_key is None:
        return known
    matches = [run_key] if run_key in known else [key for key in known if key.startswith(run_key)]
    if len(matches) == 1:
        return matches
    if run_key and matches:
        raise InfraScopeError(f"{run_key}: {len(matches)} runs begin with that: {named(matches, _MATCHES)}")
    like = get_close_matches(run_key, known, n=1)
    hint = f"; did you mean {like[0]}?" if like else ""
    raise InfraScopeError(f"{run_key[:200]}: there is no report on a run of that name{hint}")
