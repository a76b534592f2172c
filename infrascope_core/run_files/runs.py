"""Queries on the runs of a data folder: which were accepted, and what is known of each."""

from __future__ import annotations

from typing import Any

import polars as pl

from infrascope_core.contract import WORKLOAD_KEY, Table
from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.tables import FAULTS, RUN_FILES
from infrascope_core.store.folder import DataFolder


def accepted(folder: DataFolder) -> pl.DataFrame:
    """Rows of `run_files` that were accepted, by run key."""
    # every pooled product asks, and a thousand small files take a third of a second to read
    state = tuple(sorted(folder.lake.stats(RUN_FILES).items()))
    remembered: dict[object, pl.DataFrame] = folder.once("accepted runs", dict)
    if state not in remembered:
        remembered.clear()
        rows = folder.lake.read_all(RUN_FILES)
        remembered[state] = rows.filter(pl.col("status") == "accepted").sort("run_key")
    return remembered[state]


def run_file(folder: DataFolder, key: str) -> dict[str, Any]:
    """The row of `run_files` of an accepted run.

    Raises
    ------
    InfraScopeError
        The run is unknown or was rejected.
    """
    row = folder.lake.row(RUN_FILES, key)
    if row is None or row["status"] != "accepted":
        raise InfraScopeError(f"{key}: no accepted run file of that name")
    return row


def platform_of(folder: DataFolder, key: str) -> str:
    """Platform of an accepted run."""
    return str(run_file(folder, key)["platform"])


def healthy_runs(folder: DataFolder) -> set[str]:
    """Keys of accepted runs whose label file holds no fault."""
    labelled = accepted(folder).filter("labelled")["run_key"].to_list()
    return {key for key in labelled if folder.lake.read_cached(FAULTS, key).is_empty()}


def rows_of_run(folder: DataFolder, table: Table, key: str) -> pl.DataFrame:
    """Rows of a pooled table that concern a run: those of its platform and, where the table has one, its workload."""
    run, rows = run_file(folder, key), folder.lake.read_cached(table)
    concerns = [name for name in WORKLOAD_KEY if name in rows.columns]
    what = (table.name, folder.lake.version(table), *(run[name] for name in concerns))
    return folder.once(what, lambda: rows.filter(pl.all_horizontal(pl.col(name) == run[name] for name in concerns)))


def platforms(folder: DataFolder) -> list[str]:
    """Platforms of the accepted runs, sorted."""
    return accepted(folder)["platform"].unique().sort().to_list()


def workloads(folder: DataFolder) -> list[tuple[tuple[str, str, str], pl.DataFrame]]:
    """Each (platform, phase, workload) with its accepted runs, sorted."""
    parts = accepted(folder).partition_by(WORKLOAD_KEY, as_dict=True)
    return [((str(p), str(ph), str(w)), runs) for (p, ph, w), runs in sorted(parts.items())]
