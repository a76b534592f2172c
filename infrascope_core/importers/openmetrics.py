"""OpenMetrics and Prometheus text with time stamps, as `promtool tsdb dump-openmetrics` writes them.

What belongs here: text to samples. Names and labels are parsed by the parser of prometheus_client, once for each
series; values and times of all lines at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
from prometheus_client.parser import text_string_to_metric_families

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import SCHEMA, Samples, Series, moments

_LINE = r'^((?:[^\s{"#]+)?(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?)[ \t]+(\S+)(?:[ \t]+([^\s#]+))?[ \t]*(?:#.*)?$'
"""Series, value and time; an exemplar may follow."""
_BLOCK = 16 * 2**20
_SAME_TARGET = ("job", "instance", "replica", "prometheus_replica")


def samples_of_text(path: Path, text: bytes) -> Samples:
    """Samples of a dump.

    Text that ends in `# EOF` is OpenMetrics, whose times are seconds; other text is Prometheus' own, whose times are
    milliseconds. Comments (`# TYPE`, `# HELP`, `# UNIT`) are passed over: types are those of the mapping.

    Raises
    ------
    ImportSourceError
        The text cannot be read, or lines have no time; names the line.
    """
    per_second = 1 if text.rstrip().endswith(b"# EOF") else 1000
    place: dict[str, int] = {}
    frames = [SCHEMA.to_frame()]
    for first, block in _blocks(text):
        found = _lines(path, block, first)
        for one in found["text"].unique(maintain_order=True):
            place.setdefault(one, len(place))
        try:
            times = moments(found["number_time"], per_second)
        except ValueError as error:
            raise ImportSourceError(f"{path}: {error}") from None
        number = found["text"].replace_strict(place, return_dtype=pl.UInt32)
        frames.append(pl.DataFrame({"series": number, "ts": times, "value": found["number_value"]}).cast(SCHEMA))
    return Samples(tuple(_series(path, one) for one in place), pl.concat(frames))


def _blocks(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines, each with the number of its first: parsed lines take several times the room of text."""
    start, number = 0, 1
    while start < len(text):
        end = text.find(b"\n", start + _BLOCK) + 1 or len(text)
        block = text[start:end]
        yield number, block
        number += block.count(b"\n")
        start = end


def _lines(path: Path, block: bytes, first: int) -> pl.DataFrame:
    """The samples of a block: text (of the series), number_value and number_time."""
    try:
        decoded = block.decode("utf-8")
    except UnicodeDecodeError:
        raise ImportSourceError(f"{path}: not UTF-8 text") from None
    lines = pl.DataFrame({"line": decoded.split("\n")}).with_row_index("number", offset=first)
    found = lines.filter(~pl.col("line").str.contains(r"^\s*(#|$)")).with_columns(
        parts=pl.col("line").str.strip_chars_end("\r").str.extract_groups(_LINE)
    )
    found = found.unnest("parts").rename({"1": "text", "2": "value", "3": "time"})
    found = found.with_columns(
        number_value=pl.col("value").str.replace(r"(?i)^\+?inf$", "inf").cast(pl.Float64, strict=False),
        number_time=pl.col("time").cast(pl.Float64, strict=False),
    )
    wrong = found.filter(pl.col("text").is_null() | (pl.col("text") == "") | pl.col("number_value").is_null())
    if wrong.height:
        raise ImportSourceError(f"{path}: line {wrong['number'][0]}: expected a series, a value and a time")
    timeless = found.filter(pl.col("number_time").is_null())
    if timeless.height:
        raise ImportSourceError(
            f"{path}: line {timeless['number'][0]} has no time; expected a dump over time, as promtool tsdb "
            "dump-openmetrics writes it"
        )
    return found.select("text", "number_value", "number_time")


def _series(path: Path, text: str) -> Series:
    try:
        (family,) = text_string_to_metric_families(f"{text} 0\n")
        (sample,) = family.samples
    except (ValueError, KeyError, IndexError, TypeError):
        raise ImportSourceError(f"{path}: {text[:100]!r} cannot be read as a series") from None
    group = "|".join(sample.labels.get(label, "") for label in _SAME_TARGET)
    return Series.of(sample.name, sample.labels, group)
