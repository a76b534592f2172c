"""What every source gives: series, and the values that were read of them.

What belongs here: the two types that sources and the rest of the package share, and putting several of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl

SCHEMA = pl.Schema({"series": pl.UInt32(), "ts": pl.Datetime("us"), "value": pl.Float64()})
"""Columns of `Samples.values`."""
_YEAR_2200_S = 7_258_118_400


@dataclass(frozen=True)
class Series:
    """One series of a source.

    Attributes
    ----------
    name : str
        What the source calls the quantity.
    labels : tuple of (str, str)
        What tells it from others of that name, sorted.
    group : str
        What is read at the same moments as it: a target that is scraped, a file.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    group: str = ""

    @classmethod
    def of(cls, name: str, labels: Mapping[str, str], group: str = "") -> Series:
        """A series by its labels in any order."""
        return cls(name, tuple(sorted(labels.items())), group)

    @cached_property
    def label(self) -> dict[str, str]:
        """Its labels by name."""
        return dict(self.labels)

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(f'{name}={value!r}' for name, value in self.labels)}}}"


@dataclass(frozen=True)
class Samples:
    """Values as they were read.

    Attributes
    ----------
    series : tuple of Series
        Those that there are.
    values : polars.DataFrame
        series (place in the tuple), ts (naive UTC), value; in any order, duplicates and NaN included.
    """

    series: tuple[Series, ...] = ()
    values: pl.DataFrame = field(default_factory=SCHEMA.to_frame)

    def only(self, wanted: Sequence[int]) -> Samples:
        """The samples of some of the series, by their places."""
        place = np.full(len(self.series), len(wanted), dtype=np.uint32)
        place[list(wanted)] = np.arange(len(wanted), dtype=np.uint32)
        numbered = self.values.with_columns(series=pl.Series(place).gather(self.values["series"]))
        return Samples(tuple(self.series[n] for n in wanted), numbered.filter(pl.col("series") < len(wanted)))


def moments(numbers: pl.Series, per_second: float) -> pl.Series:
    """Times by numbers since 1970, so many a second.

    Raises
    ------
    ValueError
        One lies beyond the year 2200, before 1970, or is no number.
    """
    seconds = numbers.cast(pl.Float64) / per_second
    if not seconds.is_between(0, _YEAR_2200_S).fill_null(False).all():
        raise ValueError("holds a time that is not between 1970 and 2200")
    # whole numbers stay exact where they are: microseconds need 51 bits of a float's 53
    return (seconds * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us"))


def between(samples: Samples, start: datetime | None, end: datetime | None) -> Samples:
    """The samples from one time to another, both inclusive; None is no limit."""
    values = samples.values
    values = values if start is None else values.filter(pl.col("ts") >= start)
    values = values if end is None else values.filter(pl.col("ts") <= end)
    return Samples(samples.series, values)


def together(parts: Iterable[Samples]) -> Samples:
    """Samples of several sources, or of one in several pieces; a series that occurs in several is one."""
    place: dict[Series, int] = {}
    frames = [SCHEMA.to_frame()]
    for part in parts:
        new = [place.setdefault(series, len(place)) for series in part.series]
        if new == list(range(len(new))):  # numbered already, as in the first part: nothing to look up
            frames.append(part.values)
        elif new:
            numbers = pl.Series(new, dtype=pl.UInt32)
            frames.append(part.values.with_columns(series=numbers.gather(part.values["series"])))
    return Samples(tuple(place), pl.concat(frames))
