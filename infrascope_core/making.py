"""Products of many runs: made one after the other, or in several processes.

What belongs here: how the work on runs is dealt out, and what became of each. What is to be made is the pipeline's to
say. Products of a run depend on nothing that is made of another run at the same time, so that their bytes are the same
whoever makes them, and when.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from types import TracebackType

import polars as pl

from infrascope_core.errors import InfraScopeError, StorageError
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product

THREADS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What tells libraries how many threads to start."""


@dataclass(frozen=True)
class Failure:
    """Why a product of a run could not be made.

    Attributes
    ----------
    reason : str
        In one sentence.
    full : bool
        Nothing else can be written either (`StorageError`).
    cause : Exception, optional
        What was raised, if that was in this process.
    """

    reason: str
    full: bool = False
    cause: Exception | None = field(default=None, compare=False)


Outcome = Sequence[pl.DataFrame] | Failure
"""The frames of a product, or why there are none."""


def attempt(graph: Graph, folder: DataFolder, table: str, key: str) -> Outcome:
    """Make a product of a run, given by one of its tables."""
    try:
        return graph.make(folder, table, key)
    except StorageError as error:
        return Failure(str(error), error.full, error)
    except InfraScopeError as error:
        return Failure(str(error), cause=error)
    except Exception as error:
        return Failure(f"unexpected {type(error).__name__}: {error}", cause=error)


class Workers(AbstractContextManager["Workers"]):
    """Who makes products of runs: this process, or several that start when there is work for them.

    Parameters
    ----------
    graph : Graph
        The products.
    folder : DataFolder
        Where they lie.
    jobs : int
        How many processes.
    elsewhere : callable, optional
        A function of a module that makes a product of a run, given by a table and the run key, in a process of its own
        with `attempted_here`. Without one, all is made here: declarations do not travel between processes.
    """

    def __init__(
        self, graph: Graph, folder: DataFolder, jobs: int, elsewhere: Callable[[str, str], Failure | None] | None
    ) -> None:
        self._graph, self._folder = graph, folder
        self._jobs, self._elsewhere = jobs, elsewhere if jobs > 1 else None
        self._pool: ProcessPoolExecutor | None = None

    @property
    def alone(self) -> bool:
        """Whether this process makes all of it."""
        return self._elsewhere is None

    def make(self, product: Product, keys: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
        """Make a product of runs.

        Yields
        ------
        tuple of str and Outcome
            Each run key, in order, with what became of it.

        Raises
        ------
        InfraScopeError
            One of the processes was killed.
        """
        table = product.name
        if self._elsewhere is None or len(keys) < 2:
            for key in keys:
                yield key, attempt(self._graph, self._folder, table, key)
            return
        try:
            failures = self._others().map(self._elsewhere, [table] * len(keys), keys)
            for key, failure in zip(keys, failures, strict=True):
                yield key, failure or _InLake(self._folder, product, key)
        except BrokenProcessPool:
            raise InfraScopeError(
                f"{table}: one of the {self._jobs} processes ended before its work, most likely killed for want of "
                "memory; finished work is kept, and the next call goes on from there"
            ) from None

    def _others(self) -> ProcessPoolExecutor:
        if self._pool is None:
            threads = str(max(1, (os.cpu_count() or 1) // self._jobs))
            before = {name: os.environ.get(name) for name in THREADS}
            os.environ.update(dict.fromkeys(THREADS, threads))
            # an interruption is for this process, which ends the others: they inherit what is blocked. Once the tracker
            # runs, it leaves that as it is
            resource_tracker.ensure_running()
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._pool = ProcessPoolExecutor(
                    self._jobs, get_context("spawn"), initializer=_begin, initargs=(self._folder.fresh(),)
                )
                # they start with their first work, and take the variables with them
                started = self._pool.map(str, range(self._jobs))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})
            list(started)
        return self._pool

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """End the processes; what they have not begun is left."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _InLake(Sequence[pl.DataFrame]):
    """The frames of a product that another process made: read when they are asked for, and not before."""

    def __init__(self, folder: DataFolder, product: Product, key: str) -> None:
        self._lake, self._tables, self._key = folder.lake, product.tables, key

    def __len__(self) -> int:
        return len(self._tables)

    def __getitem__(self, at: int) -> pl.DataFrame:  # type: ignore[override]
        return self._lake.read(self._tables[at], self._key)


_here: list[DataFolder] = []
"""The folder that this process works on, if it is one of several."""


def _begin(folder: DataFolder) -> None:
    _here.append(folder)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: whoever comes next must not find an orphan at work.

    A killed process cannot end others, and one that waits for work waits for ever.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def attempted_here(graph: Graph, table: str, key: str) -> Failure | None:
    """Make a product of a run in a process that was started for such; why it failed, without what was raised.

    Not every exception survives the way to another process.
    """
    made = attempt(graph, _here[0], table, key)
    return Failure(made.reason, made.full) if isinstance(made, Failure) else None
