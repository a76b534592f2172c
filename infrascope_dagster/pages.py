"""Reports, pictures, documentation and code as web pages: browsers refuse links from Dagster's UI to files.

    python -m infrascope_dagster.pages --port 3001

What belongs here: the server. It reads; what it shows is the data folder's and the project's own. Links to it are in
`links`.
"""

import argparse
import html
import os
import posixpath
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from infrascope_dagster.links import ADDRESS, PROJECT

_OF_DATA = ("reports", "pictures", "pages")
_OF_PROJECT = ("docs", "deploy", "infrascope_core", "infrascope_dagster")
_SHOWN_AS_THEY_ARE = (".png", ".svg", ".json")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_OF_A_PAGE = {
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Of a page of ours, which brings a policy for what is in it (docs/adr/0033)."""
_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
body.code { max-width: none }
pre, code { font-family: ui-monospace, monospace; font-size: .9em }
pre { overflow-x: auto }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #8886; padding: .25rem .75rem; text-align: left; vertical-align: top }
img { max-width: 100% }
:target { background: #fd08 }
"""


# --- pages ---


def app(data: Path, hosts: list[str]) -> Starlette:
    """The pages of a data folder and of the project.

    Parameters
    ----------
    data : Path
        The data folder.
    hosts : list of str
        Names under which the server may be asked.
    """
    roots: dict[str, Path] = {name: data / name for name in _OF_DATA}
    roots |= {name: PROJECT / name for name in _OF_PROJECT}

    def show(request: Request) -> Response:
        path = _file(roots, request.path_params["path"])
        own = path.suffix == ".html" and path.is_relative_to(roots["pages"].resolve())
        return FileResponse(path, headers=_OF_A_PAGE) if own else _page(path)

    def style(request: Request) -> Response:
        return Response(_STYLE + HtmlFormatter().get_style_defs(), media_type="text/css", headers=_HEADERS)

    def index(request: Request) -> Response:
        return RedirectResponse("/docs/tables.md")

    return Starlette(
        routes=[Route("/", index), Route("/style.css", style), Route("/{path:path}", show)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
    )


def _file(roots: Mapping[str, Path], asked: str) -> Path:
    """The file that is asked for, below its root.

    Raises
    ------
    HTTPException
        There is none, or none that may be shown.
    """
    top, _, below = posixpath.normpath(asked).partition("/")
    root = roots.get(top) if below else PROJECT
    if root is not None and (below or top == "LICENSE" or top.endswith(".md")):
        with suppress(ValueError, OSError):  # of names that no file can have
            path = (root / (below or top)).resolve()
            if path.is_file() and path.is_relative_to(root.resolve()):
                return path
    raise HTTPException(404, "There is no such page.")


def _page(path: Path) -> Response:
    if path.suffix in _SHOWN_AS_THEY_ARE:
        return FileResponse(path, headers=_HEADERS)
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        return _html(path.stem, markdown(text))
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        return Response(text, media_type="text/plain", headers=_HEADERS)
    return _html(path.name, highlight(text, lexer, HtmlFormatter(linespans="line", linenos="inline")), "code")


def markdown(text: str) -> str:
    """Markdown as HTML. HTML in it is shown, not interpreted; headings get the anchors that links in docs/ use."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^\w-]", "", following.content.lower().replace(" ", "-")))
    return str(parser.renderer.render(tokens, parser.options, {}))


def _html(title: str, body: str, style: str = "") -> HTMLResponse:
    head = f'<title>{html.escape(title)}</title><link rel="stylesheet" href="/style.css">'
    page = f'<!doctype html><html lang="en"><meta charset="utf-8">{head}<body class="{style}">{body}</body></html>'
    return HTMLResponse(page, headers=_HEADERS)


# --- serving ---


@contextmanager
def serving(data: Path, port: int) -> Iterator[str]:
    """Serve the pages on 127.0.0.1 while the context lasts; yields their address.

    Raises
    ------
    OSError
        The port is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    config = uvicorn.Config(app(data, ["127.0.0.1", "localhost"]), host="127.0.0.1", port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def main() -> None:
    """Serve the pages until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m infrascope_dagster.pages", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("INFRASCOPE_DATA", "data")))
    parser.add_argument("--host", default="127.0.0.1", help="interface to listen on")
    parser.add_argument("--port", type=int, default=3001)
    given = parser.parse_args()
    named = urlsplit(os.environ.get(ADDRESS, "")).hostname
    hosts = ["127.0.0.1", "localhost", *([named] if named else [])]
    uvicorn.run(app(given.data, hosts), host=given.host, port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
