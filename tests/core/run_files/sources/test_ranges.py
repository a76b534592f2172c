"""A file made of parts: what is read equals the file, and what is fetched is no more than was asked for."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.run_files.sources.ranges import RangeFile

CONTENT = bytes(range(200))


class Fetched:
    """Parts that were asked for; they come in steps of seven bytes."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> Iterator[bytes]:
        self.parts.append((start, end))
        return iter([CONTENT[i : min(i + 7, end)] for i in range(start, end, 7)])


@given(
    known=st.integers(0, 200),
    span=st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted),
    moves=st.lists(st.tuples(st.integers(0, 220), st.integers(-1, 60)), max_size=12),
)
def test_it_reads_as_the_whole_file_does(known, span, moves):
    whole, parts = io.BytesIO(CONTENT), RangeFile(200, Fetched(), (known, CONTENT[known:]), tuple(span))
    for at, size in moves:
        whole.seek(at)
        parts.seek(at)
        assert parts.read(size) == whole.read(size)
        assert parts.tell() == whole.tell()


def test_what_is_known_is_not_fetched():
    fetched = Fetched()
    file = RangeFile(200, fetched, (150, CONTENT[150:]))
    file.seek(-50, io.SEEK_END)
    assert file.read() == CONTENT[150:]
    assert fetched.parts == []
    file.seek(140)
    assert file.read(30) == CONTENT[140:170]
    assert fetched.parts == [(140, 150)]


def test_a_span_is_one_part_however_it_is_read():
    fetched = Fetched()
    file = RangeFile(200, fetched, span=(20, 90))
    file.seek(20)
    assert b"".join(file.read(n) for n in (3, 0, 11, 30, 26)) == CONTENT[20:90]
    assert fetched.parts == [(20, 90)]


def test_a_part_that_ends_early_ends_the_read():
    file = RangeFile(200, lambda start, end: iter([CONTENT[start : start + 5]]))
    assert file.read(50) == CONTENT[:5]


def test_a_position_before_the_first_byte():
    with pytest.raises(ValueError, match="before the first byte"):
        RangeFile(200, Fetched()).seek(-201, io.SEEK_END)
