"""Logs of `nvidia-smi --query-gpu=... --format=csv -l`: text to samples."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import Samples
from infrascope_core.importers.table import cells_to_samples, local_times

_TIME_FORMAT = "%Y/%m/%d %H:%M:%S%.f"
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*\Z")
_WORDS = {"Active": "1", "Not Active": "0", "Enabled": "1", "Disabled": "0", "Yes": "1", "No": "0"}
_GPU = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
"""Fields that tell GPUs apart, best first."""


def samples_of_nvidia_smi(path: Path, text: bytes, zone: tzinfo = UTC) -> Samples:
    """Samples of a log, one series per field and GPU, with the label `gpu`.

    The header is needed: `noheader` leaves out what the columns are. Units may be there or not. `[N/A]` and
    `[Not Supported]` are missing; `P0` and `Active` are the numbers 0 and 1; bit masks are read. Times are local time.

    Raises
    ------
    ImportSourceError
        There is no header with `timestamp`, GPUs cannot be told apart, or a line cannot be read.
    """
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    header = [_UNIT.sub("", name.strip()) for name in lines[0].split(",")] if lines else []
    if "timestamp" not in header or len(set(header)) < len(header):
        raise ImportSourceError(
            f"{path}: expected a header with the field timestamp, as nvidia-smi --query-gpu=timestamp,index,... "
            "--format=csv writes it"
        )
    # a log that was continued has its header again
    rows = [[cell.strip() for cell in line.split(",")] for line in lines[1:] if line != lines[0]]
    # a log is cut off in the middle of its last line when the program is stopped
    if rows and len(rows[-1]) < len(header):
        rows.pop()
    wrong = next((number for number, row in enumerate(rows, start=2) if len(row) != len(header)), None)
    if wrong is not None:
        raise ImportSourceError(f"{path}: line {wrong} has {len(rows[wrong - 2])} fields, the header has {len(header)}")
    table = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row")
    gpu = next((name for name in _GPU if name in header), None)
    if gpu is None and table["timestamp"].is_duplicated().any():
        raise ImportSourceError(f"{path}: several GPUs at one time, and no field that tells them apart, such as index")
    times = local_times(path, table["timestamp"], _TIME_FORMAT, zone)
    labels = {"gpu": table[gpu] if gpu else pl.Series(["0"]).new_from_index(0, table.height)}
    fields = [name for name in header if name not in ("timestamp", *_GPU)]
    return cells_to_samples(times, labels, {name: _numbers(table[name]) for name in fields}, str(path))


def _numbers(cells: pl.Series) -> pl.Series:
    """Cells as numbers, without their units; what is none is null."""
    first = cells.replace(_WORDS).str.extract(r"^P?([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?: .*)?$")
    masks = cells.str.extract(r"^0x([0-9a-fA-F]+)$").str.to_integer(base=16, strict=False, dtype=pl.UInt64)
    return first.cast(pl.Float64, strict=False).fill_null(masks.cast(pl.Float64))
