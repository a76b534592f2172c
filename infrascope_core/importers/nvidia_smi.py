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
    first, _, body = text.lstrip().partition(b"\n")
    header = [_UNIT.sub("", name.strip()) for name in first.decode("utf-8", "replace").split(",")]
    if "timestamp" not in header or len(set(header)) < len(header):
        raise ImportSourceError(
            f"{path}: expected a header with the field timestamp, as nvidia-smi --query-gpu=timestamp,index,... "
            "--format=csv writes it"
        )
    table = _cells(path, first.strip(), body, header)
    gpu = next((name for name in _GPU if name in header), None)
    if gpu is None and table["timestamp"].is_duplicated().any():
        raise ImportSourceError(f"{path}: several GPUs at one time, and no field that tells them apart, such as index")
    times = local_times(path, table["timestamp"], _TIME_FORMAT, zone)
    labels = {"gpu": table[gpu] if gpu else pl.Series(["0"]).new_from_index(0, table.height)}
    fields = [name for name in header if name not in ("timestamp", *_GPU)]
    return cells_to_samples(times, labels, {name: _numbers(table[name]) for name in fields}, ",".join(header))


def _cells(path: Path, first: bytes, body: bytes, header: list[str]) -> pl.DataFrame:
    """The fields of all lines, without spaces around them.

    A log that was continued has its header again, and the last line is cut off where the program was stopped.
    """
    lines = pl.Series(body.decode("utf-8", "replace").splitlines(), dtype=pl.String).str.strip_chars()
    lines = lines.filter((lines != "") & (lines != first.decode("utf-8", "replace")))
    commas = lines.str.count_matches(",", literal=True)
    if len(lines) and commas[-1] < len(header) - 1:
        lines, commas = lines[:-1], commas[:-1]
    wrong = (commas != len(header) - 1).arg_max() if len(lines) and (commas != len(header) - 1).any() else None
    if wrong is not None:
        raise ImportSourceError(
            f"{path}: {lines[wrong][:60]!r} has {commas[wrong] + 1} fields, the header has {len(header)}"
        )
    fields = lines.str.split_exact(",", len(header) - 1).struct.rename_fields(header).struct.unnest()
    return fields.select(pl.all().str.strip_chars())


def _numbers(cells: pl.Series) -> pl.Series:
    """Cells as numbers, without their units; what is none is null."""
    first = cells.replace(_WORDS).str.extract(r"^P?([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?: .*)?$")
    masks = cells.str.extract(r"^0x([0-9a-fA-F]+)$").str.to_integer(base=16, strict=False, dtype=pl.UInt64)
    return first.cast(pl.Float64, strict=False).fill_null(masks.cast(pl.Float64))
