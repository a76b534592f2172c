"""Which graph the definitions are made from: the core's, or another one that is passed to `build_defs`."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from infrascope_core.pipeline import GRAPH
from infrascope_core.store.graph import Graph

_graph: ContextVar[Graph] = ContextVar("graph", default=GRAPH)


def graph() -> Graph:
    """The graph that is being loaded."""
    return _graph.get()


@contextmanager
def loading(other: Graph) -> Iterator[None]:
    """Load the definitions of another graph while the context lasts."""
    token = _graph.set(other)
    try:
        yield
    finally:
        _graph.reset(token)
