"""What a source holds beside what its own tables say of it: `run_inventory`.

The tables of the public data set do not fit its archives: one lists 680 of 1,480 files, and gives 678 columns where the
files have 764. What does not fit is said, and never guessed.
"""

from __future__ import annotations

import polars as pl

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.name import parse_run_name, printable_path, run_key
from infrascope_core.run_files.sources.archive import Member
from infrascope_core.run_files.sources.entry import Entry, Listing
from infrascope_core.run_files.tables import RUN_INVENTORY

_NAMED = ("phase", "mode", "workload")
_COUNTED = {"rows": "samples", "columns": "metrics"}
"""What a table says a file has, and what it was found to have when it was read."""
_LISTED = pl.Schema(
    {
        "run_key": pl.String(),
        "file": pl.String(),
        "size": pl.Int64(),
        "packed": pl.Int64(),
        **{f"{name}_named": pl.String() for name in _NAMED},
    }
)


def inventory(listing: Listing, described: pl.DataFrame) -> pl.DataFrame:
    """Rows of `run_inventory` for one source, before anything of it is read.

    Parameters
    ----------
    listing : Listing
        What the source holds.
    described : polars.DataFrame
        What its tables say (`meta.read_metas`).

    Returns
    -------
    polars.DataFrame
        A row per file of the source, and one per file that is only described; `differs` names what the name and the
        table say differently.
    """
    rows = [_listed(entry) for entry in listing.entries]
    listed = pl.DataFrame(rows, schema=_LISTED, orient="row")
    known = described.with_columns(described=pl.lit(True))
    joined = listed.with_columns(listed=pl.lit(True)).join(known, on="run_key", how="full", coalesce=True)
    differs = [
        pl.when(pl.col(name) != pl.col(f"{name}_named")).then(pl.lit(name)).alias(f"{name}_differs") for name in _NAMED
    ]
    return RUN_INVENTORY.conform(
        joined.with_columns(*differs)
        .with_columns(
            source=pl.lit(listing.source),
            commit=pl.lit(listing.commit or None, dtype=pl.String),
            file=pl.coalesce("file", "source_file"),
            listed=pl.col("listed").fill_null(False),
            described=pl.col("described").fill_null(False) if listing.metas else pl.lit(None, dtype=pl.Boolean),
            differs=pl.concat_list(f"{name}_differs" for name in _NAMED).list.drop_nulls(),
            samples=pl.lit(None, dtype=pl.Int64),
            metrics=pl.lit(None, dtype=pl.Int64),
            **{name: pl.coalesce(name, f"{name}_named") for name in _NAMED},
        )
        .select(RUN_INVENTORY.schema.names())
        .sort("file", "run_key")
    )


def compared(rows: pl.DataFrame, read: pl.DataFrame) -> pl.DataFrame:
    """The rows with what was found in those files that were read, and whether that is what the tables say.

    Parameters
    ----------
    rows : polars.DataFrame
        Rows of `run_inventory`.
    read : polars.DataFrame
        Rows of `run_files` that were accepted.
    """
    found = read.select("run_key", *_COUNTED.values())
    counts = [
        pl.when(pl.col(said) != pl.col(counted)).then(pl.lit(said)).alias(f"{said}_differs")
        for said, counted in _COUNTED.items()
    ]
    others = pl.col("differs").list.eval(pl.element().filter(~pl.element().is_in([*_COUNTED])))
    return (
        rows.drop(*_COUNTED.values())
        .join(found, on="run_key", how="left")
        .with_columns(*counts)
        .with_columns(
            differs=pl.concat_list(others, pl.concat_list(f"{said}_differs" for said in _COUNTED).list.drop_nulls())
        )
        .select(RUN_INVENTORY.schema.names())
        .sort("source", "file", "run_key")
    )


def _listed(entry: Entry) -> tuple[str | int | None, ...]:
    named: tuple[str | None, ...] = (None, None, None)
    try:
        name = parse_run_name(entry.path)
        named = (name.phase, name.mode, name.workload)
    except RunFileError:  # `rejected_files` says so
        pass
    packed = entry.packed_size if isinstance(entry, Member) else None
    return printable_path(run_key(entry.path)), printable_path(entry.path), entry.size, packed, *named
