"""NVIDIA GPUs through `nvidia-smi --query-gpu` (its manual page; field names from `--help-query-gpu`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from infrascope_core.collect.probe import Column, Value
from infrascope_core.collect.stream import ParseLine, StreamProbe, find_program, number, try_out

_UNITS = {
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "utilization.encoder": "%",
    "utilization.decoder": "%",
    "utilization.jpeg": "%",
    "utilization.ofa": "%",
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "temperature.gpu": "C",
    "temperature.memory": "C",
    "power.draw": "W",
    "power.limit": "W",
    "fan.speed": "%",
    "clocks.current.graphics": "MHz",
    "clocks.current.sm": "MHz",
    "clocks.current.memory": "MHz",
    "clocks.current.video": "MHz",
    "pcie.link.gen.current": "-",
    "pcie.link.width.current": "-",
    "encoder.stats.sessionCount": "count",
    "encoder.stats.averageFps": "count",
    "encoder.stats.averageLatency": "us",
    "ecc.errors.corrected.volatile.total": "count",
    "ecc.errors.uncorrected.volatile.total": "count",
}
"""Fields that are asked for where the driver knows them, with the units nvidia-smi uses."""


def nvidia_smi_probe() -> StreamProbe:
    """Probe of all GPUs that nvidia-smi lists."""
    return StreamProbe("nvidia-smi", prepare, parser)


def prepare(interval_s: float) -> tuple[Sequence[str], Sequence[Column], ParseLine]:
    """The command, the columns of every GPU, and the parser of one line."""
    program = find_program("nvidia-smi")
    known = set(re.findall(r'"([\w.]+)"', try_out([program, "--help-query-gpu"])))
    fields = [field for field in _UNITS if field in known]
    listed = try_out([program, "--query-gpu=index", "--format=csv,noheader"])
    gpus = [line.strip() for line in listed.splitlines() if line.strip().isdecimal()]
    command = [
        program,
        f"--query-gpu={','.join(['index', *fields])}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={max(1, round(1000 * interval_s))}",
    ]
    columns = [_column(field, gpu) for gpu in gpus for field in fields]
    return command, columns, parser(columns)


def parser(columns: Sequence[Column]) -> ParseLine:
    """The parser of one line, whose cells are the fields of these columns."""
    fields = list(dict.fromkeys(column.metric.strip() for column in columns))

    def parse(line: str) -> Iterator[tuple[Column, Value]]:
        return parse_line(line, fields)

    return parse


def parse_line(line: str, fields: Sequence[str]) -> Iterator[tuple[Column, Value]]:
    """Values of one GPU: its index, then one cell per field; any other line gives none."""
    gpu, *cells = (cell.strip() for cell in line.split(","))
    if gpu.isdecimal() and len(cells) == len(fields):
        for field, cell in zip(fields, cells, strict=True):
            yield _column(field, gpu), number(cell)


def _column(field: str, gpu: str) -> Column:
    return Column("GPU", f" {field}", gpu, _UNITS[field])
