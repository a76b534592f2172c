"""Products of many runs: made one after the other, or in several processes.

What belongs here: how the work on runs is dealt out, and what became of each. What is to be made is the pipeline's to
say. Products of a run depend on nothing that is made of another run at the same time, so that their bytes are the same
whoever makes them, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from infrascope_core.errors import InfraScopeError, StorageError
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product


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


Elsewhere = Callable[[DataFolder, tuple[str, str]], Failure | None]
"""A function of a module that makes a product of a run, given by a table and the run key, in a process of its own."""


def make_of_runs(
    graph: Graph, folder: DataFolder, product: Product, keys: Sequence[str], elsewhere: Elsewhere | None
) -> Iterator[tuple[str, Outcome]]:
    """Make a product of runs, in the folder's processes.

    Parameters
    ----------
    graph : Graph
        The products.
    folder : DataFolder
        Where they lie.
    product : Product
        Which is made.
    keys : sequence of str
        Of which runs.
    elsewhere : callable, optional
        Calls `attempted` with the graph. Without it, all is made here: declarations do not travel between processes.

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
    if elsewhere is None or folder.processes.number < 2:
        for key in keys:
            yield key, attempt(graph, folder, table, key)
        return
    for key, failure in zip(keys, folder.each(elsewhere, [(table, key) for key in keys]), strict=True):
        yield key, failure or _InLake(folder, product, key)


def attempted(graph: Graph, folder: DataFolder, table: str, key: str) -> Failure | None:
    """Make a product of a run; why it failed, without what was raised.

    Not every exception survives the way to another process.
    """
    made = attempt(graph, folder, table, key)
    return Failure(made.reason, made.full) if isinstance(made, Failure) else None


class _InLake(Sequence[pl.DataFrame]):
    """The frames of a product that another process made: read when they are asked for, and not before."""

    def __init__(self, folder: DataFolder, product: Product, key: str) -> None:
        self._lake, self._tables, self._key = folder.lake, product.tables, key

    def __len__(self) -> int:
        return len(self._tables)

    def __getitem__(self, at: int) -> pl.DataFrame:  # type: ignore[override]
        return self._lake.read(self._tables[at], self._key)
