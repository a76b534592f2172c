"""The few patterns that a person should read first: each says something that those before it have not said.

What belongs here: the choice among patterns that are ranked already. What ranks them is with each kind of pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from infrascope_core.contract import Table

_MOST_ABOUT = 2
"""Most patterns about one thing, so that variations do not crowd out the rest."""

Row = Mapping[str, Any]


def in_words(found: pl.DataFrame, table: Table, told: Iterable[int], sentence: Callable[[Row], str]) -> pl.DataFrame:
    """Patterns with the columns `shown` and `sentence`.

    Parameters
    ----------
    found : polars.DataFrame
        Patterns; further columns are kept.
    table : Table
        Theirs: what of its columns they have is given its type.
    told : iterable of int
        Row numbers of those that people are shown, the first first: they get the ranks 1, 2, ...
    sentence : callable
        A pattern in words.
    """
    rank = {row: number for number, row in enumerate(told, start=1)}
    typed = found.cast({name: dtype for name, dtype in table.schema.items() if name in found.columns})
    return typed.with_columns(
        shown=pl.Series([rank.get(row) for row in range(typed.height)], dtype=pl.Int64),
        sentence=pl.Series([sentence(row) for row in typed.iter_rows(named=True)], dtype=pl.String),
    )


def few(
    rows: Iterable[Row], limit: int, says: Callable[[Row], Iterable[Hashable]], about: Callable[[Row], Hashable]
) -> Iterator[Row]:
    """Choose the first that say something new.

    Parameters
    ----------
    rows : iterable of mapping
        Patterns, the best first.
    limit : int
        Most that are chosen.
    says : callable
        What a pattern says; one that says any of what was said before is passed over.
    about : callable
        What it is about; of that, two are chosen at most.
    """
    said: set[Hashable] = set()
    told: Counter[Hashable] = Counter()
    for row in rows:
        own, subject = set(says(row)), about(row)
        if told.total() < limit and told[subject] < _MOST_ABOUT and not own & said:
            said |= own
            told[subject] += 1
            yield row
