"""What frames have in common: rows split and numbered by a key.

What belongs here: operations on polars frames that several stages need, and that do not depend on what columns mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from infrascope_core.numeric import Ints


def split(frame: pl.DataFrame, key: Sequence[str]) -> list[pl.DataFrame]:
    """The rows of each value of a key, in its order; a frame with one value is returned as it is, and not copied.

    Copying 764 columns takes longer than what is done with most of them.
    """
    if frame.height and all(frame[name].n_unique() == 1 for name in key):
        return [frame]
    return [part for _, part in sorted(frame.partition_by(key, as_dict=True).items(), key=lambda pair: pair[0])]


def numbered(frame: pl.DataFrame, key: Sequence[str], *further: str) -> tuple[pl.DataFrame, Ints]:
    """Number the distinct keys of a frame.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows in any order; the fewer times the key changes from one to the next, the faster.
    key : sequence of str
        Columns.
    further : str
        Columns that the key determines, and that are kept beside it.

    Returns
    -------
    keys : polars.DataFrame
        The distinct keys, sorted, with the further columns.
    number : ndarray of int, rows
        Place of each row's key among them.
    """
    # Neighbouring rows mostly have one key, so keys are looked for among those at which another begins.
    begins = frame.select(pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift())))
    first = begins.to_series().fill_null(True).to_numpy().copy()
    first[:1] = True
    heads = frame.select(*key, *further).filter(pl.Series(first, dtype=pl.Boolean))
    if _ascends(heads, key):
        return heads, np.cumsum(first) - 1
    keys = heads.unique(key).sort(key)
    place = heads.join(
        keys.select(key).with_row_index("number"), on=key, how="left", maintain_order="left", nulls_equal=True
    )
    number = place["number"].cast(pl.Int64).to_numpy()
    return keys, np.asarray(number[np.cumsum(first) - 1], dtype=np.int64)


def _ascends(heads: pl.DataFrame, key: Sequence[str]) -> bool:
    """Whether every key is above the one before, so that they are distinct and sorted as they stand."""
    above = pl.lit(False)
    for name in reversed(key):
        here, before = pl.col(name), pl.col(name).shift()
        above = (here > before) | ((here == before) & above)
    return bool(heads.select(above.alias("above"))["above"][1:].fill_null(False).all())
