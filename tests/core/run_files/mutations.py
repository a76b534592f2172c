"""Damage to run files: what disks, editors, collectors and other people's scripts do to a table of samples."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

Mutation = Callable[[bytes, random.Random], bytes]

NUMBERS = (
    "1e308", "-1e308", "1.7976931348623157e308", "1e999", "-1e999", "5e-324", "inf", "-inf", "nan", "-nan", "0",
    "-0.0", "9" * 400, "0." + "0" * 400 + "1", "9007199254740993", "18446744073709551616", "1e15", "1e-300", "+5",
    "0x1F", "1_0", "1,5", "½", "", " ", "NULL", "true", "--1", "1e", "e5", ".", "1.2.3",
)  # fmt: skip
PIECES = (
    b"\0", b"\0" * 70_000, b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n\n", b"\r\n", b"\t", b"\t\t",
    b'"', b"'", b",", b";", b"\\", b"\x1b[31m", b"\xe2\x80\xae", b"\xc3", b" ", b"#", b"A" * 100_000, b"\x1a", b"\x85",
)  # fmt: skip
TIMES = (
    "0001-01-01 00:00:00.000", "1677-09-21 00:12:43.000", "1970-01-01 00:00:00.000", "2262-04-12 00:00:00.000",
    "9999-12-31 23:59:59.999", "2026-02-30 10:00:00.000", "2026-11-01 24:00:00.000", "2026-11-01 10:00:60.000",
    "2026-11-01 10:00:01", "2026-11-01 10:00:01.1234567891", "2026-11-01T10:00:01.100", "1793527201.5", "", "-",
    "10000-01-01 00:00:00.000", "-001-01-01 00:00:00.000",
)  # fmt: skip
NAMES = (
    "", "ts", "run_key", "host", "sample", "__time__", "0", "window", "metric", "A" * 20_000, "a\x1b[31mb", "a/b", "..",
    "<script>alert(1)</script>", "{{ 7 * 7 }}", "'; DROP TABLE runs; --", '"', "`", "\u202egnp", "\u0000", "[%]",
    "..h1[%]",
    ".h1[%]", "Memory:MemAvailable.h1[kB]", "Memory:MemAvailable.h2[kB]", "é.h1[°C]", "$x^2_{1}$.h1[%]", "%s%n.h1[%]",
    "AverageCPUUtilization.h1[", "Perf:IPC.h1[[x]]", "\ud7ff", "GPU:utilization.gpu.0.h1[%]",
)  # fmt: skip


def flip(raw: bytes, chance: random.Random) -> bytes:
    """Bits are other ones."""
    found = bytearray(raw)
    for _ in range(chance.choice((1, 1, 3, 30))):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def cut_off(raw: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return raw[: chance.randrange(len(raw))]


def cut_out(raw: bytes, chance: random.Random) -> bytes:
    """A part is missing, or zeros (a loss of power)."""
    start, size = chance.randrange(len(raw)), chance.choice((1, 20, 3000))
    return raw[:start] + chance.choice((b"", b"", b"\0" * size)) + raw[start + size :]


def insert(raw: bytes, chance: random.Random) -> bytes:
    """Something is between."""
    at = chance.choice((0, len(raw), chance.randrange(len(raw))))
    return raw[:at] + chance.choice(PIECES) + raw[at:]


def double(raw: bytes, chance: random.Random) -> bytes:
    """A part occurs twice, or the whole file."""
    start, size = chance.randrange(len(raw)), chance.choice((1, 100, 5000, len(raw)))
    return raw[:start] + raw[start : start + size] + raw[start:] if size < len(raw) else raw + raw


def swap_lines(raw: bytes, chance: random.Random) -> bytes:
    """Lines are in another order."""
    lines = raw.split(b"\n")
    i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(chance.choice((lines, lines[::-1])))


def repeat_header(raw: bytes, chance: random.Random) -> bytes:
    """The header once more."""
    lines = raw.split(b"\n")
    lines.insert(chance.randrange(len(lines)), lines[0])
    return b"\n".join(lines)


def _with_cells(raw: bytes, change: Callable[[list[list[str]]], object]) -> bytes:
    rows = [line.split("\t") for line in raw.decode("utf-8", "replace").split("\n")]
    change(rows)
    return "\n".join("\t".join(row) for row in rows).encode("utf-8", "surrogatepass")


def odd_numbers(raw: bytes, chance: random.Random) -> bytes:
    """Cells, or a whole column, hold numbers at the edge of what there is."""

    def change(rows: list[list[str]]) -> None:
        column, numbers = chance.randrange(1, 6), chance.choices(NUMBERS, k=chance.choice((1, 3)))
        share = chance.choice((0.003, 0.5, 1.0))
        for row in rows[1:]:
            if len(row) > column and chance.random() < share:
                row[column] = chance.choice(numbers)

    return _with_cells(raw, change)


def odd_times(raw: bytes, chance: random.Random) -> bytes:
    """Times are none, or far away, or go back, or stand still."""

    def change(rows: list[list[str]]) -> None:
        kind, at = chance.randrange(5), chance.randrange(1, max(2, len(rows) - 1))
        if kind == 0:
            rows[at][0] = chance.choice(TIMES)
        elif kind == 1:  # the clock is set
            step = timedelta(seconds=chance.choice((-3600, -0.05, 3600, 86400 * 365 * 1000)))
            for row in rows[at:]:
                with suppress(ValueError, OverflowError):
                    row[0] = str(datetime.fromisoformat(row[0]) + step)
        elif kind == 2:  # it stands still
            for row in rows[at:]:
                row[0] = rows[at][0] if len(row) > 1 else row[0]
        elif kind == 3:  # first and last
            rows[1][0], rows[-2][0] = "0001-01-01 00:00:00.000", "9999-12-31 23:59:59.999"
        else:
            for row in rows[1:]:
                row[0] = chance.choice(TIMES) if len(row) > 1 else row[0]

    return _with_cells(raw, change)


def odd_names(raw: bytes, chance: random.Random) -> bytes:
    """Columns are called something else, or there are a thousand more."""

    def change(rows: list[list[str]]) -> None:
        if chance.random() < 0.1:
            rows[0].extend(f"x{n}.h1[%]" for n in range(1000))
            for row in rows[1:]:
                row.extend(["1"] * 1000 if len(row) > 1 else [])
        for _ in range(chance.choice((1, 1, 3))):
            rows[0][chance.randrange(len(rows[0]))] = chance.choice(NAMES)

    return _with_cells(raw, change)


def odd_shape(raw: bytes, chance: random.Random) -> bytes:
    """No value at all, one row, or columns that are gone."""
    lines = raw.split(b"\n")
    kind = chance.randrange(4)
    if kind == 0:
        return b"\n".join([lines[0], *(line.split(b"\t")[0] + b"\t" * 5 for line in lines[1:-1]), b""])
    if kind == 1:
        return b"\n".join([*lines[: chance.choice((2, 3, 11, 31))], b""])
    width = chance.randrange(1, 6)
    return b"\n".join(b"\t".join(line.split(b"\t")[:width]) for line in lines)


def odd_cells(raw: bytes, chance: random.Random) -> bytes:
    """Cells between commas hold what belongs into other columns, or nowhere."""
    rows = [line.split(",") for line in raw.decode("utf-8", "replace").split("\n")]
    for _ in range(chance.choice((1, 3, 20))):
        row = chance.choice(rows)
        row[chance.randrange(len(row))] = chance.choice((*NUMBERS, *TIMES, *NAMES))
    return "\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass")


def encode(raw: bytes, chance: random.Random) -> bytes:
    """Another encoding, or other ends of lines."""
    text = raw.decode("utf-8", "replace")
    kind = chance.randrange(6)
    if kind < 3:
        return text.encode(("utf-16", "utf-32", "utf-16-le")[kind])
    if kind == 3:
        return text.replace("\n", "\r").encode()
    if kind == 4:
        return text.replace("kB", "kBé").encode("latin-1", "replace")
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


TEXT: tuple[Mutation, ...] = (
    flip, cut_off, cut_out, insert, double, swap_lines, repeat_header, odd_numbers, odd_numbers, odd_times, odd_names,
    odd_shape, encode,
)  # fmt: skip
BESIDE: tuple[Mutation, ...] = (
    flip, cut_off, cut_out, insert, double, swap_lines, repeat_header, odd_cells, odd_cells, encode,
)  # fmt: skip
"""Damage to what lies beside run files, which is separated by commas."""
PACKED: tuple[Mutation, ...] = (flip, cut_off, cut_out, insert, double)


def damaged(raw: bytes, chance: random.Random, ways: Sequence[Mutation]) -> bytes:
    """A text that was damaged once or twice."""
    for _ in range(chance.choice((1, 1, 2))):
        raw = chance.choice(ways)(raw, chance) or b"\n"
    return raw


def mutated(raw: bytes, chance: random.Random) -> tuple[bytes, bool]:
    """A damaged run file, and whether it is packed."""
    raw = damaged(raw, chance, TEXT)
    if chance.random() < 0.75:
        return raw, False
    packed = gzip.compress(raw, 1)
    if chance.random() < 0.7:
        packed = chance.choice(PACKED)(packed, chance)
    return packed, True
