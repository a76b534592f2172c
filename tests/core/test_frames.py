"""Rows numbered by a key, in any order; polars' own dense rank as oracle."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.frames import numbered

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y"]), st.integers(0, 3)), max_size=30)


def frame(rows: list[tuple[str, str, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String, "c": pl.Int64}, orient="row")


@given(ROWS, st.booleans())
def test_numbers_are_those_of_the_sorted_distinct_keys(rows, in_order):
    table = frame(sorted(rows) if in_order else rows)
    keys, number = numbered(table, ["a", "b", "c"])
    assert keys.rows() == sorted(set(table.rows()))
    assert [keys.row(i) for i in number.tolist()] == table.rows()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 2, 0], [1, 0, 3, 2]])
def test_what_the_key_determines_is_kept(order):
    table = frame([("a", "x", 0), ("a", "x", 1), ("b", "x", 0), ("b", "y", 7)]).with_columns(d=pl.col("c") * 10)
    keys, number = numbered(table[order], ["a", "b", "c"], "d")
    assert keys["d"].to_list() == [0, 10, 0, 70]
    assert number.tolist() == order


def test_no_rows_have_no_keys():
    keys, number = numbered(frame([]), ["a", "b", "c"])
    assert (keys.height, len(number)) == (0, 0)
