"""`infrascope evaluate`: figures against known faults, on a terminal and as JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer
from rich.console import Group
from rich.text import Text

from infrascope_core.cli.console import DebugOption, SettingsOption, frame_table, one_sentence, stdout_console
from infrascope_core.cli.progress import shown_progress
from infrascope_core.errors import InfraScopeError
from infrascope_core.reports.wording import count, duration, printable
from infrascope_core.settings import load_settings
from infrascope_core.store.atomic import write_text
from infrascope_core.store.product import OnProgress

if TYPE_CHECKING:
    from infrascope_core.evaluation.data_set import DataSet, Evaluation


def evaluate(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of labelled run files; each is a data set.")
    ],
    reference: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of healthy runs to compare with; by default the earlier half of DIR's healthy runs."),
    ] = None,
    reference_phase: Annotated[
        str | None, typer.Option(help="Take the healthy runs of this phase as the reference for the other phases.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Keep lake and models in this new folder, one below it per data set.")
    ] = None,
    settings: SettingsOption = None,
    debug: DebugOption = False,
) -> None:
    """Measure on labelled runs how well faults are found.

    A label file lies beside each run (STEM.faults.csv); a header without rows says that the run is healthy.
    No run is judged by a baseline that it took part in.

    Exit status: 1 if no run could be judged.
    """
    with one_sentence(debug):
        # scikit-learn and the rest take a second to import: `--help` does without
        from infrascope_core.evaluation.data_set import evaluate as evaluate_sets  # noqa: PLC0415

        sets = _data_sets(folders, reference or [], reference_phase)
        under = load_settings(settings)
        if json_file is not None and not json_file.absolute().parent.is_dir():
            raise InfraScopeError(f"{json_file}: its folder does not exist")
        with _folder(data) as place, shown_progress() as on_progress:
            result = evaluate_sets(sets, place, under, on_set=partial(_of_set, on_progress))
        if json_file is not None:
            write_text(json_file, result.as_json())
        show(result)


def _data_sets(folders: Sequence[Path], reference: Sequence[Path], phase: str | None) -> list[DataSet]:
    from infrascope_core.evaluation.data_set import DataSet, Reference  # noqa: PLC0415

    if reference and phase:
        raise InfraScopeError("--reference and --reference-phase cannot be used together")
    names: dict[str, Path] = {}
    for folder in folders:
        name = _name(folder)
        if name in names:
            raise InfraScopeError(f"{folder}: {names[name]} is a data set of the same name; evaluate them separately")
        names[name] = folder
    return [
        DataSet(name=name, paths=(folder,), reference=Reference(paths=tuple(reference), phase=phase))
        for name, folder in names.items()
    ]


def _name(folder: Path) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in folder.absolute().name)
    return kept if kept[:1].isalnum() else f"set{kept}"


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="infrascope-evaluation-") as folder:
        yield Path(folder)


def _of_set(on_progress: OnProgress, name: str) -> OnProgress:
    return lambda product, done, total: on_progress(f"{name}: {product}", done, total)


def show(result: Evaluation) -> None:
    """Print the figures of every data set, and of every fault in it."""
    console = stdout_console()
    for name, judgement in result.judgements.items():
        split = result.splits[name]
        healthy = duration(timedelta(hours=float(judgement.runs["healthy_hours"].sum())))
        console.print(
            Text(
                f"{name}: {count(judgement.runs.height, 'run')} judged by "
                f"{count(len(split.reference), 'reference run')}, {count(judgement.events.height, 'fault')}, "
                f"{healthy} without a fault",
                style="bold",
            )
        )
        for note in judgement.notes:
            console.print(Text(f"  {printable(note)}"), soft_wrap=True)
        for path, problem in judgement.problems:
            console.print(Text(f"  {printable(path)}: {printable(problem)}", style="yellow"), soft_wrap=True)
    for reason in result.unjudged.values():
        console.print(Text(f"  {printable(reason)}", style="yellow"), soft_wrap=True)
    console.print()
    figures = result.figures
    for name in result.judgements:
        here = figures.filter((pl.col("data_set") == name) & pl.col("part").is_null())
        console.print(separation_table(f"{name}: separation of windows", here.filter(pl.col("fault").is_null())))
        console.print(alarm_table(f"{name}: what is reported, per fault", here))


def separation_table(title: str, figures: pl.DataFrame) -> Group:
    """Methods against areas, with intervals."""
    wide = figures.drop_nulls("method").with_columns(text=_interval()).pivot("figure", index="method", values="text")
    columns = {"method": "method", "roc_auc": "ROC-AUC", "average_precision": "average precision", "vus_pr": "VUS-PR"}
    return frame_table(title, wide, **{name: head for name, head in columns.items() if name in wide.columns})


def alarm_table(title: str, figures: pl.DataFrame) -> Group:
    """Faults against recall, delay, blame and culprits; false alarms with all faults.

    The chance beside a share is what a random ranking of the run's metrics would reach.
    """
    wide = (
        figures.filter(pl.col("method").is_null())
        .with_columns(text=_interval(), value=pl.col("value").round(2).cast(pl.String))
        .with_columns(fault=pl.col("fault").fill_null("any"))
        .pivot("figure", index="fault", values=["text", "value"])
    )
    for k in (1, 3, 5):
        if f"value_hit_{k}" in wide.columns:
            share = pl.format("{} ({})", f"value_hit_{k}", f"value_chance_{k}")
            wide = wide.with_columns(share.alias(f"culprit_{k}"))
    columns = {
        "fault": "fault",
        "text_event_recall": "found",
        "text_false_episodes_per_hour": "false/hour",
        "text_delay_s": "delay, s",
        "value_subsystem_right": "subsystem",
        "culprit_1": "hit@1 (chance)",
        "culprit_3": "hit@3",
        "culprit_5": "hit@5",
    }
    return frame_table(title, wide, **{name: head for name, head in columns.items() if name in wide.columns})


def _interval() -> pl.Expr:
    value = pl.col("value").round(3).cast(pl.String)
    both = pl.format("{} ({}-{})", value, pl.col("low").round(2), pl.col("high").round(2))
    return pl.when(pl.col("low").is_not_null()).then(both).otherwise(value)
