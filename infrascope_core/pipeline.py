"""The list of all stages' products, in the order of the flow, and the refresh of a data folder by them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from infrascope_core.anomalies import products as anomalies
from infrascope_core.comparing import products as comparing
from infrascope_core.errors import InfraScopeError, SourceError, StorageError
from infrascope_core.hosts import products as hosts
from infrascope_core.making import Failure, attempted, make_of_runs
from infrascope_core.pages import products as pages
from infrascope_core.patterns import products as patterns
from infrascope_core.processes import Processes
from infrascope_core.quality import products as quality
from infrascope_core.recipes import recipe_of
from infrascope_core.reports import products as reports
from infrascope_core.run_files import products as run_files
from infrascope_core.run_files.inbox import Inbox, kept_of
from infrascope_core.run_files.name import types_path
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.folder import found_again
from infrascope_core.run_files.sources.imported import is_import
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import OnProgress, Product, Scope
from infrascope_core.store.warehouse import is_published, keep_published, publish
from infrascope_core.studies import products as studies
from infrascope_core.symbols import products as symbols

GRAPH = Graph(
    (
        *run_files.PRODUCTS,
        *quality.PRODUCTS,
        *symbols.PRODUCTS,
        *patterns.PRODUCTS,
        *anomalies.PRODUCTS,
        *hosts.PRODUCTS,
        *reports.PRODUCTS,
        *comparing.PRODUCTS,
        *pages.PRODUCTS,
        *studies.PRODUCTS,
    ),
    runs=accepted,
)
"""Everything that this package makes of run files."""

OnMade = Callable[[Product, str | None, Sequence[pl.DataFrame]], None]
"""Called with (product, run key or None, its frames) when something was made."""


def open_folder(root: Path) -> DataFolder:
    """A data folder under the settings that it was last filled by, with a warehouse that shows it as it is.

    A folder that was moved or copied since gets its warehouse anew, because views hold where it lay.

    Raises
    ------
    InfraScopeError
        The folder was never filled.
    """
    folder = DataFolder.as_last_filled(root)
    keep_published(folder, GRAPH)
    return folder


def refresh(
    folder: DataFolder,
    refit: bool = False,
    on_progress: OnProgress = lambda product, done, total: None,
    *,
    graph: Graph = GRAPH,
    on_made: OnMade = lambda product, run_key, frames: None,
    jobs: int = 1,
    only: Callable[[Product], bool] = lambda product: True,
) -> None:
    """Make whatever is new, changed, or rests on something that changed.

    A run that fails stops no other: it is left out of what follows, and reported at the end. A full disk stops all.
    Of several processes that refresh one folder, each waits for the one before it.

    Parameters
    ----------
    folder : DataFolder
        The data folder, its settings and its sources.
    refit : bool
        Make fitted and mined products anew from all runs.
    on_progress : callable
        Called with (product, done, total) as the work goes on.
    graph : Graph
        The products.
    on_made : callable
        Called for each product that was made.
    jobs : int
        Processes that make what is made per run, per workload and per scope. The lake is the same, byte for byte.
    only : callable
        Says which products are made; the others stay as they are.

    Raises
    ------
    InfraScopeError
        The folder, a source or the recipe cannot be used, or a product could not be made for another reason than a bad
        run file: one sentence, whatever the number of runs.
    """
    processes = Processes(jobs)
    folder = replace(folder, processes=processes)
    recipe_of(folder)
    folder.check()
    # fits see all runs of the folder: of two that fill it, the second must not fit on half of what the first brings
    with folder.lock("refresh", on_wait=lambda: on_progress("waiting for another process", 0, 1)):
        folder.remember_settings()
        graph.keep_pruned(folder)
        missed = _imported(folder, on_progress)
        try:
            with processes:
                work = _Work(folder, graph, on_progress, on_made, only=only)
                work.everything(refit)
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong first is what the user must know
                _show_what_is_made(folder, graph)
            raise
        _show_what_is_made(folder, graph)
        work.raise_failures()
        if missed is not None:
            raise missed


def _imported(folder: DataFolder, on_progress: OnProgress) -> SourceError | None:
    """Import what is new in sources that are telemetry; the error, if one failed: the others need not wait for it."""
    if not any(map(is_import, folder.sources)):
        return None
    from infrascope_core.importers.sources import import_sources  # noqa: PLC0415 - for those who import

    try:
        import_sources(folder, on_progress)
    except SourceError as error:
        return error
    return None


def _elsewhere(folder: DataFolder, what: tuple[str, str]) -> Failure | None:
    return attempted(GRAPH, folder, *what)


def forget(
    folder: DataFolder,
    run_key: str,
    on_progress: OnProgress = lambda product, done, total: None,
    *,
    graph: Graph = GRAPH,
) -> None:
    """Remove a run whose file was deleted: what was made of it, and its part in what is pooled over runs.

    Parameters
    ----------
    folder : DataFolder
        The data folder, under the settings that it was last filled by.
    run_key : str
        The run.
    on_progress : callable
        See `refresh`.
    graph : Graph
        The products.

    Raises
    ------
    InfraScopeError
        There is no such run, or its file still lies where it was read and would be read again.
    """
    row = folder.lake.row(RUN_FILES, run_key)
    if row is None and graph.is_forgotten(folder, run_key):
        raise InfraScopeError(f"{run_key[:200]}: there is no run of that name")
    if (
        row is not None
        and row["source"]
        and (os.path.lexists(row["source"]) or found_again(Path(row["source"])) is not None)
    ):
        raise InfraScopeError(f"{row['source']}: still lies there and would be read again; delete it first")
    with folder.lock("refresh", on_wait=lambda: on_progress("waiting for another process", 0, 1)):
        graph.forget(folder, run_key)
    refresh(replace(folder, sources=()), False, on_progress, graph=graph)


@dataclass(frozen=True)
class Pruned:
    """What was dropped.

    Attributes
    ----------
    runs : tuple of str
        Run keys.
    bytes : int
        Room that is free now.
    """

    runs: tuple[str, ...]
    bytes: int


def prune(
    folder: DataFolder,
    before: datetime,
    on_progress: OnProgress = lambda product, done, total: None,
    *,
    graph: Graph = GRAPH,
) -> Pruned:
    """Drop the samples and features of runs that began before a moment, and keep all that was learnt from them.

    Models, patterns, scores, reports and pages stay. A later refit learns from the runs that still have features; what
    no such run is left of stays as it was learnt. Run files that were imported into the folder are samples as well; a
    user's own are not touched.

    Parameters
    ----------
    folder : DataFolder
        The data folder.
    before : datetime
        Naive UTC, as in the files.
    on_progress : callable
        See `refresh`.
    graph : Graph
        The products.
    """
    with folder.lock("refresh", on_wait=lambda: on_progress("waiting for another process", 0, 1)):
        runs = accepted(folder).filter(pl.col("started_at") < before).sort("run_key")
        old = dict(runs.select("run_key", "source").iter_rows())
        freed: dict[str, int] = {}
        for done, (key, source) in enumerate(old.items(), start=1):
            freed[key] = graph.prune(folder, key)
            if kept_of(folder).absolute() in (path := Path(source)).parents:
                freed[key] += _removed(path) + _removed(types_path(path))
            on_progress("dropping samples", done, len(old))
        folder.lake.save_index()
    dropped = {key: size for key, size in freed.items() if size}
    return Pruned(tuple(dropped), sum(dropped.values()))


def _removed(file: Path) -> int:
    """Remove a file; returns how many bytes it had."""
    try:
        size = file.stat().st_size
        file.unlink()
    except FileNotFoundError:
        return 0
    return size


def _show_what_is_made(folder: DataFolder, graph: Graph) -> None:
    folder.lake.save_index()
    if not is_published(folder, graph):
        publish(folder, graph)


class _Work:
    """One refresh: whom to notify, and which runs failed."""

    def __init__(
        self,
        folder: DataFolder,
        graph: Graph,
        on_progress: OnProgress,
        on_made: OnMade,
        *,
        only: Callable[[Product], bool],
    ) -> None:
        self.folder = folder
        self.graph = graph
        self.on_progress = on_progress
        self.on_made = on_made
        self.only = only
        self.failed: dict[str, str] = {}

    def everything(self, refit: bool) -> None:
        for product in filter(self.only, self.graph.order):
            if product.scope is Scope.ARRIVING:
                self.per_run(product, Inbox.of(self.folder).keys)
            elif product.scope is Scope.PER_RUN:
                self.per_run(product, accepted(self.folder)["run_key"])
            elif product.scope is not Scope.STUDIED:
                self.pooled(product, refit)

    def per_run(self, product: Product, keys: Sequence[str] | pl.Series) -> None:
        """Make a product of those runs for which it is not current."""
        graph, folder = self.graph, self.folder
        stale = [k for k in keys if k not in self.failed and not graph.is_current(folder, product.tables[0], k)]
        failures: dict[str, str] = {}
        cause: Exception | None = None
        if stale:
            self.on_progress(product.name, 0, len(stale))
        # other processes open their files by themselves
        arriving = product.scope is Scope.ARRIVING and folder.processes.number == 1
        elsewhere = _elsewhere if graph is GRAPH else None
        with Inbox.of(folder).ahead(stale) if arriving else contextlib.nullcontext():
            outcomes = make_of_runs(graph, folder, product, stale, elsewhere)
            for done, (key, made) in enumerate(outcomes, start=1):
                if not isinstance(made, Failure):
                    self.on_made(product, key, made)
                elif made.full:
                    left = f"{len(stale) - done + 1:,} of {len(stale):,} runs are left"
                    raise StorageError(f"{made.reason}; {left}", full=True) from made.cause
                else:
                    failures[key], cause = made.reason, made.cause
                self.on_progress(product.name, done, len(stale))
        self.failed |= {key: f"{product.name}: {reason}" for key, reason in failures.items()}
        if failures and self.failed.keys() >= set(keys):  # no run is left to go on with
            raise InfraScopeError(failures_in_words(self.failed)) from cause

    def pooled(self, product: Product, refit: bool) -> None:
        """Make a pooled product if it is not current, or anew."""
        table = product.tables[0]
        anew = refit and product.scope in (Scope.FITTED, Scope.MINED)
        if not anew and self.graph.is_current(self.folder, table):
            return
        self.on_progress(product.name, 0, 1)
        frame = self.graph.make_pooled(
            self.folder, table, refit=anew, tick=lambda done, total: self.on_progress(product.name, done, total)
        )
        self.on_progress(product.name, 1, 1)
        self.on_made(product, None, [frame])

    def raise_failures(self) -> None:
        """Raise if runs failed, in one sentence."""
        if self.failed:
            raise InfraScopeError(failures_in_words(self.failed))


def failures_in_words(failed: Mapping[str, str]) -> str:
    """How many runs could not be made, and why the first could not, in one sentence."""
    key, reason = next(iter(failed.items()))
    reason = reason.splitlines()[0] if reason else reason
    if len(failed) == 1:
        return f"{key} could not be made ({reason})"
    return f"{len(failed):,} runs could not be made; the first is {key} ({reason})"
