"""Telling a listener in the same process how far a batch is; without one, nothing happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from infrascope_core.store.product import OnProduct

_listener: ContextVar[OnProduct | None] = ContextVar("listener", default=None)


@contextmanager
def listening(on_product: OnProduct) -> Iterator[None]:
    """Let `on_product(table, done, total)` be told while the context lasts."""
    token = _listener.set(on_product)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(table: str, done: int, total: int) -> None:
    """Tell the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(table, done, total)
