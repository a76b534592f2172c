"""Importing from Prometheus: a share of 100 hosts x 300 series x 24 h at 15 s, from a stand-in server.

    python -m benchmarks.importing 100      all of it

The server is a process of its own and answers from texts that it made beforehand, so that the time is that of the
importer; it shares the machine's cores with it all the same.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

import numpy as np
from rich.console import Console

from benchmarks.pipeline import Claim

HOSTS, SERIES, INTERVAL_S = 100, 300, 15
START = datetime(2026, 11, 20, tzinfo=UTC)
DAY = timedelta(days=1)
SHARE = 4
"""Hosts that `make bench` imports."""
_PLACE = "HOST-OF-THE-ANSWER"
_IMPORT = """
import resource, sys, time
from datetime import datetime
from pathlib import Path
from infrascope_core.importers.importing import Plan, import_prometheus
from infrascope_core.importers.jobs import by_hand
from infrascope_core.importers.mapping import load_mapping
from infrascope_core.importers.prometheus import Api
names = ("node_exporter", "dcgm_exporter", "cgroup_exporter", "slurm_exporter")
plan = Plan(Path(sys.argv[2]), tuple(map(load_mapping, names)))
listing = by_hand(*map(datetime.fromisoformat, sys.argv[3:5]))
start = time.perf_counter()
outcomes = list(import_prometheus(Api(sys.argv[1]), listing, plan))
assert {outcome.status for outcome in outcomes} == {"written"}, outcomes
rows = {(outcome.samples, outcome.metrics) for outcome in outcomes}
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, *min(rows), len(rows))
"""


def series(host: str) -> list[dict[str, str]]:
    """300 series of a host as node_exporter names them: cores, and what else fills up."""
    of = {"job": "node", "instance": f"{host}:9100"}
    modes = ("user", "system", "idle", "iowait")
    cpu = [{"__name__": "node_cpu_seconds_total", "cpu": str(c), "mode": m} for c in range(64) for m in modes]
    net = [{"__name__": "node_network_receive_bytes_total", "device": f"eth{i}"} for i in range(SERIES - len(cpu))]
    return [{**labels, **of} for labels in (*cpu, *net)]


@cache
def answer(start_ms: int, end_ms: int) -> bytes:
    """All samples of a host in a time, as Prometheus writes them; the host's name is put in later."""
    first = -(-start_ms // (INTERVAL_S * 1000))
    stamps = np.arange(first, end_ms // (INTERVAL_S * 1000) + 1) * INTERVAL_S + 0.123
    result = []
    for number, labels in enumerate(series(_PLACE)):
        rng = np.random.default_rng(number)
        values = np.round((stamps - START.timestamp()) * rng.uniform(0.1, 0.9), 2) + 1e5
        pairs = ",".join(f'[{stamp:.3f},"{value:.2f}"]' for stamp, value in zip(stamps, values, strict=True))
        result.append(f'{{"metric":{json.dumps(labels, separators=(",", ":"))},"values":[{pairs}]}}')
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(result)}]}}}}'.encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hosts = 0

    def do_POST(self) -> None:
        form = {
            key: values[0] for key, values in parse_qs(self.rfile.read(int(self.headers["Content-Length"]))).items()
        }
        if self.path.endswith("/series"):
            every = [labels for host in range(self.hosts) for labels in series(f"h{host:03}")]
            body = json.dumps({"status": "success", "data": every}).encode()
        else:
            query, time_s = form[b"query"].decode(), float(form[b"time"])
            (length_ms,) = map(int, re.findall(r"\[(\d+)ms\]$", query))
            (host,) = re.findall(r"(h\d{3}):9100", query.replace("\\", ""))
            end_ms = round(time_s * 1000)
            body = answer(end_ms - length_ms + 1, end_ms).replace(_PLACE.encode(), host.encode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def serve(port: Connection, hosts: int) -> None:
    """Serve until killed; answers are made before the first request."""
    _Handler.hosts = hosts
    begin_ms = round(START.timestamp() * 1000)
    for chunk in range(4):
        end_ms = begin_ms + (chunk + 1) * 6 * 3_600_000
        answer(end_ms - 6 * 3_600_000, end_ms)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    port.send(httpd.server_port)
    httpd.serve_forever()


def measure(hosts: int) -> tuple[float, float, int, int]:
    """Seconds, GiB, rows and columns of importing so many hosts."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, hosts), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{ours.recv()}"
        naive = START.replace(tzinfo=None)
        with tempfile.TemporaryDirectory() as out:
            words = [sys.executable, "-c", _IMPORT, url, out, naive.isoformat(), (naive + DAY).isoformat()]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
    finally:
        server.kill()
    seconds, gib, rows, columns, kinds = done.stdout.split()
    assert kinds == "1"
    return float(seconds), float(gib), int(rows), int(columns)


def claims(console: Console, hosts: int = SHARE) -> Iterator[Claim]:
    """Measure, print the times, and give the figures for all hosts."""
    begin = time.perf_counter()
    seconds, gib, rows, columns = measure(hosts)
    samples = hosts * SERIES * int(DAY.total_seconds() / INTERVAL_S)
    console.print(
        f"import of {hosts} hosts x {SERIES} series x 24 h at {INTERVAL_S} s: {seconds:.1f} s, "
        f"{samples / seconds / 1e6:.2f} million samples a second, {gib:.2f} GiB; run files of {rows:,} x {columns}; "
        f"{time.perf_counter() - begin:.0f} s with the stand-in"
    )
    minutes = seconds / hosts * HOSTS / 60
    yield Claim(f"import of {HOSTS} hosts x {SERIES} series x 24 h at 15 s, from {hosts} of them", minutes, 10, "min")
    yield Claim("the same, peak memory", gib, 2, "GiB")


if __name__ == "__main__":
    for claim in claims(Console(highlight=False), int(sys.argv[1]) if len(sys.argv) > 1 else SHARE):
        print(f"{claim.what}: {claim.figure} (target {claim.target})")
