"""What every kind of source offers: a listing of entries, each of which opens as a stream of bytes.

What belongs here: the interface. How a folder, an archive or the Hub keeps it, is in their own files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from infrascope_core.run_files.name import LABELS_SUFFIX, TYPES_SUFFIX, is_run_file, labels_path, types_path


class Entry(ABC):
    """A file that lies in a source: a run file, labels, or something that is neither and has to be said.

    Attributes
    ----------
    path : Path
        Where it lies, as a person would write it; the folders around it tell the phase of some run files. For what lies
        in an archive, the archive's path comes first: no file of the system has this path.
    """

    path: Path

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that the stream will have."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What it looks like from outside; changes when the content does, and reads none of it."""

    @property
    @abstractmethod
    def labels(self) -> Entry | None:
        """The labels beside it, if there are any."""

    @property
    def types(self) -> Entry | None:
        """The types of its metrics that are declared beside it, if they are."""
        return None

    @property
    def around(self) -> str:
        """What the file that it lies in looks like from outside; empty if it lies in none.

        Where that changes, a damaged entry may be whole, though its own fingerprint is as it was: an archive was
        fetched again, and its directory had been right all the time.
        """
        return ""

    @property
    def refusal(self) -> str | None:
        """Why it cannot be used whatever it holds, in words; None if nothing is known against it."""
        return None

    @abstractmethod
    def open(self) -> AbstractContextManager[BinaryIO]:
        """Its bytes, from the first to the last; the stream need not be seekable.

        Raises
        ------
        RunFileError
            It is no file that can be read, or is damaged; also while it is read.
        SourceError
            The source cannot be reached: nothing is known of the file. Also while it is read.
        """


@dataclass(frozen=True)
class Accompanied(Entry):
    """An entry that is told what lies beside it, because nobody can look there.

    Attributes
    ----------
    labels_beside, types_beside : Entry, optional
        The files of the same folder that are named as its labels and the types of its metrics are.
    """

    labels_beside: Entry | None = field(default=None, kw_only=True)
    types_beside: Entry | None = field(default=None, kw_only=True)

    @property
    def labels(self) -> Entry | None:
        """The labels beside it, if there are any."""
        return self.labels_beside

    @property
    def types(self) -> Entry | None:
        """The types of its metrics that are declared beside it, if they are."""
        return self.types_beside


_Accompanied = TypeVar("_Accompanied", bound=Accompanied)


def with_others(entries: Sequence[_Accompanied]) -> Iterator[_Accompanied]:
    """The run files among entries, each with its labels and types, if they are among them as well."""
    others = {entry.path: entry for entry in entries if entry.path.name.endswith((LABELS_SUFFIX, TYPES_SUFFIX))}
    for entry in entries:
        if is_run_file(entry.path):
            labels, types = (others.get(of(entry.path)) for of in (labels_path, types_path))
            yield replace(entry, labels_beside=labels, types_beside=types) if labels or types else entry


@dataclass(frozen=True)
class Meta:
    """A table that describes the run files of a source (`meta_gpu.csv` of the public data set).

    Attributes
    ----------
    path : Path
        Where it lies.
    content : bytes
        The table as it lies; empty if it could not be read, which `fault` then says.
    """

    path: Path
    content: bytes
    fault: str = ""


@dataclass(frozen=True)
class Listing:
    """What lies in one source.

    Attributes
    ----------
    source : str
        The source, as it was named.
    entries : tuple of Entry
        All run files, and what looks like one and is not.
    wanted : tuple of Entry
        Those that are to be read: all, unless the source's name selects some.
    metas : tuple of Meta
        Tables that describe them.
    notices : tuple of str
        What a person should know about the listing: a sentence each.
    commit : str
        The commit that was listed, of a data set that has such.
    ahead : callable
        Prepares that entries will be opened in an order, while the context that it gives lasts.
    """

    source: str
    entries: tuple[Entry, ...] = ()
    wanted: tuple[Entry, ...] = ()
    metas: tuple[Meta, ...] = ()
    notices: tuple[str, ...] = ()
    commit: str = ""
    ahead: Callable[[Sequence[Entry]], AbstractContextManager[None]] = field(
        default=lambda entries: nullcontext(), compare=False, repr=False
    )
