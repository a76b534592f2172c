"""OpenMetrics and Prometheus text with time stamps, as `promtool tsdb dump-openmetrics` writes them.

What belongs here: text to samples. Names and labels are parsed by the parser of prometheus_client, once for each
series; values and times of all lines at once.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from prometheus_client.parser import text_string_to_metric_families

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import SCHEMA, Samples, Series

_LINE = r'^((?:[^\s{"#]+)?(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?)[ \t]+(\S+)(?:[ \t]+([^\s#]+))?[ \t]*(?:#.*)?$'
"""Series, value and time; an exemplar may follow."""
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
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        raise ImportSourceError(f"{path}: not UTF-8 text") from None
    lines = pl.DataFrame({"line": decoded.split("\n")}).with_row_index("number", offset=1)
    lines = lines.with_columns(pl.col("line").str.strip_chars_end("\r"))
    seconds = lines.filter(pl.col("line").str.strip_chars() != "")["line"].tail(1).to_list() == ["# EOF"]
    found = lines.filter(~pl.col("line").str.contains(r"^\s*(#|$)")).with_columns(
        parts=pl.col("line").str.extract_groups(_LINE)
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
    texts = found["text"].unique(maintain_order=True)
    series = [_series(path, one) for one in texts]
    place = {one: number for number, one in enumerate(texts)}
    scale = 1e6 if seconds else 1e3
    values = found.select(
        series=pl.col("text").replace_strict(place, return_dtype=pl.UInt32),
        ts=(pl.col("number_time") * scale).round().cast(pl.Int64).cast(pl.Datetime("us")),
        value="number_value",
    )
    return Samples(tuple(series), values.cast(SCHEMA))


def _series(path: Path, text: str) -> Series:
    try:
        (family,) = text_string_to_metric_families(f"{text} 0\n")
        (sample,) = family.samples
    except (ValueError, KeyError, IndexError, TypeError):
        raise ImportSourceError(f"{path}: {text[:100]!r} cannot be read as a series") from None
    group = "|".join(sample.labels.get(label, "") for label in _SAME_TARGET)
    return Series.of(sample.name, sample.labels, group)
