"""`infrascope summary`: what the last `run` found; also the end of `run` itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infrascope_core.cli.console import DataOption, DebugOption, frame_table, one_sentence, stdout_console
from infrascope_core.reports.rendering import VERDICTS
from infrascope_core.reports.summary import Summary, summarize
from infrascope_core.reports.wording import count, duration, printable

_REASONS = 8
"""Most reasons for rejected files that are shown."""


def summary(data: DataOption = Path("data"), debug: DebugOption = False) -> None:
    """Show again what the last `run` found."""
    with one_sentence(debug):
        from infrascope_core.pages.products import index_file  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.pipeline import open_folder  # noqa: PLC0415

        folder = open_folder(data)
        show(summarize(folder), index_file(folder))


def show(summary: Summary, index: Path | None = None) -> None:
    """Print a summary: the runs and what is wrong with them first, then what it rests on, and where the pages are."""
    console = stdout_console()
    recorded = [duration(timedelta(hours=hours)) for hours in summary.runs["hours"].fill_null(0)]
    console.print(
        frame_table(
            f"{count(summary.accepted, 'run')} accepted, {count(summary.rejected.height, 'file')} rejected",
            summary.runs.with_columns(recorded=pl.Series(recorded, dtype=pl.String)),
            platform="platform",
            phase="phase",
            workload="workload",
            runs="runs",
            hosts="hosts",
            recorded="recorded",
        )
    )
    _show_verdicts(console, summary)
    _show_episodes(console, summary.episodes, bool(summary.judged))
    if summary.rejections.height:
        _show_rejections(console, summary.rejections)
    watched = int(summary.metrics.filter(use="watched")["metrics"].sum())
    console.print()
    console.print(
        frame_table(
            f"Metrics: {watched:,} of {int(summary.metrics['metrics'].sum()):,} are watched by the detectors",
            summary.metrics,
            platform="platform",
            use="use",
            metrics="metrics",
            why="why",
        )
    )
    if summary.degenerate.height:
        console.print(
            frame_table(
                "Metric groups that vary too little within runs (not mined)",
                summary.degenerate,
                platform="platform",
                metric_group="group",
            )
        )
    _show_rules(console, summary)
    if index is not None and index.is_file():
        console.print(Text(f"Pages: {index} (open it in a browser, or `infrascope serve`)"), soft_wrap=True)
    console.print(Text(f"Warehouse: {summary.warehouse} (DuckDB; docs/tables.md describes the tables)"), soft_wrap=True)


def _show_verdicts(console: Console, summary: Summary) -> None:
    """How many runs were judged how, and how many of the known faults were missed."""
    console.print(Text("Verdicts", style="bold"))
    for verdict, runs, why in summary.verdicts.iter_rows():
        reason = f": {printable(why)}" if why else ""
        console.print(f"{runs:>6,}  {VERDICTS[verdict]}{reason}", soft_wrap=True, markup=False)
    if summary.faults:
        were = "was" if summary.missed == 1 else "were"
        found = "all of them were found" if not summary.missed else f"{summary.missed:,} of them {were} missed"
        console.print(f"        {count(summary.faults, 'known fault')} in judged runs; {found}", soft_wrap=True)
    console.print()


_TIMINGS = {
    "at times of their own": ("own",),
    "in the course of the job": ("course",),
    "at times that cannot be told from the course of the job": ("undecided", "unknown"),
}


def _show_rules(console: Console, summary: Summary) -> None:
    """What goes together, in sentences: at times of a run's own, and in the course of the job."""
    console.print(Text("What goes together", style="bold"))
    if summary.mined.is_empty():
        console.print("  nothing was looked at: there is no run")
    columns = ("scope", "runs", "tested_runs", "tested", "rules", "why")
    for scope, runs, chosen, tested, rules, why in summary.mined.select(columns).iter_rows():
        hold = f"{rules:,} hold in most runs" if rules else f"none holds: {why}"
        among = count(runs, "run") if chosen == runs else f"{chosen:,} of {count(runs, 'run')}"
        console.print(f"  {scope}: tested {count(tested, 'combination')} in {among}; {hold}.", soft_wrap=True)
        of_scope = summary.rules.filter(scope=scope)
        if rules and of_scope.is_empty():
            console.print(
                "  none of them ties what is high or low in one subsystem to another, "
                "beyond what runs of any workload do"
            )
        for title, timings in _TIMINGS.items():
            told = of_scope.filter(pl.col("timing").is_in(timings))["sentence"].to_list()
            if told:
                console.print(f"  {title}:")
            _show_sentences(console, told)
        for title, found in (("one after the other", summary.sequences), ("what differs", summary.contrasts)):
            told = found.filter(scope=scope)["sentence"].to_list()
            if told:
                console.print(f"  {title}:")
                _show_sentences(console, told)
    if summary.accepted:
        console.print("  which workload each run is:")
        _show_sentences(console, [summary.identity])
    console.print()


def _show_sentences(console: Console, sentences: list[str]) -> None:
    for sentence in sentences:
        console.print(Padding(Text(f"- {printable(sentence)}"), (0, 0, 0, 4)))


def _show_episodes(console: Console, episodes: pl.DataFrame, judged: bool) -> None:
    console.print(Text("Most abnormal episodes", style="bold"))
    if episodes.is_empty():
        console.print("  none" if judged else "  no run could be judged")
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
        text = " ".join([episode["headline"], *episode["claims"][:1], f"Flagged by {agreed}." if agreed else ""])
        console.print(Padding(Text(printable(text.strip())), (0, 0, 0, 5)))


def _show_rejections(console: Console, rejections: pl.DataFrame) -> None:
    """Reasons and one file for each: a line each that is never broken, so that a path can be copied."""
    console.print(Text("\nRejected files, by reason", style="bold"))
    for number, reason, path in rejections.head(_REASONS).select("files", "reason", "first").iter_rows():
        console.print(Text(f"{number:>6,}  {printable(reason)}"), soft_wrap=True)
        others = f" and {count(number - 1, 'other')}" if number > 1 else ""
        console.print(Text(f"        {printable(path)}{others}", style="dim"), soft_wrap=True)
    left_out = rejections[_REASONS:]
    if left_out.height:
        console.print(f"        {count(left_out.height, 'more reason')}, {count(int(left_out['files'].sum()), 'file')}")
    console.print("        All are in the table rejected_files.")
