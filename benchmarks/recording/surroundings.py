"""What some faults act on beside the host: a small file system of its own, and a link to a peer.

The link is a pair of virtual interfaces: `fab0` in this namespace, where the collector sees it, and its other end in a
network namespace of the peer, which answers what it is sent (`workloads/peer.py`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

PEER, LINK = "infrascope-peer", "fab0"
DISK_BYTES = 48 * 2**20


@contextlib.contextmanager
def prepared(folder: Path, needs: Collection[str]) -> Iterator[None]:
    """Make what is needed, and remove it afterwards; raises CalledProcessError without the rights."""
    with contextlib.ExitStack() as stack:
        if "disk" in needs:
            stack.enter_context(_disk(folder))
        if "link" in needs:
            stack.enter_context(_link())
        yield


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """A file system of 48 MiB on `folder/disk`, in a file."""
    image, mounted = folder / "disk.img", folder / "disk"
    mounted.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    _run("mkfs.ext4", "-q", "-m", "0", str(image))
    _run("mount", "-o", "loop", str(image), str(mounted))
    try:
        yield
    finally:
        _run("umount", str(mounted))


@contextlib.contextmanager
def _link() -> Iterator[None]:
    """The link and the peer behind it; what was left of an earlier one is removed first."""
    subprocess.run(["ip", "netns", "del", PEER], check=False, capture_output=True)
    _run("ip", "netns", "add", PEER)
    try:
        _run("ip", "link", "add", LINK, "type", "veth", "peer", "name", "fab1", "netns", PEER)
        _run("ip", "addr", "add", "198.18.0.1/30", "dev", LINK)
        _run("ip", "link", "set", LINK, "up")
        _in_peer("ip", "addr", "add", "198.18.0.2/30", "dev", "fab1")
        _in_peer("ip", "link", "set", "fab1", "up")
        peer = subprocess.Popen(
            ["ip", "netns", "exec", PEER, sys.executable, str(Path(__file__).with_name("workloads") / "peer.py")]
        )
        try:
            yield
        finally:
            peer.terminate()
            peer.wait()
    finally:
        _run("ip", "netns", "del", PEER)


def _in_peer(*command: str) -> None:
    _run("ip", "netns", "exec", PEER, *command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
