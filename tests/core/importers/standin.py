"""A stand-in for Prometheus on loopback: answers `series` and range vectors of what it is given, or misbehaves."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = tuple[int, bytes]
Misbehave = Callable[[str, dict[str, str]], Answer | None]


@dataclass
class StandIn:
    """What the server holds and was asked."""

    series: list[tuple[dict[str, str], list[tuple[float, str]]]] = field(default_factory=list)
    """Labels, and (time, value) as the API writes values."""
    most_samples: int = 10**9
    """A query that would load more is refused, in Prometheus' words."""
    misbehave: Misbehave = lambda path, form: None
    """Given the path and the form of a request; an answer of its own, or None."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, form: dict[str, str]) -> Answer:
        self.asked.append((path, form))
        if (own := self.misbehave(path, form)) is not None:
            return own
        if path == "/api/v1/series":
            start, end = float(form["start"]), float(form["end"])
            data = [
                labels
                for labels, values in self.series
                if fits(form["match[]"], labels) and any(start <= t <= end for t, _ in values)
            ]
            return ok(data)
        selector, length_ms = re.fullmatch(r"(\{.*\})\[(\d+)ms\]", form["query"], re.DOTALL).groups()
        end = float(form["time"])
        start = end - int(length_ms) / 1000
        result = [
            {"metric": labels, "values": [[t, v] for t, v in values if start < t <= end]}
            for labels, values in self.series
            if fits(selector, labels)
        ]
        if sum(len(one["values"]) for one in result) > self.most_samples:
            return failed(422, "query processing would load too many samples into memory in query execution")
        return ok({"resultType": "matrix", "result": [one for one in result if one["values"]]})


def ok(data: object) -> Answer:
    return 200, json.dumps({"status": "success", "data": data}, separators=(",", ":"), ensure_ascii=False).encode()


def failed(status: int, error: str) -> Answer:
    return status, json.dumps({"status": "error", "errorType": "execution", "error": error}).encode()


def fits(selector: str, labels: dict[str, str]) -> bool:
    """Whether labels fit a selector of =, != and =~ matchers, as PromQL reads it."""
    matchers = re.findall(r'(\w+)(=~|!=|=)("(?:[^"\\]|\\.)*")', selector)
    assert "{" + ",".join("".join(each) for each in matchers) + "}" == selector, selector
    for label, sign, quoted in matchers:
        value, wanted = labels.get(label, ""), json.loads(quoted)
        if sign == "=~" and not re.fullmatch(wanted, value):
            return False
        if sign in ("=", "!=") and (value == wanted) != (sign == "="):
            return False
    return True


@contextmanager
def serving(server: StandIn) -> Iterator[StandIn]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            server.headers.append(dict(self.headers))
            status, content = server.answer(self.path, {k: v[0] for k, v in parse_qs(body).items()})
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{httpd.server_port}"
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
