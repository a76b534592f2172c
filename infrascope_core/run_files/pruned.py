"""Runs whose samples were dropped, and what was learnt from them: it is kept where it cannot be learnt anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import polars as pl

from infrascope_core.contract import Table
from infrascope_core.errors import OutdatedError
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.store.folder import DataFolder

_log = logging.getLogger(__name__)
_MOST_NAMED = 3


def pruned(folder: DataFolder) -> list[str]:
    """Keys of accepted runs whose samples were dropped, sorted."""
    return [key for key in accepted(folder)["run_key"] if folder.lake.is_emptied(TELEMETRY, key)]


def whole(folder: DataFolder, runs: pl.DataFrame) -> pl.DataFrame:
    """Those of the runs whose samples are there."""
    return runs.filter(~pl.col("run_key").is_in(pruned(folder)))


def as_learnt(
    folder: DataFolder, table: Table, of: pl.DataFrame, unfit: Callable[[dict[str, Any]], str] = lambda row: ""
) -> pl.DataFrame:
    """Rows of a fitted table as it stands, for what cannot be fitted anew; warnings say what is kept and what is lost.

    Parameters
    ----------
    folder : DataFolder
        Where it lies.
    table : Table
        The table; it may never have been fitted.
    of : polars.DataFrame
        Keys, in columns that the table has too: what lacks the samples to be fitted on.
    unfit : callable
        Why a row cannot be used any more; empty if it can.
    """
    if of.is_empty() or not folder.lake.has(table):
        return table.empty()
    try:
        rows = folder.lake.read(table).join(of, on=of.columns, how="semi")
    except OutdatedError as error:
        _log.warning("%s: lost (%s), and the samples of the runs were dropped", table.name, error)
        return table.empty()
    why = [unfit(row) for row in rows.iter_rows(named=True)]
    for row, reason in zip(rows.iter_rows(named=True), why, strict=True):
        if reason:
            unit = " ".join(row[name] for name in of.columns)
            _log.warning("%s of %s: lost (%s), and the samples of the runs were dropped", table.name, unit, reason)
    rows = rows.filter(pl.Series([not reason for reason in why], dtype=pl.Boolean))
    units = [" ".join(unit) for unit in rows.select(of.columns).unique().sort(of.columns).iter_rows()]
    if units:
        named = ", ".join(units[:_MOST_NAMED]) + (
            f" and {len(units) - _MOST_NAMED} more" if units[_MOST_NAMED:] else ""
        )
        _log.warning("%s of %s: kept as it is, because the samples of the runs were dropped", table.name, named)
    return rows
