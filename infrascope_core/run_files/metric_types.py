"""Types of metrics: `<stem>.metrics.csv` beside a run file says what its metrics are (docs/format.md, Types)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import polars as pl

from infrascope_core.errors import MetricTypesError, RunFileError
from infrascope_core.run_files.content import read_bounded, regular_file
from infrascope_core.run_files.sources.entry import Entry
from infrascope_core.run_files.tables import METRIC_TYPES

MetricType = Literal["counter", "gauge", "state"]
METRIC_TYPE_NAMES: tuple[MetricType, ...] = get_args(MetricType)
_HEADER = ["metric", "type", "origin"]
_MAX_BYTES = 16 * 2**20


def types_text(types: pl.DataFrame) -> str:
    """The content of such a file.

    Parameters
    ----------
    types : polars.DataFrame
        metric, type and origin; one row a metric.
    """
    return types.select(_HEADER).write_csv()


def read_types(file: Path | Entry, key: str) -> pl.DataFrame:
    """Read such a file as the table `metric_types`; metrics that the run file lacks do no harm.

    Parameters
    ----------
    file : Path or Entry
        On this machine or in a source.
    key : str
        The run that it belongs to.

    Raises
    ------
    MetricTypesError
        Not a regular file of at most 16 MiB, not a table of metric,type,origin, an unknown type, or a metric twice.
    """
    path = file if isinstance(file, Path) else file.path
    try:
        with regular_file(file) if isinstance(file, Path) else file.open() as stream:
            content = read_bounded(path, stream, _MAX_BYTES)
        table = pl.read_csv(content, infer_schema=False)
    except RunFileError as error:
        raise MetricTypesError(path, error.fault) from None
    except pl.exceptions.PolarsError as error:
        raise MetricTypesError(path, f"cannot be read as a table ({str(error).splitlines()[0][:200]})") from None
    if table.columns != _HEADER:
        raise MetricTypesError(path, f"expected the header {','.join(_HEADER)}, found {','.join(table.columns)[:100]}")
    numbered = table.with_row_index("row", offset=2)
    unknown = numbered.filter(pl.col("metric").is_null() | ~pl.col("type").is_in(METRIC_TYPE_NAMES).fill_null(False))
    if unknown.height:
        raise MetricTypesError(
            path, f"line {unknown['row'][0]}: expected a metric and one of {', '.join(METRIC_TYPE_NAMES)}"
        )
    twice = numbered.filter(pl.col("metric").is_duplicated())
    if twice.height:
        raise MetricTypesError(path, f"line {twice['row'][0]}: the metric {twice['metric'][0]!r} occurs more than once")
    return table.select(pl.lit(key).alias("run_key"), pl.all()).cast(METRIC_TYPES.schema).sort("metric")
