"""What commands share: options, an error as one sentence, and tables that no name can forge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.wording import printable

DataOption = Annotated[
    Path,
    typer.Option("--data", envvar="INFRASCOPE_DATA", help="Data folder: lake, models, reports and warehouse."),
]
SettingsOption = Annotated[Path | None, typer.Option(help="YAML file with the settings that differ from the defaults.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

_PIPE_WIDTH = 120
"""Columns of tables and paragraphs where there is no terminal."""


@contextmanager
def one_sentence(debug: bool) -> Iterator[None]:
    """Turn an error of ours, or of the system, into one sentence on stderr and exit status 1."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        if debug:
            raise
        complain("interrupted; finished work is kept, and the next call continues from there")
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            raise
        complain(_in_words(error))
        raise typer.Exit(1) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, InfraScopeError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    first_line = (str(error).splitlines() or [""])[0]
    return f"unexpected {type(error).__name__}: {first_line} (--debug shows the traceback)"


def complain(sentence: str) -> None:
    """Print one sentence on stderr, under the program's name."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"infrascope: {printable(sentence)}"))


def stdout_console() -> Console:
    """The console for results: as wide as the terminal, or of a fixed width in a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def frame_table(title: str, frame: pl.DataFrame, **headings: str) -> Group:
    """A frame's columns under the given headings; the title is on a line of its own, however narrow the table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, heading in headings.items():
        numeric = frame.schema[name].is_numeric()
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in frame.select(list(headings)).iter_rows():
        table.add_row(*map(_cell, row))
    return Group(Text(title, style="bold"), table)


def _cell(value: object) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, float):
        return Text(f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}")
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}")
    if isinstance(value, (list, pl.Series)):
        return Text(" + ".join(printable(v) for v in value))
    return Text(printable(value))
