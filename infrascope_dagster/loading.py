"""What the definitions are made from: the core's graph and a data folder, or others that `build_defs` is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from infrascope_core.pipeline import GRAPH
from infrascope_core.store.graph import Graph
from infrascope_dagster.resources import DataFolderResource, from_environment


@dataclass(frozen=True)
class Project:
    """A graph of products, and the data folder that holds them."""

    graph: Graph
    infrascope: DataFolderResource


_project: ContextVar[Project | None] = ContextVar("project", default=None)


def project() -> Project:
    """What is being loaded; the core's graph and the folder of the environment, where a file is loaded by itself."""
    return _project.get() or Project(GRAPH, from_environment())


@contextmanager
def loading(other: Project) -> Iterator[None]:
    """Load the definitions of another project while the context lasts."""
    token = _project.set(other)
    try:
        yield
    finally:
        _project.reset(token)
