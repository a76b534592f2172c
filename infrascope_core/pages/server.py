"""Pages served on this machine, for those whose browser does not open files.

What belongs here: static files of one folder, nothing outside it, to nobody but this machine.
"""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"


class _Pages(SimpleHTTPRequestHandler):
    """Files below the folder, by GET and HEAD; links that lead out of it are not followed, folders are not listed."""

    server_version = "InfraScope"
    sys_version = ""

    def send_head(self) -> Any:
        if not self._is_page():
            self.send_error(404, "there is no such page")
            return None
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in {ADDRESS, "localhost"}:  # a page of another site that resolves to here
            self.send_error(403, "pages are for this machine only")
            return None
        return super().send_head()

    def _is_page(self) -> bool:
        try:
            asked = Path(self.translate_path(self.path))
            index = asked / "index.html"
            file = index if asked.is_dir() and index.is_file() else asked
            return file.resolve().is_relative_to(Path(self.directory).resolve()) and file.is_file()
        except (OSError, ValueError):  # no name of a file
            return False

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the pages in a folder; port 0 takes any that is free.

    Raises
    ------
    OSError
        The port is taken.
    """

    class Here(_Pages):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

    return ThreadingHTTPServer((ADDRESS, port), Here)
