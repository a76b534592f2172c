"""One writer at a time, among threads and processes; a killed one holds nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infrascope_core.errors import StorageError
from infrascope_core.store.lock import locked

ROOT = Path(__file__).parents[3]
_HOLD = """
import sys
from pathlib import Path
from infrascope_core.store.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_by_another(path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        yield other
        if other.poll() is None:
            other.communicate("go\n")


@contextmanager
def waiting_for(path: Path) -> Iterator[threading.Event]:
    """A thread that wants the lock; the event is set once it has had it."""
    waits, had = threading.Event(), threading.Event()

    def want() -> None:
        with locked(path, waits.set):
            had.set()

    thread = threading.Thread(target=want)
    thread.start()
    assert waits.wait(10)
    yield had
    thread.join(10)


def test_two_processes_exclude_each_other(tmp_path):
    path = tmp_path / "deep" / "lock"
    with held_by_another(path) as other, waiting_for(path) as had:
        time.sleep(0.2)
        assert not had.is_set()
        other.communicate("go\n")
        assert had.wait(10)


def test_a_killed_holder_does_not_block(tmp_path):
    with held_by_another(tmp_path / "lock") as other, waiting_for(tmp_path / "lock") as had:
        assert not had.is_set()
        other.send_signal(signal.SIGKILL)
        assert other.wait(10) == -9
        assert had.wait(10)
    with locked(tmp_path / "lock", lambda: pytest.fail("somebody holds it")):
        assert (tmp_path / "lock").read_bytes() == b""


def test_two_threads_exclude_each_other(tmp_path):
    with ExitStack() as holder:
        holder.enter_context(locked(tmp_path / "lock"))
        with waiting_for(tmp_path / "lock") as had:
            time.sleep(0.1)
            assert not had.is_set()
            holder.close()
            assert had.wait(10)


def test_locks_of_different_names_do_not_meet(tmp_path):
    with locked(tmp_path / "a"), locked(tmp_path / "b", lambda: pytest.fail("waits")):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_an_error_gives_the_lock_back(tmp_path):
    with pytest.raises(ValueError, match="x"), locked(tmp_path / "lock"):
        raise ValueError("x")
    with locked(tmp_path / "lock", lambda: pytest.fail("waits")):
        pass


def test_a_lock_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file/lock: cannot be written"), locked(tmp_path / "file" / "lock"):
        pass
