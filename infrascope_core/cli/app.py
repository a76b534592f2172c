"""The application: the commands put together, and the page of `infrascope --help`."""

from __future__ import annotations

import typer

from infrascope_core.cli.collect import collect
from infrascope_core.cli.compare import compare
from infrascope_core.cli.evaluate import evaluate
from infrascope_core.cli.fetch import fetch
from infrascope_core.cli.forget import forget
from infrascope_core.cli.importing import import_app
from infrascope_core.cli.page import page, serve
from infrascope_core.cli.prune import prune
from infrascope_core.cli.report import report
from infrascope_core.cli.run import run
from infrascope_core.cli.simulate import simulate
from infrascope_core.cli.summary import summary

_HELP = "Find out from hardware telemetry what slows an ML cluster down."
_EPILOG = """\
Run files are named PHASE_MODELforTASK_DATASET_START_HOST.txt (also .tsv, .csv, each also .gz) and hold one row per \
sample. A file that cannot be read is rejected with one sentence; the others are processed.

[bold]Record[/]    infrascope collect --out runs --model BERT --task TextClassification -- python train.py

[bold]Import[/]    infrascope import prometheus http://localhost:9090 --sacct jobs.txt --out runs

[bold]Fetch[/]     infrascope fetch --workload 'BERT*' --phase train --runs 20 (public data set); infrascope run

[bold]Analyse[/]   infrascope run runs (only what is new); infrascope run runs --refit (every model anew)

[bold]Look[/]      infrascope summary; infrascope report RUN; infrascope page RUN --open; infrascope serve

[bold]Query[/]     open data/warehouse.duckdb with any DuckDB client; docs/tables.md describes each table
"""


def build_app() -> typer.Typer:
    """The application."""
    app = typer.Typer(
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (run, fetch, summary, report, compare, page, serve, forget, prune, simulate, collect, evaluate):
        app.command()(command)
    app.add_typer(import_app(), name="import")
    return app


def main() -> None:
    """Run the command line: the entry point of `infrascope`."""
    build_app()()
