"""Runs whose samples were dropped, and what was learnt from them: it is kept where it cannot be learnt anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import polars as pl

from infrascope_core.contract import Table
from infrascope_core.errors import OutdatedError
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.store.folder import DataFolder

_log = logging.getLogger(__name__)
_MOST_NAMED = 3


def is_pruned(folder: DataFolder, key: str) -> bool:
    """Whether the samples of a run were dropped."""
    return folder.lake.is_emptied(TELEMETRY, key)


def whole(folder: DataFolder, runs: pl.DataFrame) -> pl.DataFrame:
    """Those rows whose run has its samples."""
    return runs.filter(pl.Series([not is_pruned(folder, key) for key in runs["run_key"]], dtype=pl.Boolean))


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
