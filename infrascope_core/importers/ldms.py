"""CSV files of LDMS' store_csv: text to samples."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import Samples, moments
from infrascope_core.importers.table import cells_to_samples

_KEYS = ("Time", "Time_usec", "ProducerName", "component_id", "job_id", "app_id")
_SEEN = 2**16
"""Bytes by which columns of text are told from those of numbers."""
_INSTANCE = re.compile(r"(?P<name>[^#]+)#(?P<instance>.+)")


def samples_of_ldms(path: Path, text: bytes, header: str | None = None) -> Samples:
    """Samples of one file, with the labels `ProducerName` (the host), `job_id` where it is known, and `instance`.

    An instance follows the `#` of a metric's name, or stands in a column of text, such as the name of an interface: a
    set of records has a row for each.

    Parameters
    ----------
    path : Path
        For messages.
    text : bytes
        The file.
    header : str, optional
        Its header, where store_csv wrote it into a file beside (`altheader`).

    Raises
    ------
    ImportSourceError
        There is no header with Time and ProducerName, or it cannot be read as a table.
    """
    first, _, body = text.partition(b"\n")
    if header is None:
        header = first.decode("utf-8", "replace")
    else:
        body = text
    names = [name.strip() for name in header.strip().lstrip("#").split(",")]
    if not {"Time", "ProducerName"} <= set(names) or len(set(names)) < len(names):
        raise ImportSourceError(
            f"{path}: expected a header as #Time,Time_usec,ProducerName,..., as store_csv writes it"
        )
    texts = _texts(body, names)
    keys = {name: pl.String() if name in ("ProducerName", "job_id", *texts) else pl.Float64() for name in names}
    try:
        table = pl.read_csv(body, has_header=False, schema=keys, truncate_ragged_lines=True, ignore_errors=True)
    except pl.exceptions.PolarsError as error:
        if not body.strip():
            return Samples()
        raise ImportSourceError(f"{path}: cannot be read as a table ({str(error).splitlines()[0][:200]})") from None
    # the line that is being written has no host yet, or half a time
    table = table.drop_nulls(["Time", "ProducerName"])
    try:
        times = moments(table["Time"], 1)
    except ValueError as error:
        raise ImportSourceError(f"{path}: {error}") from None
    jobs = table["job_id"].replace("0", None) if "job_id" in names else None
    labels = {"ProducerName": table["ProducerName"], **({} if jobs is None else {"job_id": jobs})}
    if texts:
        labels["instance"] = table.select(pl.concat_str(texts, separator=".", ignore_nulls=True)).to_series()
    metrics = {name: table[name] for name in names if name not in (*_KEYS, *texts)}
    # files of one sampler have one header: those that follow one another are read on
    return cells_to_samples(times, labels, metrics, ",".join(names), split=_split)


def _texts(body: bytes, names: list[str]) -> list[str]:
    """Columns that hold something else than numbers, by the first lines."""
    lines = [line.split(",") for line in body[:_SEEN].decode("utf-8", "replace").splitlines()[:-1]]
    whole = pl.DataFrame(
        [line for line in lines if len(line) == len(names)], schema=dict.fromkeys(names, pl.String), orient="row"
    )
    others = whole.drop(name for name in names if name in _KEYS)
    return [
        cells.name
        for cells in others
        if (cells.str.contains(r"[A-Za-z]") & ~cells.str.contains(r"(?i)^[+-]?(nan|inf|\d.*)$")).any()
    ]


def _split(name: str) -> tuple[str, dict[str, str]]:
    """A metric and the instance that follows its `#`."""
    match = _INSTANCE.fullmatch(name)
    return (match["name"], {"instance": match["instance"]}) if match else (name, {})
