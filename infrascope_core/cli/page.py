"""`infrascope page` and `infrascope serve`: what a person looks at in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from infrascope_core.cli.console import DataOption, DebugOption, one_sentence, stdout_console
from infrascope_core.cli.report import chosen_runs
from infrascope_core.errors import InfraScopeError


def page(
    run_key: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="Name of the run file without its ending, or a unique prefix; else the index."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Name the page of a run, or the index of all runs, as a file for the browser."""
    with one_sentence(debug):
        from infrascope_core.pages.products import index_file, page_file  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.pages.tables import FLEET_PAGE, RUN_PAGE  # noqa: PLC0415
        from infrascope_core.pipeline import GRAPH, open_folder  # noqa: PLC0415

        folder = open_folder(data)
        if run_key is None:
            file = index_file(folder)
            if not file.is_file():
                GRAPH.make_pooled(folder, FLEET_PAGE, refit=True)
        else:
            (key,) = chosen_runs(folder, run_key, every=False)
            file = page_file(folder, key)
            if not file.is_file():
                GRAPH.make(folder, RUN_PAGE, key)
        stdout_console().print(Text(str(file)), soft_wrap=True)
        if show:
            open_in_browser(file)


def open_in_browser(file: Path) -> None:
    """Open a page.

    Raises
    ------
    InfraScopeError
        There is no browser.
    """
    if not webbrowser.open(file.absolute().as_uri()):
        raise InfraScopeError("no browser could be opened; the file can be opened in any")


def serve(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any that is free.")] = 8070,
    data: DataOption = Path("data"),
    debug: DebugOption = False,
) -> None:
    """Serve the pages on 127.0.0.1, to this machine only, until it is interrupted."""
    with one_sentence(debug):
        from infrascope_core.pages.products import index_file, pages  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.pages.server import server  # noqa: PLC0415
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415

        folder = open_folder(data)
        if not index_file(folder).is_file():
            raise InfraScopeError(f"{data}: there is no page yet; `infrascope run` makes them")
        try:
            serving = server(pages(folder), port)
        except OSError as error:
            raise InfraScopeError(f"port {port}: {error.strerror}; --port 0 takes any that is free") from None
        address, taken = serving.server_address[:2]
        stdout_console().print(Text(f"http://{address!s}:{taken}/ (Ctrl-C ends it)"), soft_wrap=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            serving.server_close()
