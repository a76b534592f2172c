"""Small run files for tests: a few metrics of a /proc host, good and bad, under valid names."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

HEADER = ["", "AverageCPUUtilization", "Memory:MemAvailable", "Storage_diff:sectors_written",
          "NetworkInterStat_diff:tx_bytes.lo", "Interrupts_diff:total"]  # fmt: skip
UNITS = ["", "%", "kB", "count", "Bytes", "count"]


def run_name(second: int, host: str = "h1", phase: str = "train", model: str = "MLP") -> str:
    return f"{phase}_{model}forImageClassification_Digits_2026-11-01T10-00-{second:02d}_{host}.txt"


def write_run(
    folder: Path,
    second: int,
    samples: int = 400,
    burst: tuple[int, int] | None = None,
    host: str = "h1",
    **name: str,
) -> Path:
    """Write a run of noise with, perhaps, a burst of processor use between two samples."""
    rng = np.random.default_rng(second)
    columns = [
        50 + rng.normal(0, 2, samples),
        8e6 + np.cumsum(rng.normal(0, 100, samples)),
        np.floor(rng.exponential(20, samples)),
        np.floor(rng.exponential(500, samples)),
        np.floor(rng.normal(900, 40, samples)),
    ]
    if burst:
        columns[0][slice(*burst)] += 45
        columns[4][slice(*burst)] += 800
    folder.mkdir(parents=True, exist_ok=True)
    start = datetime(2026, 11, 1, 10, 0, second)
    names = [f"{n}.{host}[{u}]" if n else "" for n, u in zip(HEADER, UNITS, strict=True)]
    lines = ["\t".join(names)]
    for i in range(samples):
        stamp = (start + timedelta(milliseconds=100 * i)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        lines.append("\t".join([stamp, *(f"{column[i]:.3f}" for column in columns)]))
    path = folder / run_name(second, host, **name)
    path.write_text("\n".join(lines) + "\n")
    return path


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _put(path: Path, lines: list[str], end: str = "\n") -> None:
    path.write_text("\n".join(lines) + end)


def _backwards(path: Path) -> None:
    lines = _lines(path)
    lines[10], lines[11] = lines[11], lines[10]
    _put(path, lines)


def _text(path: Path) -> None:
    lines = _lines(path)
    cells = lines[7].split("\t")
    cells[2] = "a lot"
    lines[7] = "\t".join(cells)
    _put(path, lines)


def _no_times(path: Path) -> None:
    lines = _lines(path)
    _put(path, [lines[0], *(line.split("\t", 1)[0][:4] + "\t" + line.split("\t", 1)[1] for line in lines[1:])])


SPOIL = {
    "not a table": (lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256))), "not a table"),
    "ragged rows": (
        lambda p: _put(p, [*_lines(p)[:5], _lines(p)[5] + "\t1", *_lines(p)[6:]]),
        "line 6 has 7 fields, the header has 6",
    ),
    "truncated in a line": (
        lambda p: p.write_text(p.read_text()[:-30]),
        "the file ends in the middle of a line",
    ),
    "two headers": (lambda p: _put(p, [*_lines(p)[:9], *_lines(p)]), "line 10 repeats the header"),
    "no timestamps": (_no_times, "no timestamps"),
    "times that run backwards": (_backwards, "line 12: time runs backwards"),
    "text where numbers belong": (
        _text,
        "line 8, column 'Memory:MemAvailable.h1[kB]': expected a number, found 'a lot'",
    ),
    "zero rows": (lambda p: _put(p, _lines(p)[:1]), "holds a header but no samples"),
    "empty": (lambda p: p.write_bytes(b""), "empty: expected a header line"),
}
"""How to spoil a good file, and what the rejection must say."""
