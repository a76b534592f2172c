"""Work on many like things: by this process, or by several that start when there is work for them.

What belongs here: how processes are started, given work, and ended. Results come in the order of the work, whoever did
it, so that nothing that is made depends on how many there are.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from types import TracebackType
from typing import Any, TypeVar

from infrascope_core.errors import InfraScopeError

THREADS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What tells libraries how many threads to start."""
_Given = TypeVar("_Given")
_Unit = TypeVar("_Unit")
_Made = TypeVar("_Made")


class Processes(AbstractContextManager["Processes"]):
    """Who does the work: this process, or others, which end with the block.

    In another process, a copy stands for that process alone.

    Parameters
    ----------
    number : int
        How many processes; with 1, it is this one.
    """

    def __init__(self, number: int = 1) -> None:
        self.number = number
        self._pool: ProcessPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[Processes], tuple[()]]:
        """Processes have none of their own."""
        return Processes, ()

    def map(self, function: Callable[[_Given, _Unit], _Made], given: _Given, units: Sequence[_Unit]) -> Iterator[_Made]:
        """What a function makes of each unit.

        Parameters
        ----------
        function : callable
            Of a module, or a `functools.partial` of one.
        given : object
            Its first argument. Each process gets it once, when it starts, and keeps it.
        units : sequence
            Its second one, in turn.

        Yields
        ------
        object
            In the order of the units.

        Raises
        ------
        InfraScopeError
            One of the processes was killed.
        Exception
            What the function raises; as an InfraScopeError if it cannot be sent from one process to another.
        """
        if self.number < 2 or len(units) < 2:
            for unit in units:
                yield function(given, unit)
            return
        try:
            for made in self._others(given).map(partial(_made_here, function), units):
                if isinstance(made, _Raised):
                    raise made.error
                yield made
        except BrokenProcessPool:
            raise InfraScopeError(
                f"one of the {self.number} processes ended before its work, most likely killed for want of memory; "
                "finished work is kept, and the next call goes on from there"
            ) from None

    def _others(self, given: object) -> ProcessPoolExecutor:
        if self._pool is None:
            threads = str(max(1, (os.cpu_count() or 1) // self.number))
            before = {name: os.environ.get(name) for name in THREADS}
            os.environ.update(dict.fromkeys(THREADS, threads))
            # an interruption is for this process, which ends the others: they inherit what is blocked. Once the tracker
            # runs, it leaves that as it is
            resource_tracker.ensure_running()
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._pool = ProcessPoolExecutor(
                    self.number, get_context("spawn"), initializer=_begin, initargs=(given,)
                )
                # they start with their first work, and take the variables with them
                started = self._pool.map(str, range(self.number))
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


_given: list[Any] = []
"""What this process was started with, if it is one of several."""


def _begin(given: object) -> None:
    _given.append(given)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: whoever comes next must not find an orphan at work.

    A killed process cannot end others, and one that waits for work waits for ever.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@dataclass(frozen=True)
class _Raised:
    """What a function raised in another process."""

    error: Exception


def _made_here(function: Callable[[Any, _Unit], _Made], unit: _Unit) -> _Made | _Raised:
    try:
        return function(_given[0], unit)
    except Exception as error:
        return _Raised(_portable(error))


def _portable(error: Exception) -> Exception:
    """The same error, or what it says: not every one survives the way to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InfraScopeError(str(error) if isinstance(error, InfraScopeError) else f"{type(error).__name__}: {error}")
    return error
