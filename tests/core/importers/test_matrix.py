"""Answers of the API: the fast reading and that by a JSON parser give the same."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.importers import matrix
from infrascope_core.importers.matrix import NotAnAnswerError, samples_of_matrix, series_of_answer

VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e+06", "0", "-0"]),
)
TIMES = st.integers(0, 4 * 10**12).map(lambda ms: ms / 1000)
LABELS = st.dictionaries(st.sampled_from(["__name__", "job", "instance", "l"]), st.text(max_size=20), max_size=4)
SERIES = st.fixed_dictionaries(
    {"metric": LABELS, "values": st.lists(st.tuples(TIMES, VALUES).map(list), min_size=1, max_size=5)}
)


def answer(result: list, *, between: tuple[str, str] = (",", ":"), ascii_only: bool = True) -> bytes:
    content = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(content, separators=between, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def content(samples) -> list[tuple]:
    values = samples.values.with_columns(value=samples.values["value"].cast(str))
    return [(str(samples.series[n]), ts, value) for n, ts, value in values.iter_rows()]


@settings(max_examples=150, deadline=None)
@given(st.lists(SERIES, max_size=4), st.booleans())
def test_compact_and_spaced_answers_are_read_alike(result, ascii_only):
    compact = samples_of_matrix(answer(result, ascii_only=ascii_only))
    spaced = samples_of_matrix(answer(result, between=(", ", ": ")))
    assert content(compact) == content(spaced)
    expected = [float(value) for one in result for _, value in one["values"]]
    found = compact.values["value"].to_list()
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(found, expected, strict=True))


def test_the_usual_answer_needs_no_parser_for_its_numbers(monkeypatch):
    monkeypatch.setattr(matrix, "_from_numbers", None)
    raw = answer([{"metric": {"__name__": "up"}, "values": [[1.5, "1"], [2, "NaN"]]}])
    assert samples_of_matrix(raw).values["value"].to_list()[0] == 1


def test_text_in_labels_is_no_list_of_values():
    hostile = 'x","values":[[1,"2"]],"y'
    (series,) = samples_of_matrix(answer([{"metric": {"l": hostile}, "values": [[1, "5"]]}])).series
    assert series.label == {"l": hostile}


def test_times_are_whole_milliseconds():
    raw = answer([{"metric": {"__name__": "up"}, "values": [[1767000000.123, "1"]]}])
    assert samples_of_matrix(raw).values["ts"].dt.timestamp("us").to_list() == [1767000000123000]


def test_histograms_have_no_values_and_an_empty_answer_no_series():
    raw = answer([{"metric": {"__name__": "h"}, "histograms": [[1, {"count": "1"}]]}])
    assert samples_of_matrix(raw).series == ()
    assert samples_of_matrix(answer([])).values.is_empty()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"<html>", b"[]", b"{}", b'{"data":{}}', b'{"data":{"resultType":"vector","result":[]}}',
        b'{"data":{"resultType":"matrix","result":[{"values":[[1,"2"]]}]}}',
        b'{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"two"]]}]}}',
        b'{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2",3]]}]}}',
        b'{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_is_refused(raw):
    with pytest.raises(NotAnAnswerError):
        samples_of_matrix(raw)


def test_series_of_one_target_are_of_one_group():
    raw = json.dumps(
        {
            "data": [
                {"__name__": "a", "job": "node", "instance": "h:9100", "cpu": "0"},
                {"__name__": "b", "job": "node", "instance": "h:9100"},
                {"__name__": "a", "job": "node", "instance": "h:9100", "replica": "2", "cpu": "0"},
            ]
        }
    ).encode()
    first, second, third = series_of_answer(raw)
    assert first.group == second.group != third.group
    with pytest.raises(NotAnAnswerError):
        series_of_answer(b'{"data":[1]}')
