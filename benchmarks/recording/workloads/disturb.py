"""Real faults, for a given time: load on the host's last core, or something done to the workload or its link.

Prints two lines: the moments (naive UTC, milliseconds) when the fault took hold and when it was over.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

GROW_BYTES_PER_S, GROW_STEP_S = 320 * 2**20, 0.1
WRITE_BYTES, WRITE_FILE_BYTES = 64 * 2**10, 4 * 2**20
SEND_BYTES, SEND_EVERY_S = 2**20, 0.01
LEAK_STEP_S = 0.02
FILL_BYTES = 2**20
QUOTA_PERIOD_US = 100_000
LINK = "fab0"


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


def leak(end: float, folder: Path, mib_per_s: str) -> None:
    """A process that forgets what it allocated: small blocks that it writes to and keeps until it ends."""
    held = []
    while time.monotonic() < end:
        held.append(b"x" * int(float(mib_per_s) * 2**20 * LEAK_STEP_S))
        time.sleep(LEAK_STEP_S)


def stress(stressor: str, end: float, folder: Path, *options: str) -> None:
    """A stressor of stress-ng, whose files lie in the folder."""
    command = ["stress-ng", *options, "--timeout=0", f"--temp-path={folder}", "--quiet"]
    running = subprocess.Popen(command)
    with contextlib.suppress(subprocess.TimeoutExpired):
        raise SystemExit(f"{stressor} ended early with {running.wait(end - time.monotonic())}: {' '.join(command)}")
    running.terminate()
    running.wait()


def cpu_quota(end: float, folder: Path, cores: str) -> None:
    """The workload may use so many cores, by a control group of version 2 or 1."""
    group, root = "infrascope-quota", Path("/sys/fs/cgroup")
    version_1 = root / "cpu"
    place = (version_1 if version_1.is_dir() else root) / group
    quota_us = int(float(cores) * QUOTA_PERIOD_US)
    place.mkdir(exist_ok=True)
    try:
        if version_1.is_dir():
            (place / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD_US))
            (place / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (place / "cpu.max").write_text(f"{quota_us} {QUOTA_PERIOD_US}")
        (place / "cgroup.procs").write_text(str(workload(folder)))
        wait_until(end)
    finally:
        (place.parent / "cgroup.procs").write_text(str(workload(folder)))
        time.sleep(0.05)
        place.rmdir()


def stopped(end: float, folder: Path) -> None:
    """The workload stands still, as one that waits for a lock that nobody frees."""
    os.kill(workload(folder), signal.SIGSTOP)
    try:
        wait_until(end)
    finally:
        os.kill(workload(folder), signal.SIGCONT)


def full_file_system(end: float, folder: Path) -> None:
    """The file system of the checkpoints has no byte left."""
    path = folder / "disk" / "forgotten.log"
    with path.open("wb", buffering=0) as file:
        while time.monotonic() < end:
            try:
                file.write(bytes(FILL_BYTES))
            except OSError:  # full: what the workload frees is filled as well
                time.sleep(LEAK_STEP_S)
    path.unlink()


def packet_loss(end: float, folder: Path, share: str) -> None:
    """Of what arrives at the link, this share is dropped."""
    rule = ["INPUT", "-i", LINK, "-m", "statistic", "--mode", "random", "--probability", share, "-j", "DROP"]
    subprocess.run(["iptables", "-A", *rule], check=True)
    try:
        wait_until(end)
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)


def slow_link(end: float, folder: Path, mbit_per_s: str) -> None:
    """The link sends no more than this."""
    queue = ["tc", "qdisc", "add", "dev", LINK, "root", "tbf"]
    subprocess.run([*queue, "rate", f"{mbit_per_s}mbit", "burst", "64kb", "latency", "50ms"], check=True)
    try:
        wait_until(end)
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", LINK, "root"], check=True)


def workload(folder: Path) -> int:
    return int((folder / "workload.pid").read_text(encoding="utf-8"))


def wait_until(end: float) -> None:
    time.sleep(max(0.0, end - time.monotonic()))


OWN = (cpu_hog, memory_growth, sync_writes, loopback_traffic, leak, cpu_quota, stopped, full_file_system, packet_loss)
STRESSORS = ("cpu", "switch", "fork", "cache", "vm", "hdd", "iomix", "sock")
DISTURBANCES: dict[str, Callable[..., None]] = {disturb.__name__: disturb for disturb in (*OWN, slow_link)} | {
    f"stress_{name}": partial(stress, name) for name in STRESSORS
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(DISTURBANCES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=11)
    parser.add_argument("given", nargs="*", help="how strong, as plans.yaml says")
    asked = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    say_now()
    DISTURBANCES[asked.name](time.monotonic() + asked.seconds, asked.folder, *asked.given)
    say_now()


if __name__ == "__main__":
    main()
