"""Archives with damage of every kind: each member is read as it was, or refused in one sentence, and nothing hangs."""

from __future__ import annotations

import io
import random
import resource
import signal
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.sources.archive import Archive
from infrascope_core.run_files.sources.entry import Entry
from tests.runs import run_name, write_run

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
EXTREMES = (0, 1, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
GIB = 2**30


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """What hangs fails."""

    def too_late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("plain")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for second in range(4):
            path = write_run(folder, second, samples=60)
            method = zipfile.ZIP_STORED if second == 3 else zipfile.ZIP_DEFLATED
            archive.write(path, f"train_separated/{path.name}", compress_type=method)
        with archive.open(f"infer_separated/{run_name(5, phase='infer')}", "w", force_zip64=True) as member:
            member.write((folder / run_name(0)).read_bytes())
    return buffer.getvalue()


def _at(raw: bytes, signature: bytes, chance: random.Random) -> int:
    places = [i for i in range(len(raw)) if raw.startswith(signature, i)]
    return chance.choice(places)


def flip(raw: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 3, 30))):
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def flip_in_directory(raw: bytearray, chance: random.Random) -> None:
    start = raw.find(CENTRAL)
    for _ in range(chance.choice((1, 2, 8))):
        raw[chance.randrange(start, len(raw))] = chance.randrange(256)


def set_field(raw: bytearray, chance: random.Random) -> None:
    """A size, an offset, a length, a method or flags take a value at the edge of what they can hold."""
    signature = chance.choice((LOCAL, CENTRAL, CENTRAL, END))
    fields = {
        LOCAL: [(6, "H"), (8, "H"), (14, "I"), (18, "I"), (22, "I"), (26, "H"), (28, "H")],
        CENTRAL: [*((at, "H") for at in (6, 8, 10, 28, 30, 32)), *((at, "I") for at in (16, 20, 24, 42))],
        END: [(4, "H"), (8, "H"), (10, "H"), (12, "I"), (16, "I"), (20, "H")],
    }
    offset, kind = chance.choice(fields[signature])
    at = _at(bytes(raw), signature, chance) + offset
    value = chance.choice(EXTREMES) & (0xFFFF if kind == "H" else 0xFFFFFFFF)
    raw[at : at + struct.calcsize(kind)] = struct.pack("<" + kind, value)


def cut_off(raw: bytearray, chance: random.Random) -> None:
    del raw[chance.randrange(len(raw)) :]


def cut_out(raw: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(raw))
    del raw[start : start + chance.choice((1, 100, 3000))]


def double(raw: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(raw))
    raw[start:start] = raw[start : start + chance.choice((1, 100, 5000))]


def rename(raw: bytearray, chance: random.Random) -> None:
    at = _at(bytes(raw), chance.choice((LOCAL, CENTRAL)), chance)
    name = raw.find(b"_separated/", at)
    raw[name - 5 : name] = chance.choice((b"../..", b"/etc/", b"\0\0\0\0\0", b"\xff\xfe\xfd\xfc\xfb", b"a\\..\\"))


def append(raw: bytearray, chance: random.Random) -> None:
    raw += chance.choice(
        (b"\0" * 70_000, bytes(raw), END + b"\xff" * 18, b"PK\x06\x07" + b"\xff" * 16 + END + b"\xff" * 18)
    )


MUTATIONS = (flip, flip_in_directory, set_field, cut_off, cut_out, double, rename, append)


def outcome(entry: Entry) -> pl.DataFrame | str:
    """The telemetry of a member, or the sentence that refuses it."""
    try:
        return read_run_file(entry).telemetry.drop("run_key")
    except RunFileError as error:
        assert "\n" not in error.fault and error.path == entry.path
        return error.fault


def check(path: Path, whole: bytes, seed: int) -> None:
    chance, raw = random.Random(seed), bytearray(whole)
    for _ in range(chance.choice((1, 1, 2))):
        if len(raw) > 100 and CENTRAL in raw and END in raw and LOCAL in raw:
            chance.choice(MUTATIONS)(raw, chance)
    path.write_bytes(raw)
    signal.alarm(20)
    good = {entry.path.name: read_run_file(entry).telemetry.drop("run_key") for entry in whole_entries(path, whole)}
    path.write_bytes(raw)
    for entry in Archive.of_file(path).entries:
        assert path in (entry.path, *entry.path.parents) and ".." not in entry.path.parts
        found = outcome(entry)
        if not isinstance(found, str) and entry.path.name in good:
            assert found.equals(good[entry.path.name]), f"seed {seed}: damage went unseen"
    signal.alarm(0)


def whole_entries(path: Path, whole: bytes) -> tuple[Entry, ...]:
    path.write_bytes(whole)
    return Archive.of_file(path).entries


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_archive_is_read_as_it_was_or_refused(tmp_path, whole, seed):
    check(tmp_path / "a.zip", whole, seed)


@pytest.mark.slow
def test_a_thousand_damaged_archives_in_bounded_memory(tmp_path, whole):
    for seed in range(40, 1040):
        check(tmp_path / "a.zip", whole, seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2 * GIB
