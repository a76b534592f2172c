"""`infrascope fetch`: read some runs of a source, as far as the telemetry, or list what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.text import Text

from infrascope_core.cli.console import (
    DataOption,
    DebugOption,
    SettingsOption,
    complain,
    frame_table,
    one_sentence,
    stdout_console,
)
from infrascope_core.cli.progress import shown_progress
from infrascope_core.errors import InfraScopeError
from infrascope_core.quantities import quantity
from infrascope_core.reports.wording import count
from infrascope_core.run_files.inbox import Inbox, kept_of
from infrascope_core.run_files.inventory import inventory
from infrascope_core.run_files.meta import read_metas
from infrascope_core.run_files.name import printable_path
from infrascope_core.run_files.sources.hub import PUBLIC_DATA_SET, HubName, follow
from infrascope_core.run_files.sources.selection import Selection
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, RUN_FILES, RUN_INVENTORY, TELEMETRY
from infrascope_core.settings import Settings, load_settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Product

_READING = {table.name for table in (RUN_FILES, TELEMETRY, FAULTS, REJECTED_FILES, RUN_INVENTORY)}


def fetch(
    source: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE]",
            help="hub:OWNER/NAME, perhaps with @REVISION. HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what "
            "they always mean.",
            show_default="the Reveal telemetry data set",
        ),
    ] = PUBLIC_DATA_SET,
    listed: Annotated[bool, typer.Option("--list", help="Show what there is, and fetch nothing of it.")] = False,
    workload: Annotated[
        str | None, typer.Option(help="Only runs of these workloads: a pattern such as 'BERT*'.", show_default=False)
    ] = None,
    phase: Annotated[str | None, typer.Option(help="Only train, infer or fine-tuning.", show_default=False)] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="No more than so many; more can be added later.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All runs, whatever their size.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Read a branch where it is now, if it has moved.")] = False,
    data: DataOption = Path("data"),
    settings: SettingsOption = None,
    debug: DebugOption = False,
) -> None:
    """Fetch runs of a data set of the Hugging Face Hub: a few megabytes each, whatever the size of its archives.

    They are read into the data folder on the way; `infrascope run` goes on from there. Runs that are there already are
    not fetched again.
    """
    with one_sentence(debug):
        from infrascope_core.pipeline import refresh  # noqa: PLC0415 - for a fast `--help`

        name = HubName.parse(source)
        asked = Selection(workload, phase, runs).checked("fetch")
        if asked and name.selection:
            raise InfraScopeError(f"{source}: selects runs itself; use either that or the options")
        if everything and asked:
            raise InfraScopeError("fetch: --all is every run there is; use either that or a selection")
        selection = asked or name.selection
        if not (listed or selection or everything or update):
            raise InfraScopeError(
                "fetch: expected --list, --workload, --phase, --runs, or --all for every run there is"
            )
        chosen = Path(f"{name.source}?{selection.query}" if selection else name.source)
        folder = DataFolder(data, load_settings(settings) if settings else _settings_of(data), (chosen,))
        if update:
            follow(source, kept_of(folder))
        inbox = Inbox.of(folder)
        if not inbox.keys:
            raise InfraScopeError(f"{chosen}: holds no run files")
        for notice in inbox.notices:
            complain(notice)
        if listed:
            _show(inbox)
            return
        if not (selection or everything):
            typer.echo(f"{name.source}: runs are read at commit {inbox.listings[0].commit}")
            return  # --update alone
        with shown_progress() as on_progress:
            refresh(folder, on_progress=on_progress, only=_is_reading)
        _report(folder.fresh())


def _is_reading(product: Product) -> bool:
    return product.tables[0].name in _READING


def _settings_of(data: Path) -> Settings:
    """The settings of a folder that was filled before, else the defaults."""
    try:
        return DataFolder.as_last_filled(data).settings
    except InfraScopeError:
        return Settings()


def _show(inbox: Inbox) -> None:
    """What is selected, by phase and workload, with what it would take to fetch it."""
    (listing,) = inbox.listings
    rows = inventory(listing, read_metas(listing.metas)[0])
    wanted = rows.filter(pl.col("file").is_in([printable_path(entry.path) for entry in listing.wanted]))
    table = (
        wanted.with_columns(moved=pl.coalesce("packed", "size"))
        .group_by("phase", "workload")
        .agg(
            runs=pl.len(),
            moved=pl.col("moved").sum(),
            unpacked=pl.col("size").sum(),
            described=pl.col("described").sum(),
        )
        .sort("phase", "workload", nulls_last=True)
    )
    moved, unpacked = int(table["moved"].sum()), int(table["unpacked"].sum())
    title = (
        f"{count(wanted.height, 'run')}, {quantity(moved, 'bytes')} to fetch, {quantity(unpacked, 'bytes')} unpacked"
    )
    sizes = {name: [quantity(float(size), "bytes") for size in table[name]] for name in ("moved", "unpacked")}
    console = stdout_console()
    console.print(
        frame_table(
            title,
            table.with_columns(pl.Series(name, values, dtype=pl.String) for name, values in sizes.items()),
            phase="phase",
            workload="workload",
            runs="runs",
            described="in metadata",
            moved="to fetch",
            unpacked="unpacked",
        )
    )
    missing = rows.filter(~pl.col("listed")).height
    if missing:
        console.print(f"{count(missing, 'file')} in metadata only: no archive holds them", soft_wrap=True)
    console.print(Text(f"{listing.source}, commit {listing.commit}"), soft_wrap=True)


def _report(folder: DataFolder) -> None:
    """What is there now, and what to do next."""
    used, rejected = Inbox.of(folder).outcome()
    if not used:
        raise InfraScopeError("no run could be used; `rejected_files` says why")
    refused = f", {count(rejected, 'file')} rejected" if rejected else ""
    typer.echo(f"{count(used, 'run')} fetched{refused}; `infrascope run --data {folder.root}` goes on with them")
