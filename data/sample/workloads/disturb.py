"""Real disturbances of the host, on its last core, for a given time.

Prints two lines: the moments (naive UTC, milliseconds) when the disturbance took hold and when it was over.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

GROW_BYTES_PER_S, GROW_STEP_S = 320 * 2**20, 0.1
WRITE_BYTES, WRITE_FILE_BYTES = 64 * 2**10, 4 * 2**20
SEND_BYTES, SEND_EVERY_S = 2**20, 0.01


def say_now() -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    print(now.isoformat(sep=" ", timespec="milliseconds"), flush=True)


def cpu_hog(end: float, folder: Path) -> None:
    """A loop that does nothing but run."""
    while time.monotonic() < end:
        pass


def memory_growth(end: float, folder: Path) -> None:
    """An allocation that grows steadily and is written to, as a leak does; about 3.5 GB in 11 s."""
    held = []
    step = int(GROW_BYTES_PER_S * GROW_STEP_S)
    while time.monotonic() < end:
        block = mmap.mmap(-1, step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(0, step, mmap.PAGESIZE):
            block[page] = 1
        held.append(block)
        time.sleep(GROW_STEP_S)
    for block in held:
        block.close()


def sync_writes(end: float, folder: Path) -> None:
    """Writes that each wait until the disk has them (O_DSYNC), one after another."""
    path = folder / "sync_writes.bin"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    block = os.urandom(WRITE_BYTES)
    offset = 0
    try:
        while time.monotonic() < end:
            os.pwrite(file, block, offset)
            offset = (offset + WRITE_BYTES) % WRITE_FILE_BYTES
    finally:
        os.close(file)
        path.unlink()


def loopback_traffic(end: float, folder: Path) -> None:
    """A TCP stream over 127.0.0.1, 100 MiB/s."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()

    def receive() -> None:
        while receiver.recv(SEND_BYTES):
            pass

    reading = threading.Thread(target=receive)
    reading.start()
    block = bytes(SEND_BYTES)
    with sender, receiver:
        while time.monotonic() < end:
            sender.sendall(block)
            time.sleep(SEND_EVERY_S)
        sender.shutdown(socket.SHUT_WR)
        reading.join()


DISTURBANCES: dict[str, Callable[[float, Path], None]] = {
    disturb.__name__: disturb for disturb in (cpu_hog, memory_growth, sync_writes, loopback_traffic)
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(DISTURBANCES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=11)
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    say_now()
    DISTURBANCES[given.name](time.monotonic() + given.seconds, given.folder)
    say_now()


if __name__ == "__main__":
    main()
