"""A PostgreSQL server of Debian's packages, on 127.0.0.1 and in a folder of its own, for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; None where PostgreSQL is not installed."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


@contextmanager
def postgres(place: Path) -> Iterator[str]:
    """Run a server while the context lasts; yields the address of an empty database, for SQLAlchemy."""
    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed"
    place.mkdir()
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to run as root
        identity = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(place, "postgres", "postgres")
        for folder in place.parents:  # pytest's folders are for their owner alone
            if folder.stat().st_uid == 0 and folder != Path("/") and not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o001)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(*command: str) -> None:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, **identity)
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]

    data = place / "data"
    run(str(programs / "initdb"), "-D", str(data), "-U", "infrascope", "--auth", "trust", "-E", "UTF8")
    options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={place}"
    run(str(programs / "pg_ctl"), "-D", str(data), "-l", str(place / "log"), "-o", options, "-w", "start")
    try:
        yield f"postgresql+psycopg2://infrascope@127.0.0.1:{port}/postgres"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
