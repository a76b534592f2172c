"""Parts of remote files that are fetched before they are asked for, a few at once."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Generic, TypeVar

CONNECTIONS = 4
"""Parts that are fetched, or wait to be taken, at a time."""
_IN_MEMORY = 32 * 2**20
"""Bytes of a part that are kept in memory; a larger one waits in a temporary file, packed as it came."""
_T = TypeVar("_T", bound=Hashable)

IsOver = Callable[[], bool]


class Ahead(Generic[_T]):
    """Fetches what was announced, in its order, while what came before is worked on.

    Parameters
    ----------
    fetch : callable
        Gives the bytes of a part; is called on other threads, with something that says when nobody waits any more.
    """

    def __init__(self, fetch: Callable[[_T, IsOver], Iterator[bytes]]) -> None:
        self._fetch = fetch
        self._announced: deque[_T] = deque()
        self._coming: dict[_T, Future[IO[bytes]]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._over = threading.Event()

    @contextmanager
    def announced(self, parts: Sequence[_T]) -> Iterator[None]:
        """While the block runs, these parts will be taken, most likely in this order."""
        self._announced = deque(parts)
        self._over.clear()
        with ThreadPoolExecutor(CONNECTIONS) as self._pool:
            self._go_on()
            try:
                yield
            finally:
                self._over.set()
                self._announced.clear()
                self._discard(*self._coming)
        self._pool = None

    def take(self, part: _T) -> IO[bytes] | None:
        """A part that was announced, as a file, once it is there; None if it is not about to be.

        Parts that were announced before it are given up: they were passed over.
        """
        while part in self._announced and part not in self._coming:
            self._discard(*self._coming)
            self._go_on()
        for other in [*self._coming] if part in self._coming else []:
            if other == part:
                break
            self._discard(other)
        coming = self._coming.pop(part, None)
        self._go_on()
        return None if coming is None else coming.result()

    def _discard(self, *parts: _T) -> None:
        for part in parts:
            coming = self._coming.pop(part)
            if not coming.cancel():
                coming.add_done_callback(_close)

    def _go_on(self) -> None:
        while self._pool is not None and self._announced and len(self._coming) < CONNECTIONS:
            part = self._announced.popleft()
            self._coming[part] = self._pool.submit(self._store, part)

    def _store(self, part: _T) -> IO[bytes]:
        file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # whoever takes it closes it
        try:
            for received in self._fetch(part, self._over.is_set):
                file.write(received)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file


def _close(coming: Future[IO[bytes]]) -> None:
    if not coming.cancelled() and coming.exception() is None:
        coming.result().close()
