"""What is fetched before it is asked for: in order, a few at a time, and never more than is taken."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from infrascope_core.run_files.sources.ahead import CONNECTIONS, Ahead, IsOver


class Fetching:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.at_once = self.most = 0
        self.lock = threading.Lock()

    def __call__(self, part: int, is_over: IsOver) -> Iterator[bytes]:
        with self.lock:
            self.begun.append(part)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        threading.Event().wait(0.005)
        yield str(part).encode()
        with self.lock:
            self.at_once -= 1


def test_parts_come_in_any_order_of_taking_and_few_at_a_time():
    fetching = Fetching()
    ahead = Ahead(fetching)
    with ahead.announced(range(20)):
        for part in range(20):
            with ahead.take(part) as file:
                assert file.read() == str(part).encode()
    assert sorted(fetching.begun) == list(range(20))
    assert 1 < fetching.most <= CONNECTIONS


def test_what_is_passed_over_is_not_waited_for_and_no_more_is_fetched_than_that():
    fetching = Fetching()
    ahead = Ahead(fetching)
    with ahead.announced(range(100)):
        with ahead.take(50) as file:
            assert file.read() == b"50"
        assert ahead.take(3) is None  # given up: whoever wants it still, fetches it
    assert len(set(fetching.begun) - {50}) <= 3 * CONNECTIONS


def test_without_an_announcement_there_is_nothing():
    ahead = Ahead(Fetching())
    assert ahead.take(1) is None
    with ahead.announced([1]):
        pass
    assert ahead.take(1) is None


def test_a_part_that_cannot_be_had_is_an_error_for_whoever_takes_it():
    def fetch(part: int, is_over: IsOver) -> Iterator[bytes]:
        yield b"a"
        if part == 1:
            raise OSError("gone")

    ahead = Ahead(fetch)
    with ahead.announced([0, 1, 2]):
        for part in (0, 2):
            with ahead.take(part) as file:
                assert file.read() == b"a"
        with pytest.raises(OSError, match="gone"):
            Ahead(fetch)._store(1)


def test_an_end_is_told_to_what_is_being_fetched():
    told = threading.Event()

    def fetch(part: int, is_over: IsOver) -> Iterator[bytes]:
        while not is_over():
            yield b"a"
        told.set()

    with Ahead(fetch).announced([0]):
        pass
    assert told.wait(5)
