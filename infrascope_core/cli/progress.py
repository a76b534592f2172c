"""Progress on stderr: a bar that moves on a terminal, and a plain line for each finished product anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from infrascope_core.store.product import OnProgress


@contextmanager
def shown_progress() -> Iterator[OnProgress]:
    """What to call with (product, done, total) while the block runs."""
    console = Console(stderr=True, highlight=False)
    with _bar(console) if console.is_terminal else _lines(console) as on_progress:
        yield on_progress


@contextmanager
def _bar(console: Console) -> Iterator[OnProgress]:
    """One bar, that of the product which is being made; it vanishes at the end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        current: str | None = None

        def on_progress(product: str, done: int, total: int) -> None:
            nonlocal current
            if product != current:
                for task in progress.task_ids:
                    progress.remove_task(task)
                progress.add_task(product, total=None)
                current = product
            # a single step has no parts to count: the bar pulses
            progress.update(progress.task_ids[-1], completed=done, total=total if total > 1 else None)

        yield on_progress


@contextmanager
def _lines(console: Console) -> Iterator[OnProgress]:
    """A line for each product, as soon as the next one begins."""
    current, steps, began = "", 0, 0.0

    def finish() -> None:
        if current:
            line = f"infrascope: {current}: {steps} of {steps} in {time.monotonic() - began:.1f} s"
            console.print(Text(line), soft_wrap=True)

    def on_progress(product: str, done: int, total: int) -> None:
        nonlocal current, steps, began
        if product != current:
            finish()
            current, steps, began = product, 0, time.monotonic()
        steps = max(steps, total)

    yield on_progress
    finish()
