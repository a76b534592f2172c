"""A stand-in for the Hugging Face Hub: the endpoints that huggingface_hub calls, and a store behind signed addresses.

The Hub answers `/api/datasets/…/revision/…` with files and their hashes, and `/datasets/…/resolve/…` with a small file
or with a redirect to a store on another origin; the store gives ranges of bytes for as long as the signature is valid.
Troubles are put in front of the next requests.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

REPO = "lab/telemetry"
FIRST, SECOND = "a" * 40, "b" * 40
"""Commits."""

Trouble = Callable[["_Handler"], bool]
"""What happens to a request instead of its answer; returns whether it was answered thereby."""


def status(code: int, body: bytes = b"<html>no</html>", **headers: str) -> Trouble:
    """Another answer, with headers such as `Retry_After`."""

    def answer(handler: _Handler) -> bool:
        handler.reply(code, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return answer


def cut(after: int) -> Trouble:
    """The connection ends after so many bytes of the answer."""

    def answer(handler: _Handler) -> bool:
        handler.cut_after = after
        return False

    return answer


def stall(handler: _Handler) -> bool:
    """Nothing comes until the client gives up."""
    handler.hub.released.wait(20)
    handler.close_connection = True
    return True


def without_ranges(handler: _Handler) -> bool:
    """The range is not looked at."""
    del handler.headers["Range"]
    return False


def another_etag(handler: _Handler) -> bool:
    """The file is said to be another one."""
    handler.etag = "f" * 64
    return False


@dataclass
class Hub:
    """The stand-in.

    Attributes
    ----------
    files : dict
        Content by commit and name.
    branches : dict
        Commit by branch.
    token : str or None
        What has to be sent to the Hub, and must not be sent to the store.
    hub_troubles, store_troubles : deque
        What happens to the next requests of either; None lets one pass.
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    hub_troubles: deque[Trouble | None] = field(default_factory=deque)
    store_troubles: deque[Trouble | None] = field(default_factory=deque)
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    expired: set[int] = field(default_factory=set)
    signed: int = 0
    endpoint: str = ""
    store: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def commit(self, commit: str = FIRST, branch: str = "main", **files: bytes) -> None:
        """Put files (by name, `__` for a dot) at a commit that a branch is at."""
        self.files[commit] = {name.replace("__", "."): content for name, content in files.items()}
        self.branches[branch] = commit

    def blob(self, etag: str) -> bytes | None:
        """Content by hash."""
        every = (content for files in self.files.values() for content in files.values())
        return next((content for content in every if hashlib.sha256(content).hexdigest() == etag), None)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    troubles: deque[Trouble | None]
    protocol_version = "HTTP/1.1"
    cut_after: int | None = None
    etag: str | None = None

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/api/agent-harnesses":  # asked once by the library, for its own purposes
            self.reply(404, b"", {})
            return
        with self.hub.lock:
            self.hub.requests.append(
                f"{self.headers['Host'].rpartition(':')[2]} {self.path} {self.headers.get('Range', '')}"
            )
            trouble = self.troubles.popleft() if self.troubles else None
        self.cut_after, self.etag = None, None
        if trouble is None or not trouble(self):
            self.answer()

    def do_HEAD(self) -> None:
        self.cut_after, self.etag = None, None
        self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def reply(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        part = b"" if self.command == "HEAD" else body[: self.cut_after]
        try:
            self.wfile.write(part)
            self.wfile.flush()
        except OSError:
            pass
        with self.hub.lock:
            self.hub.sent += len(part) + 500  # and the headers
        if self.cut_after is not None:
            self.close_connection = True

    def give(self, content: bytes, headers: dict[str, str]) -> None:
        """Content, or the range of it that is asked for."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self.reply(200, content, headers)
        elif int(asked[1]) >= len(content):
            self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        else:
            start, end = int(asked[1]), min(int(asked[2]) + 1, len(content))
            self.reply(206, content[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})


class _HubHandler(_Handler):
    def answer(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.reply(401, b'{"error":"Invalid username or password."}', {"X-Error-Code": "RepoNotFound"})
            return
        if api := re.fullmatch(rf"/api/datasets/{REPO}/revision/(.+)", path):
            commit = hub.branches.get(api[1], api[1])
            if commit not in hub.files:
                self.reply(404, b'{"error":"Invalid rev id"}', {"X-Error-Code": "RevisionNotFound"})
                return
            assert parse_qs(urlsplit(self.path).query)["blobs"] == ["true"]
            siblings = [_sibling(name, content) for name, content in hub.files[commit].items()]
            body = {"id": REPO, "_id": "0", "sha": commit, "siblings": siblings}
            self.reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})
        elif resolve := re.fullmatch(rf"/datasets/{REPO}/resolve/([^/]+)/(.+)", path):
            commit, name = hub.branches.get(resolve[1], resolve[1]), resolve[2]
            content = hub.files.get(commit, {}).get(name)
            if content is None:
                self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
                return
            etag, headers = _etag(name, content), {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            shown = self.etag or etag
            if not _is_large(name):
                self.give(content, headers | {"ETag": f'"{shown}"'})
                return
            with hub.lock:
                hub.signed += 1
                where = f"{hub.store}/{quote(etag)}?Expires=1&Signature={hub.signed}"
            linked = {"X-Linked-Etag": f'"{shown}"', "X-Linked-Size": str(len(content)), "Location": where}
            self.reply(302, b"Found. Redirecting", headers | linked)
        else:
            self.reply(404, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})


class _StoreHandler(_Handler):
    def answer(self) -> None:
        assert self.headers.get("Authorization") is None, "the token was sent to the store"
        where = urlsplit(self.path)
        content = self.hub.blob(where.path.strip("/"))
        if int(parse_qs(where.query)["Signature"][0]) in self.hub.expired:
            self.reply(403, b"<Error><Code>AccessDenied</Code></Error>", {})
        elif content is None:
            self.reply(404, b"", {})
        else:
            self.give(content, {"ETag": '"of-the-store"', "Accept-Ranges": "bytes"})


def _is_large(name: str) -> bool:
    return name.endswith((".zip", ".txt"))


def _etag(name: str, content: bytes) -> str:
    """The hash that the Hub shows: sha256 of large files, git's of small ones."""
    if _is_large(name):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sibling(name: str, content: bytes) -> dict[str, object]:
    lfs = {"sha256": _etag(name, content), "size": len(content), "pointerSize": 134}
    return {
        "rfilename": name,
        "size": len(content),
        "blobId": "c" * 40 if _is_large(name) else _etag(name, content),
    } | ({"lfs": lfs} if _is_large(name) else {})


@contextmanager
def serving() -> Iterator[Hub]:
    """The stand-in and its store, each on a port of its own."""
    hub = Hub()
    servers = []
    for base, troubles in ((_HubHandler, hub.hub_troubles), (_StoreHandler, hub.store_troubles)):
        handler = type(base.__name__, (base,), {"hub": hub, "troubles": troubles})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append(server)
    hub.endpoint, hub.store = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    try:
        yield hub
    finally:
        hub.released.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def use(hub: Hub, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub of this process call the stand-in, as HF_ENDPOINT and HF_HOME do before it is imported."""
    from huggingface_hub import close_session, constants
    from huggingface_hub.utils import _cache_assets

    close_session()  # connections to another test's stand-in
    patch.setattr(constants, "ENDPOINT", hub.endpoint)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 2)
    patch.setattr(_cache_assets, "HF_ASSETS_CACHE", str(home / "assets"))
    patch.delenv("HF_TOKEN", raising=False)
