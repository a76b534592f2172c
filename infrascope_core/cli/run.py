"""`infrascope run`: bring a data folder up to date with the run files of its sources, and show what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrascope_core.cli.console import DataOption, DebugOption, SettingsOption, complain, one_sentence
from infrascope_core.cli.progress import shown_progress
from infrascope_core.cli.summary import show
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.summary import summarize
from infrascope_core.reports.wording import count
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.settings import Settings, load_settings
from infrascope_core.store.folder import DataFolder


def run(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="Run files, folders that are searched for them, zip archives, hub:OWNER/NAME, or a YAML file that "
            "says what to import (docs/importing.md). Without any: what the data folder holds already, as after "
            "`infrascope fetch`.",
            show_default=False,
        ),
    ] = None,
    data: DataOption = Path("data"),
    recipe: Annotated[
        str | None,
        typer.Option(help="default, infrascope, or the path of your own YAML file.", show_default="default"),
    ] = None,
    settings: SettingsOption = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit catalogue, thresholds and baselines from all runs.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=256, help="Processes that work at a time.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if any file was rejected.")] = False,
    debug: DebugOption = False,
) -> None:
    """Turn run files into states, patterns and anomalies.

    A second call processes only what is new or changed, and judges it by the models that are already fitted.

    Exit status: 0, even if files were rejected; 1 if no run could be used, or with --strict if any file was
    rejected.
    """
    with one_sentence(debug):
        # scipy, scikit-learn and the rest take a second to import: `--help` does without
        from infrascope_core.pages.products import index_file  # noqa: PLC0415
        from infrascope_core.pipeline import refresh  # noqa: PLC0415

        folder = DataFolder(data, _settings(settings, recipe), tuple(paths or ()))
        if not folder.sources:
            DataFolder.as_last_filled(data)  # complains if there is nothing to go on with
        with shown_progress() as on_progress:
            refresh(folder, refit, on_progress, jobs=jobs)
        show(summarize(folder), index_file(folder))
        inbox = Inbox.of(folder.fresh())
        for notice in inbox.notices:
            complain(notice)
        used, rejected = inbox.outcome()
        if not used:
            raise InfraScopeError("no run could be used")
        if strict and rejected:
            raise InfraScopeError(f"{count(rejected, 'file')} rejected, and --strict was given")


def _settings(path: Path | None, recipe: str | None) -> Settings:
    settings = load_settings(path)
    return settings if recipe is None else settings.model_copy(update={"recipe": recipe})
