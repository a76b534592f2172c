"""Tables that describe run files: `meta_gpu.csv` and `meta_cpu.csv` of the public data set, and others of that form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import polars as pl

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.name import run_key
from infrascope_core.run_files.sources.entry import Meta

_TEXTS = ("phase", "mode", "workload")
_COUNTS = {"n_rows": "rows", "n_cols": "columns"}
SCHEMA = pl.Schema(
    {
        "run_key": pl.String(),
        "source_file": pl.String(),
        **dict.fromkeys(_TEXTS, pl.String()),
        **dict.fromkeys(_COUNTS.values(), pl.Int64()),
    }
)
"""Columns of a table as `read_meta` gives it."""


def read_meta(meta: Meta) -> pl.DataFrame:
    """A table that describes run files, by run key.

    Returns
    -------
    polars.DataFrame
        run_key, source_file (as written), phase, mode, workload, rows, columns; null where the table does not tell. Of
        several rows for one file, the first counts.

    Raises
    ------
    RunFileError
        It is no table with a column `source_file`.
    """
    if meta.fault:
        raise RunFileError(meta.path, meta.fault)
    try:
        table = pl.read_csv(meta.content, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise RunFileError(meta.path, f"cannot be read as a table ({str(error).splitlines()[0][:200]})") from None
    if "source_file" not in table.columns:
        found = ",".join(table.columns)[:100]
        raise RunFileError(meta.path, f"expected a column source_file, found {found}")
    table = table.filter(pl.col("source_file").is_not_null())
    keys = [run_key(Path(PurePosixPath(name.replace("\\", "/")).name)) for name in table["source_file"]]
    counts = {new: _column(table, old).cast(pl.Int64, strict=False) for old, new in _COUNTS.items()}
    texts = {name: _column(table, name) for name in _TEXTS}
    columns = {"run_key": pl.Series(keys, dtype=pl.String), "source_file": table["source_file"], **texts, **counts}
    return pl.DataFrame(columns, schema=SCHEMA).unique("run_key", keep="first", maintain_order=True)


def read_metas(metas: Sequence[Meta]) -> tuple[pl.DataFrame, list[str]]:
    """All tables of a source as one, and a sentence for each that cannot be used."""
    tables, faults = [pl.DataFrame(schema=SCHEMA)], []
    for meta in metas:
        try:
            tables.append(read_meta(meta))
        except RunFileError as error:
            faults.append(str(error))
    return pl.concat(tables).unique("run_key", keep="first", maintain_order=True), faults


def kinds(table: pl.DataFrame) -> Mapping[str, tuple[str, str]]:
    """Phase and workload by run key, of those rows that tell both."""
    told = table.drop_nulls(["phase", "workload"])
    return {key: (phase, workload) for key, phase, workload in told.select("run_key", "phase", "workload").iter_rows()}


def _column(table: pl.DataFrame, name: str) -> pl.Series:
    return table[name] if name in table.columns else pl.Series([None] * table.height, dtype=pl.String)
