"""What arrays have in common: their types, statistics that pass over missing values, and linear algebra in one thread.

What belongs here: arithmetic that several stages need and that knows nothing of metrics or windows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[np.generic]]
"""Arrays by name, as model files hold them."""


@cache
def _controller() -> Any:
    # looking for the loaded libraries takes a millisecond, more than many of the products that are to be guarded
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread within a `with` statement.

    The order in which it sums, and so the last digit, depends on the number of threads.
    """
    limit: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit
