"""How results and errors look on a terminal: one sentence an error, plain tables, nothing that a name could forge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infrascope_core.errors import InfraScopeError

DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", hidden=False)]


class one_sentence:  # noqa: N801 - reads as a statement
    """Turns an error of ours, or one of the system's, into one sentence and exit status 1."""

    def __init__(self, debug: bool) -> None:
        self.debug = debug

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self.debug or isinstance(error, typer.Exit):
            return
        if isinstance(error, KeyboardInterrupt):
            complain("interrupted; what is finished is kept, and the next call goes on from there")
            raise typer.Exit(130) from None
        if isinstance(error, InfraScopeError):
            complain(str(error))
        elif isinstance(error, OSError):
            complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        elif isinstance(error, Exception):
            said = (str(error).splitlines() or [""])[0]
            complain(f"unexpected {type(error).__name__}: {said} (--debug shows more)")
        else:
            return
        raise typer.Exit(1) from None


def complain(sentence: str) -> None:
    """Say one sentence on stderr, under the program's name."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"infrascope: {printable(sentence)}"))


def printable(value: object) -> str:
    """Text without control characters: names and file contents are not to be trusted with a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))


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


def frame_table(title: str, frame: pl.DataFrame, **headings: str) -> Table:
    """A frame's columns under the given headings."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, heading in headings.items():
        numeric = frame.schema[name].is_numeric()
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in frame.select(list(headings)).iter_rows():
        table.add_row(*map(_cell, row))
    return table
