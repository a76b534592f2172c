"""Run files in a zip archive, read in place: its directory is listed, and each member opens as a stream.

What belongs here: what makes a member safe to read, wherever the archive lies. How the bytes of an archive are got is
the business of whoever opens it: a folder, or the Hub by ranges.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn, cast

from infrascope_core.errors import ChangingFileError, RunFileError
from infrascope_core.run_files.content import read_bounded, regular_file
from infrascope_core.run_files.name import is_meta
from infrascope_core.run_files.sources.entry import Accompanied, Entry, Meta, with_others
from infrascope_core.store.footers import stat_of

MAX_UNPACKED = 2**30
"""Most bytes of a member, unpacked; those of the public data set have 0.2 GB at most."""
MAX_RATIO = 200
"""Most unpacked bytes for each packed one; telemetry has 4 to 30, deflate can reach 1,032."""
MAX_DIRECTORY = 16 * 2**20
"""Most bytes of an archive's directory: 100,000 members. That of 3,042 has half a megabyte."""
_MAX_META = 16 * 2**20
_LOCAL_HEADER = 30
"""Bytes before a member's name in front of its data (APPNOTE.TXT, 4.3.7)."""
_ENCRYPTED = 1
_MOST_AT_ONCE = 4 * 2**20
"""zipfile reads as much packed data at once as it is asked for unpacked."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (
    zipfile.BadZipFile,
    EOFError,
    IndexError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What zipfile raises over bytes that are no archive, or a damaged one."""
_REPLACED = "the archive was replaced while it was read; it is read at the next look"

Span = tuple[int, int]
"""First byte of a part of an archive, and the one after its last."""
OpenArchive = Callable[[Span | None], AbstractContextManager[BinaryIO]]
"""Opens an archive as a seekable stream; the part that will be read is named, or None for the directory."""


@dataclass(frozen=True)
class Member(Accompanied):
    """A file in an archive.

    Attributes
    ----------
    path : Path
        The archive's path and the member's name in it, without what would lead out of it.
    info : zipfile.ZipInfo
        What the archive's directory says of it.
    span : tuple of int
        Where its header and data lie in the archive.
    fault : str or None
        Why it is refused.
    beside, types_beside : Entry or None
        Its labels, and the types of its metrics.
    around : str
        What the archive looked like when it was listed, if it lies on this machine.
    """

    path: Path
    info: zipfile.ZipInfo = field(compare=False, repr=False)
    span: Span
    open_archive: OpenArchive = field(compare=False, repr=False)
    fault: str | None = None
    around: str = field(default="", compare=False)

    @property
    def size(self) -> int:
        """Bytes that it has unpacked, by the directory; no more are ever read."""
        return self.info.file_size

    @property
    def packed_size(self) -> int:
        """Bytes that it takes in the archive."""
        return self.info.compress_size

    @property
    def fingerprint(self) -> str:
        """Name, size and checksum: an archive that is written anew makes only those stale that differ."""
        return f"{self.path} {self.info.file_size} {self.info.CRC:08x}" + (f" {self.fault}" if self.fault else "")

    @property
    def refusal(self) -> str | None:
        """Why it is not read: its name, its size, or what the directory says of it."""
        return self.fault

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Its unpacked bytes; the checksum is compared before the last of them is given."""
        if self.fault is not None:
            raise RunFileError(self.path, self.fault)
        with self.open_archive(self.span) as file:
            try:
                archive = zipfile.ZipFile(cast(Any, _Bounded(file)))
                member = archive.getinfo(self.info.filename)
            except (KeyError, _DirectoryTooLargeError, *_DAMAGE):  # it was listed a moment ago
                raise ChangingFileError(self.path, _REPLACED) from None
            try:
                stream = archive.open(member)
            except _DAMAGE as error:
                _raise_damaged(self.path, error)
            with archive, stream:
                if (member.CRC, member.file_size) != (self.info.CRC, self.info.file_size):
                    raise ChangingFileError(self.path, _REPLACED)
                yield cast(BinaryIO, _Checked(self.path, stream))


@dataclass(frozen=True)
class Archive:
    """A zip archive: its run files and labels, and the tables that describe them.

    Attributes
    ----------
    path : Path
        Where it lies.
    open_archive : callable
        Opens it.
    state : str
        What it looks like from outside, if it lies on this machine.
    """

    path: Path
    open_archive: OpenArchive = field(compare=False, repr=False)
    state: str = ""

    @classmethod
    def of_file(cls, path: Path) -> Archive:
        """An archive of this machine."""
        return cls(path, lambda span: regular_file(path), str(stat_of(path)))

    @cached_property
    def members(self) -> list[Member]:
        """What it holds, but for folders; what cannot be used has a fault.

        Raises
        ------
        RunFileError
            It is not a zip archive, or its directory is too large.
        SourceError
            It cannot be reached.
        """
        with self.open_archive(None) as file:
            try:
                with zipfile.ZipFile(cast(Any, _Bounded(file))) as archive:
                    infos, end = archive.infolist(), archive.start_dir
            except _DirectoryTooLargeError:
                fault = f"its directory has more than {MAX_DIRECTORY:,} bytes, the limit"
                raise RunFileError(self.path, fault) from None
            except _DAMAGE as error:
                raise RunFileError(self.path, f"not a zip archive, or cut off ({_words(error)})") from None
        found = members_of(self.path, infos, end, self.open_archive)
        return [replace(member, around=self.state) for member in found] if self.state else found

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Its run files with their labels; the archive itself, with the reason, if it cannot be used."""
        try:
            members = self.members
        except RunFileError as error:
            return (BadArchive(self.path, error.fault),)
        return tuple(with_others(members))

    @cached_property
    def metas(self) -> tuple[Meta, ...]:
        """The tables in it that describe its run files."""
        try:
            members = [member for member in self.members if is_meta(member.path)]
        except RunFileError:
            return ()
        return tuple(map(_meta, members))


