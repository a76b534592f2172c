"""Progress: plain lines in a pipe, a bar that vanishes on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

from infrascope_core.cli.progress import shown_progress

STEPS = [("quality_metrics", 0, 3), ("quality_metrics", 3, 3), ("metric_catalog", 0, 1), ("metric_catalog", 5, 18),
         ("metric_catalog", 1, 1)]  # fmt: skip
PROGRAM = f"""
import time
from infrascope_core.cli.progress import shown_progress
with shown_progress() as on_progress:
    for step in {STEPS!r}:
        on_progress(*step)
        time.sleep(0.25)
"""


def test_a_pipe_gets_a_line_for_each_product(capsys):
    with shown_progress() as on_progress:
        for step in STEPS:
            on_progress(*step)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [re.sub(r"\d+\.\d s", "T s", line) for line in err.splitlines()]
    assert lines == ["infrascope: quality_metrics: 3 of 3 in T s", "infrascope: metric_catalog: 18 of 18 in T s"]


def test_nothing_to_do_prints_nothing(capsys):
    with shown_progress():
        pass
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_moves_within_a_product_and_vanishes():
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while chunk := _read(leader):
        seen += chunk
    assert done.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    figures = re.findall(r"(quality_metrics|metric_catalog)\s+[━╸╺ ]+\s*(\S+)", text)
    assert {("quality_metrics", "0/3"), ("quality_metrics", "3/3"), ("metric_catalog", "5/18")} <= set(figures)
    assert seen.rstrip().endswith(b"\x1b[1A\x1b[2K")  # back over the bar's line, and that cleared


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody holds its other end any more
        return b""
