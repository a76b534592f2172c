"""Linear algebra in one thread: the order in which BLAS sums, and so the last digit, depends on their number."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@cache
def _controller() -> Any:
    # looking for the loaded libraries takes a millisecond, more than many of the products that are to be guarded
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread within a `with` statement."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit
