"""Answers of the Prometheus HTTP API: bytes to series and samples.

What belongs here: the JSON of `query` with a range vector, and of `series`. How it is asked for is in `prometheus`.

A day of a hundred hosts is 5 GB of JSON, nearly all of it pairs of numbers. They are cut out and read as a table, seven
times as fast as by a JSON parser; what is left is small, and parsed as JSON. An answer that is not written as compactly
as Prometheus writes is parsed as JSON altogether.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from infrascope_core.importers.samples import SCHEMA, Samples, Series, moments

_OPEN, _CLOSE, _BETWEEN = b'"values":[[', b"]]", b"],["
_SAME_TARGET = ("job", "instance", "replica", "prometheus_replica", "__replica__")
"""Labels of what is scraped at once: the target, and which of several equal servers asked it."""
_PAIRS = pl.Schema({"ts": pl.Float64(), "value": pl.Float64()})


class NotAnAnswerError(ValueError):
    """What was received is not what the API answers."""


def samples_of_matrix(raw: bytes) -> Samples:
    """Samples of an answer to `query` with a range vector.

    Raises
    ------
    NotAnAnswerError
        It is none.
    """
    try:
        skeleton, texts = _cut(raw)
        return (_from_texts(json.loads(skeleton), texts) if texts else None) or _from_numbers(json.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pl.exceptions.PolarsError) as error:
        raise NotAnAnswerError(str(error)) from None


def series_of_answer(raw: bytes) -> list[Series]:
    """Series of an answer to `series`.

    Raises
    ------
    NotAnAnswerError
        It is none.
    """
    try:
        return [_series(labels) for labels in json.loads(raw)["data"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotAnAnswerError(str(error)) from None


def _cut(raw: bytes) -> tuple[bytes, list[bytes]]:
    """The answer with the number of each list of pairs in its place, and the lists.

    No text inside a JSON string looks like the beginning of a list, because quotes are escaped there.
    """
    rest: list[bytes] = []
    texts: list[bytes] = []
    done = 0
    while (begin := raw.find(_OPEN, done)) >= 0 and (end := raw.find(_CLOSE, begin)) >= 0:
        rest += [raw[done:begin], b'"values":%d' % len(texts)]
        texts.append(raw[begin + len(_OPEN) : end])
        done = end + len(_CLOSE)
    return b"".join([*rest, raw[done:]]), texts


def _from_texts(answer: Any, texts: list[bytes]) -> Samples | None:
    """Samples of an answer whose lists of pairs are beside it, as text; None if that text is no table of pairs."""
    result = _result(answer)
    chosen = [texts[one["values"]] for one in result]
    text = b"\n".join(chosen).replace(_BETWEEN, b"\n").replace(b'"', b"").replace(b"+Inf", b"inf")
    try:
        table = pl.read_csv(text, has_header=False, schema=_PAIRS)
    except pl.exceptions.PolarsError:
        return None
    counts = [one.count(_BETWEEN) + 1 for one in chosen]
    if table.height != sum(counts) or table.null_count().row(0) != (0, 0):
        return None
    return _samples(result, counts, table)


def _from_numbers(answer: Any) -> Samples:
    """Samples of an answer with its lists of pairs in it."""
    result = _result(answer)
    flat = [(float(ts), float(value)) for one in result for ts, value in one["values"]]
    return _samples(result, [len(one["values"]) for one in result], pl.DataFrame(flat, schema=_PAIRS, orient="row"))


def _result(answer: Any) -> list[Any]:
    """The series of a matrix; one of native histograms has no values and is left out."""
    if answer["data"]["resultType"] != "matrix":
        raise NotAnAnswerError("not a matrix")
    return [one for one in answer["data"]["result"] if "values" in one]


def _samples(result: list[Any], counts: list[int], table: pl.DataFrame) -> Samples:
    """Samples of series, each with so many of the rows of a table."""
    number = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    times = moments((table["ts"] * 1e3).round(), 1000)  # whole milliseconds
    values = pl.DataFrame({"series": number, "ts": times, "value": table["value"]})
    return Samples(tuple(_series(one["metric"]) for one in result), values.cast(SCHEMA))


def _series(labels: Mapping[str, str]) -> Series:
    group = "|".join(str(labels.get(label, "")) for label in _SAME_TARGET)
    return Series.of(
        str(labels.get("__name__", "")), {str(k): str(v) for k, v in labels.items() if k != "__name__"}, group
    )
