"""The command line: `infrascope run`, `infrascope summary`, `infrascope collect`.

What belongs here: arguments, progress, and how results and errors look on a terminal. The graph that `run`
materializes is handed in (`build_app`), because the core knows no orchestrator.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from infrascope_core.cli.console import DebugOption, complain, frame_table, one_sentence, printable
from infrascope_core.cli.evaluate import add_evaluate
from infrascope_core.cli.report import report
from infrascope_core.cli.simulate import simulate
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.summary import Summary, summarize
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.settings import Settings, load_settings
from infrascope_core.store.folder import DataFolder

_DATA = Annotated[Path, typer.Option("--data", help="Folder for the lake, the models and the warehouse.")]

_EPILOG = """\
Run files are named PHASE_MODELforTASK_DATASET_START_HOST.txt (also .tsv, .csv, each also .gz) and hold one row per \
sample. A file that cannot be read is rejected with one sentence and stops nothing.

[bold]Record[/]   infrascope collect --out runs --model BERT --task TextClassification -- python train.py

[bold]Look[/]     infrascope run runs

[bold]Again[/]    infrascope run runs (only what is new); infrascope run runs --refit (every model anew)

[bold]Further[/]  open data/warehouse.duckdb with any DuckDB client; docs/tables.md says what each table holds
"""


def build_app() -> typer.Typer:
    """The application."""
    app = typer.Typer(
        help="Listens to the hardware of ML clusters and says what is wrong with it.",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.command()
    def run(
        paths: Annotated[list[Path], typer.Argument(help="Run files, or folders that are searched for them.")],
        data: _DATA = Path("data"),
        recipe: Annotated[
            str | None,
            typer.Option(help="default, infrascope, or a YAML file of yours.", show_default="default"),
        ] = None,
        settings: Annotated[
            Path | None, typer.Option(help="YAML file with settings that differ from the defaults.")
        ] = None,
        refit: Annotated[
            bool, typer.Option("--refit", help="Fit catalogue, thresholds and baselines anew, from all runs.")
        ] = False,
        strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if any file was rejected.")] = False,
        debug: DebugOption = False,
    ) -> None:
        """Turn run files into states, patterns and anomalies.

        A second call does only what is new or changed, and judges it by what is fitted already.

        Exit status: 0, also with rejected files; 1 if no run could be used, or with --strict if any file was
        rejected.
        """
        with one_sentence(debug):
            folder = DataFolder(data, _settings(settings, recipe), tuple(paths))
            _refresh(folder, refit)
            _show(summarize(folder))
            used, rejected = Inbox.of(folder.fresh()).outcome()
            if not used:
                raise InfraScopeError("no run could be used")
            if strict and rejected:
                raise InfraScopeError(f"{rejected} files were rejected, and --strict was given")

    @app.command()
    def summary(data: _DATA = Path("data"), debug: DebugOption = False) -> None:
        """Show again what the last `run` found."""
        with one_sentence(debug):
            from infrascope_core.pipeline import open_folder  # noqa: PLC0415 - for a fast `--help`

            _show(summarize(open_folder(data)))

    app.command()(report)
    app.command()(simulate)

    @app.command()
    def collect(
        command: Annotated[
            list[str] | None, typer.Argument(help="The command to run and its arguments, after --.")
        ] = None,
        interval: Annotated[float, typer.Option(help="Seconds between samples.")] = 0.1,
        out: Annotated[Path, typer.Option(help="Folder for the run file.")] = Path("data/runs"),
        model: Annotated[str, typer.Option(help="Model, for the file's name.")] = "unknown",
        task: Annotated[str, typer.Option(help="Task, for the file's name; begins with a capital.")] = "Unknown",
        dataset: Annotated[str, typer.Option(help="Dataset, for the file's name.")] = "default",
        phase: Annotated[Literal["train", "infer"], typer.Option(help="What the command does.")] = "train",
        recover: Annotated[
            Path | None,
            typer.Option(help="Run no command; make run files of this folder's recordings that were cut off."),
        ] = None,
        debug: DebugOption = False,
    ) -> None:
        """Run COMMAND and record the host until it ends; exits with the command's own status.

        Without such a command it exits 127, and 126 if it cannot be executed, as a shell does.

        Of a recording that is cut off (kill -9, a power cut) the next `collect` into its folder makes a run file.
        """
        with one_sentence(debug):
            # for a fast `--help`
            from infrascope_core.collect.recorder import (  # noqa: PLC0415
                CommandNotStartedError,
                RecordingLostError,
                record,
            )

            if recover is not None:
                raise typer.Exit(0 if _recover(recover) else 1)
            logging.basicConfig(level=logging.INFO, format="infrascope: %(message)s")
            out.mkdir(parents=True, exist_ok=True)
            try:
                recording = record(
                    command or [],
                    out_dir=out,
                    interval_s=interval,
                    model=model,
                    task=task,
                    dataset=dataset,
                    phase=phase,
                )
            except (RecordingLostError, CommandNotStartedError) as error:
                complain(str(error))
                raise typer.Exit(error.exit_code or 1) from None
            console = Console(stderr=True, highlight=False)
            if recording.path is not None:
                console.print(
                    f"{recording.samples} samples, {recording.missed_ticks} ticks missed: {recording.path}",
                    markup=False,
                    soft_wrap=True,
                )
            _recover(out)
        raise typer.Exit(recording.exit_code)

    add_evaluate(app)
    return app


def _settings(path: Path | None, recipe: str | None) -> Settings:
    settings = load_settings(path)
    return settings if recipe is None else settings.model_copy(update={"recipe": recipe})


def _recover(folder: Path) -> bool:
    """Make run files of the recordings of a folder that were cut off; whether all could be used."""
    from infrascope_core.collect.recovery import Recovered, recover_all  # noqa: PLC0415 - for a fast `--help`

    if not folder.is_dir():
        raise InfraScopeError(f"{folder}: no such folder")
    found = recover_all(folder)
    for result in found:
        if not isinstance(result, Recovered):
            complain(str(result))
        elif result.path is None:
            complain(f"{result.recording}: cut off before the first full sample; removed")
        else:
            complain(f"{result.samples} samples recovered from a recording that was cut off: {result.path}")
    return all(isinstance(result, Recovered) for result in found)


def _refresh(folder: DataFolder, refit: bool) -> None:
    from infrascope_core.pipeline import refresh  # noqa: PLC0415 - for a fast `--help`

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:
        tasks: dict[str, Any] = {}

        def on_progress(table: str, done: int, total: int) -> None:
            if table not in tasks:
                tasks[table] = progress.add_task(table, total=total)
            progress.update(tasks[table], completed=done, total=total)

        refresh(folder, refit, on_progress)


def _show(summary: Summary) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    rejected = summary.rejected.height
    console.print(
        frame_table(
            f"{summary.accepted} runs accepted, {rejected} files rejected",
            summary.runs,
            platform="platform",
            phase="phase",
            workload="workload",
            runs="runs",
            hosts="hosts",
            hours="hours",
        )
    )
    if rejected:
        console.print(frame_table("Rejected files", summary.rejected, path="file", reason="why"))
    console.print(
        frame_table(
            "Metrics, used and excluded",
            summary.exclusions,
            platform="platform",
            status="because",
            metrics="metrics",
        )
    )
    if summary.degenerate.height:
        console.print(
            frame_table(
                "Groups whose levels say nothing (not mined)",
                summary.degenerate,
                platform="platform",
                metric_group="group",
            )
        )
    console.print(
        frame_table(
            "Strongest rules across subsystems",
            summary.rules,
            scope="scope",
            antecedent="when",
            consequent="then",
            support="support",
            confidence="confidence",
            lift="lift",
            runs="runs",
        )
    )
    _show_episodes(console, summary.episodes)
    console.print(Text(f"\nWarehouse: {summary.warehouse} (DuckDB; tables and views as in docs/tables.md)"))


def _show_episodes(console: Console, episodes: pl.DataFrame) -> None:
    console.print(Text("Most abnormal episodes", style="bold"))
    if episodes.is_empty():
        console.print("  none")
    for number, episode in enumerate(episodes.iter_rows(named=True), start=1):
        label = f"  [known fault: {printable(episode['fault'])}]" if episode["fault"] else ""
        head = Text(f" {number:>2}. ")
        head.append(", ".join(episode["subsystems"]) or "no subsystem named", style="bold red")
        start, end = f"{episode['start_ts']:%H:%M:%S}", f"{episode['end_ts']:%H:%M:%S}"
        if f"{episode['start_ts']:%Y-%m-%d}" not in episode["run_key"]:  # a run of several days
            start = f"{episode['start_ts']:%Y-%m-%d} {start}"
        on_host = "" if episode["run_key"].endswith(episode["host"]) else f" on {episode['host']}"
        head.append(f"  {printable(episode['run_key'] + on_host)}  {start} to {end}")
        head.append(label, style="green")
        console.print(head, soft_wrap=True)
        agreed = ", ".join(episode["detectors"])
        said = " ".join([episode["headline"], *episode["claims"][:1], f"Flagged by {agreed}." if agreed else ""])
        console.print(Padding(Text(printable(said.strip())), (0, 0, 0, 5)))