@dataclass(frozen=True)
class BadArchive(Entry):
    """A file that is named as an archive is, and cannot be used."""

    path: Path
    fault: str

    @property
    def size(self) -> int:
        """It gives no bytes."""
        return 0

    @property
    def fingerprint(self) -> str:
        """Its name and what is wrong with it."""
        return f"{self.path} {self.fault}"

    @property
    def labels(self) -> None:
        """It has none."""
        return

    @property
    def refusal(self) -> str:
        """What is wrong with it."""
        return self.fault

    def open(self) -> NoReturn:
        """Never opens."""
        raise RunFileError(self.path, self.fault)


def is_archive(path: Path) -> bool:
    """Whether a file is named as a zip archive is, and is not one that nobody wants."""
    return path.name.lower().endswith(".zip") and not path.name.startswith(".") and "__MACOSX" not in path.parts


def directory_start(file: BinaryIO) -> int | None:
    """Where the directory of an archive begins; None if it is no archive that can be read."""
    try:
        with zipfile.ZipFile(cast(Any, _Bounded(file))) as archive:
            return archive.start_dir
    except (_DirectoryTooLargeError, *_DAMAGE):
        return None


def members_of(path: Path, infos: Sequence[zipfile.ZipInfo], end: int, open_archive: OpenArchive) -> list[Member]:
    """The files that an archive's directory lists, each with its part of the archive and what is wrong with it.

    Parameters
    ----------
    path : Path
        The archive.
    infos : sequence of zipfile.ZipInfo
        Its directory.
    end : int
        Where the data of its members end: the first byte of the directory.
    open_archive : callable
        Opens it.
    """
    files = [info for info in infos if not info.filename.endswith("/")]  # `is_dir` fails for an empty name
    starts = sorted({info.header_offset for info in infos})
    following = dict(pairwise([*starts, end]))
    seen = Counter(info.filename for info in files)
    offsets = Counter(info.header_offset for info in files)
    members: dict[str, Member] = {}
    for info in files:
        span = (info.header_offset, following[info.header_offset])
        if seen[info.filename] > 1:
            fault: str | None = "occurs twice in the archive: which of them is meant, cannot be told"
        else:
            fault = fault_of(info, span, end, shared=offsets[info.header_offset] > 1)
        members.setdefault(info.filename, Member(inner_path(path, info.filename), info, span, open_archive, fault))
    return list(members.values())


def fault_of(info: zipfile.ZipInfo, span: Span, end: int, *, shared: bool = False) -> str | None:
    """Why a member is not read, by what the directory says of it; None if nothing speaks against it."""
    name = _slashed(info.filename)
    start, until = span
    smallest = max(info.compress_size, 1)
    speaks_against_it = (
        (name.startswith("/") or name[1:2] == ":", "its name in the archive is an absolute path"),
        (".." in PurePosixPath(name).parts, "its name in the archive leads out of the archive"),
        (info.flag_bits & _ENCRYPTED, "is encrypted in the archive"),
        (
            info.compress_type not in _METHODS,
            f"is packed by method {info.compress_type}; expected deflate (8) or none (0)",
        ),
        (info.file_size > MAX_UNPACKED, f"unpacks to {info.file_size:,} bytes; the limit is {MAX_UNPACKED:,}"),
        (info.file_size > MAX_RATIO * smallest, f"unpacks to more than {MAX_RATIO} times its packed size"),
        (start < 0 or start >= end, "lies outside of the archive"),
        (
            shared or start + _LOCAL_HEADER + info.compress_size > until,
            "overlaps another member of the archive",
        ),
    )
    return next((fault for is_so, fault in speaks_against_it if is_so), None)


def inner_path(archive: Path, name: str) -> Path:
    """A member's path below its archive: never one of the system, whatever its name is."""
    parts = [part for part in _slashed(name).split("/") if part not in ("", ".", "..")]
    return archive.joinpath(*parts)


def _slashed(name: str) -> str:
    """Some archivers write the separators of Windows."""
    return name.replace("\\", "/")


def _meta(member: Member) -> Meta:
    try:
        with member.open() as stream:
            return Meta(member.path, read_bounded(member.path, stream, _MAX_META))
    except (RunFileError, ChangingFileError) as error:
        return Meta(member.path, b"", error.fault)


def _words(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _raise_damaged(path: Path, error: Exception) -> NoReturn:
    raise RunFileError(path, f"is damaged in the archive ({_words(error)})") from None


class _DirectoryTooLargeError(Exception):
    """The directory is not one that is worth the memory."""

    def __str__(self) -> str:
        return "its directory is too large"


class _Bounded:
    """A file for zipfile, which reads a directory at once however large the archive claims that it is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, lambda: True

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            size = MAX_DIRECTORY + 1
        if size > MAX_DIRECTORY + 1:
            raise _DirectoryTooLargeError
        return self._file.read(size)


class _Checked:
    """A member's stream whose damage is one sentence, wherever it is met: zipfile compares the checksum at the end."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size if size < 0 else min(size, _MOST_AT_ONCE)))
        except _DAMAGE as error:
            _raise_damaged(self._path, error)
