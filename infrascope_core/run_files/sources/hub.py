"""Run files of a data set of the Hugging Face Hub: listed at one commit, fetched one by one from its archives.

`hub:OWNER/NAME`, perhaps with `@REVISION` and a selection (`?workload=BERT*&phase=train&runs=20`). Of an archive only
its directory is fetched, and of its members those that are read.

What belongs here: which files a data set has, which commit is meant, and what is kept of it. Requests are in
`transfer`, positions in `ranges`, what is in an archive in `archive`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from infrascope_core.errors import InfraScopeError, RunFileError, SourceError, StorageError
from infrascope_core.run_files.content import regular_file
from infrascope_core.run_files.meta import kinds, read_metas
from infrascope_core.run_files.name import is_meta
from infrascope_core.run_files.sources.ahead import Ahead, IsOver
from infrascope_core.run_files.sources.archive import Archive, Member, Span, directory_start, inner_path, is_archive
from infrascope_core.run_files.sources.entry import Accompanied, Entry, Listing, Meta, with_others
from infrascope_core.run_files.sources.ranges import RangeFile
from infrascope_core.run_files.sources.selection import EVERYTHING, Selection, select
from infrascope_core.run_files.sources.transfer import (
    ChangedError,
    RemoteFile,
    UnreachableError,
    patiently,
    read_part,
)
from infrascope_core.store.atomic import aside
from infrascope_core.store.folder import REMOTE

PUBLIC_DATA_SET = f"{REMOTE}subsetchen/RevealTelemetryDatasetforMLInfraProfilingAnomalyDetection"
"""The data set of the Reveal paper (arXiv:2510.26008), CC BY 4.0."""
_GUESS = 2**19
"""Bytes of an archive's end that are asked for first: the directory of 3,000 members and what closes it."""
_LOOK_AGAIN_S = 3600.0
"""A branch is asked this often whether it has moved."""
_MAX_SMALL = 16 * 2**20
"""Most bytes of a table that describes run files."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_Part = tuple[str, Span]
_T = TypeVar("_T")


@dataclass(frozen=True)
class HubName:
    """The name of a data set of the Hub, as a source.

    Attributes
    ----------
    repo_id : str
        OWNER/NAME.
    revision : str
        A branch, a tag or a commit.
    selection : Selection
        Which of its runs are wanted.
    """

    repo_id: str
    revision: str = "main"
    selection: Selection = EVERYTHING

    @classmethod
    def parse(cls, text: str) -> HubName:
        """The data set that a source names.

        Raises
        ------
        InfraScopeError
            It is not written as `hub:OWNER/NAME[@REVISION][?…]`.
        """
        name, _, query = text.removeprefix(REMOTE).partition("?")
        repo_id, at, revision = name.partition("@")
        if not _NAME.fullmatch(repo_id) or ".." in repo_id or "--" in repo_id or (at and not revision):
            raise InfraScopeError(f"{text[:200]}: expected {REMOTE}OWNER/NAME, perhaps with @REVISION")
        return cls(repo_id, revision or "main", Selection.parse(query, text))

    @property
    def source(self) -> str:
        """Its name without what is selected."""
        return f"{REMOTE}{self.repo_id}" + ("" if self.revision == "main" else f"@{self.revision}")


@dataclass(frozen=True)
class Snapshot:
    """The files of a data set at one commit."""

    commit: str
    files: tuple[tuple[str, int, str], ...]
    """Name, bytes and ETag of each."""

    @classmethod
    def of_text(cls, text: str) -> Snapshot:
        """The snapshot that `as_text` wrote."""
        content = json.loads(text)
        return cls(content["commit"], tuple((str(name), int(size), str(tag)) for name, size, tag in content["files"]))

    def as_text(self) -> str:
        """A text to keep it as."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Pin:
    """Which commit a data folder reads of a branch, and which one the branch was at when it was last asked."""

    commit: str
    latest: str


@dataclass(frozen=True)
class HubFile(Accompanied):
    """A run file that lies in a data set as it is."""

    path: Path
    file: RemoteFile
    data_set: DataSet = field(compare=False, repr=False)

    @property
    def size(self) -> int:
        """Bytes, as listed."""
        return self.file.size

    @property
    def fingerprint(self) -> str:
        """Name and hash of the content, which the Hub tells."""
        return f"{self.path} {self.file.size} {self.file.etag}"

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Its bytes."""
        return self.data_set.open_part(self.file, (0, self.file.size))


def list_hub(text: str, pins: Path | None = None) -> Listing:
    """What lies in a data set of the Hub.

    Parameters
    ----------
    text : str
        `hub:OWNER/NAME[@REVISION][?…]`.
    pins : Path, optional
        Folder in which is kept which commit a branch is read at. A branch that moves later is reported, and not
        followed; without a folder, it is read where it is.

    Raises
    ------
    InfraScopeError
        It is not named so, or nothing of it is selected.
    SourceError
        The Hub cannot be reached, and what is needed of it is not in the cache.
    """
    name = HubName.parse(text)
    pin, notices = _pinned(name, pins)
    data_set = DataSet(name, _snapshot(name, pin.commit))
    described = kinds(read_metas(data_set.metas)[0])
    wanted = select(data_set.entries, name.selection, described, text)
    return Listing(
        text,
        data_set.entries,
        wanted,
        data_set.metas,
        tuple(notices),
        commit=pin.commit,
        ahead=data_set.announced,
    )


def follow(text: str, pins: Path) -> None:
    """Forget at which commit a branch is read: the next listing takes the one it is at."""
    _pin_file(HubName.parse(text), pins).unlink(missing_ok=True)


class DataSet:
    """A data set at one commit."""

    def __init__(self, name: HubName, snapshot: Snapshot) -> None:
        self._name = name
        self._snapshot = snapshot
        self._directories: dict[str, tuple[int, bytes]] = {}
        self._unreachable: UnreachableError | None = None
        self._ahead: Ahead[_Part] = Ahead(self._fetch)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Run files, those in archives and those that lie as they are."""
        found: list[Entry] = []
        for archive in self._archives:
            found += archive.entries
        loose = [HubFile(self._path(file), file, self) for file in self._files.values()]
        return (*found, *with_others(loose))

    @cached_property
    def metas(self) -> tuple[Meta, ...]:
        """Tables that describe them."""
        own = [self._meta(file) for file in self._files.values() if is_meta(self._path(file))]
        return (*own, *(meta for archive in self._archives for meta in archive.metas))

    @contextmanager
    def open_part(self, file: RemoteFile, span: Span | None) -> Iterator[BinaryIO]:
        """A file, to read one part of it, or the directory of an archive; nothing is fetched yet.

        A file that `hf download` or another program has put into the cache of huggingface_hub is read there.
        """
        local = self._in_cache(file)
        if local is not None:
            with regular_file(local) as stream:
                yield cast(BinaryIO, stream)
            return
        is_zip = is_archive(self._path(file))
        known = self._directory(file) if is_zip else (0, b"")
        part = None if span is None else self._ahead.take((file.name, span))
        with contextlib.ExitStack() as stack:
            fetched = None if part is None else stack.enter_context(part)

            def get(start: int, end: int) -> Iterator[bytes]:
                if fetched is None or (start, end) != span:  # what was fetched ahead is the whole part
                    return self._read(file, start, end)
                return iter(lambda: fetched.read(2**20), b"")

            yield cast(BinaryIO, stack.enter_context(RangeFile(file.size, get, known, span or (0, 0))))

    def announced(self, entries: Sequence[Entry]) -> AbstractContextManager[None]:
        """While the block runs, these entries are about to be opened, in this order."""
        parts: list[_Part] = []
        files = {self._path(file): file for file in self._files.values()}
        for entry in entries:
            if isinstance(entry, HubFile):
                file, span = entry.file, (0, entry.file.size)
            elif isinstance(entry, Member) and entry.refusal is None:
                archive = next((path for path in entry.path.parents if path in files), None)
                if archive is None:
                    continue
                file, span = files[archive], entry.span
            else:
                continue
            if self._in_cache(file) is None:
                parts.append((file.name, span))
        return self._ahead.announced(parts)

    @cached_property
    def _archives(self) -> list[Archive]:
        return [
            Archive(path, partial(self.open_part, file))
            for file in self._files.values()
            if is_archive(path := self._path(file))
        ]

    @cached_property
    def _files(self) -> dict[str, RemoteFile]:
        """By the name that sentences call them."""
        from huggingface_hub import hf_hub_url  # noqa: PLC0415 - half a second, for those who use the Hub

        files = {}
        for filename, size, etag in self._snapshot.files:
            url = hf_hub_url(self._name.repo_id, filename, repo_type="dataset", revision=self._snapshot.commit)
            name = f"{REMOTE}{self._name.repo_id}/{filename}"
            files[name] = RemoteFile(url, name, size, etag)
        return files

    def _path(self, file: RemoteFile) -> Path:
        """What a file's path is in listings; its name came over the network."""
        root = f"{REMOTE}{self._name.repo_id}"
        return inner_path(Path(root), file.name.removeprefix(root))

    def _in_cache(self, file: RemoteFile) -> Path | None:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415

        filename = file.name.removeprefix(f"{REMOTE}{self._name.repo_id}/")
        try:
            found = try_to_load_from_cache(
                self._name.repo_id, filename, revision=self._snapshot.commit, repo_type="dataset"
            )
            if isinstance(found, str) and Path(found).stat().st_size == file.size:
                return Path(found)
        except (OSError, ValueError):  # not a name that the cache can hold, or it is being cleared
            pass
        return None

    def _directory(self, file: RemoteFile) -> tuple[int, bytes]:
        """Where the directory of an archive begins, and the bytes from there on; kept by the hash of the archive.

        Of an archive that is as small as what is asked for first, these are all its bytes.
        """
        if file.name not in self._directories:
            kept = _kept(self._name, f"{file.etag}.directory")
            content = kept() if file.etag else None
            if content is None or len(content) > file.size:
                content = self._fetch_directory(file)
                if file.etag:
                    kept.keep(content)
            self._directories[file.name] = file.size - len(content), content
        return self._directories[file.name]

    def _fetch_directory(self, file: RemoteFile) -> bytes:
        start = max(0, file.size - _GUESS)
        end = b"".join(self._read(file, start, file.size))
        fetched: dict[int, bytes] = {}

        def get(first: int, last: int) -> Iterator[bytes]:
            fetched[first] = b"".join(self._read(file, first, last))
            yield fetched[first]

        with RangeFile(file.size, get, (start, end)) as stream:
            begins = directory_start(cast(BinaryIO, stream))
        if begins is None or start == 0:  # what is wrong with it, whoever lists it will say; or all of it is here
            return end
        return end[begins - start :] if begins >= start else fetched.get(begins, b"") + end

    def _meta(self, file: RemoteFile) -> Meta:
        path = self._path(file)
        if file.size > _MAX_SMALL:
            return Meta(path, b"", f"larger than {_MAX_SMALL:,} bytes, the limit")
        kept = _kept(self._name, f"{file.etag}.csv")
        content = kept() if file.etag else None
        if content is None:
            try:
                with self.open_part(file, (0, file.size)) as stream:
                    content = stream.read(file.size)
            except RunFileError as error:
                return Meta(path, b"", error.fault)
            if file.etag:
                kept.keep(content)
        return Meta(path, content)

    def _fetch(self, part: _Part, is_over: IsOver) -> Iterator[bytes]:
        name, (start, end) = part
        return self._read(self._files[name], start, end, is_over)

    def _read(self, file: RemoteFile, start: int, end: int, is_over: IsOver = lambda: False) -> Iterator[bytes]:
        if self._unreachable is not None:
            raise self._unreachable
        try:
            yield from read_part(file, start, end, is_over=is_over)
        except ChangedError:
            _kept(self._name, f"{self._snapshot.commit}.json").forget()
            raise
        except UnreachableError as error:
            self._unreachable = error
            raise


def _pinned(name: HubName, pins: Path | None) -> tuple[Pin, list[str]]:
    """The commit to read, and what is to be said about it."""
    if _COMMIT.fullmatch(name.revision):
        return Pin(name.revision, name.revision), []
    file = None if pins is None else _pin_file(name, pins)
    pin = None if file is None else _read_pin(file)
    notices = []
    if pin is None or file is None:
        commit = _resolve(name)
        pin = Pin(commit, commit)
        if file is not None:
            _write_pin(file, pin)
    elif abs(time.time() - file.stat().st_mtime) > _LOOK_AGAIN_S:  # also after the clock was set back
        try:
            pin = Pin(pin.commit, _resolve(name))
            _write_pin(file, pin)
        except SourceError as error:
            notices.append(f"{error}; runs are read at commit {pin.commit[:12]}, as before")
    if pin.latest != pin.commit:
        notices.append(
            f"{name.source}: {name.revision} has moved from {pin.commit[:12]} to {pin.latest[:12]}; runs are still "
            f"read at the former, `infrascope fetch {name.source} --update` takes the latter"
        )
    return pin, notices


def _resolve(name: HubName) -> str:
    """The commit that a branch is at."""
    return _listed(name, name.revision).commit


def _snapshot(name: HubName, commit: str) -> Snapshot:
    content = _kept(name, f"{commit}.json")()
    if content is not None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return Snapshot.of_text(content.decode())
    return _listed(name, commit)


def _listed(name: HubName, revision: str) -> Snapshot:
    """The files at a revision, as the Hub lists them; offline, those of them that lie in the cache."""
    downloaded = _downloaded(name, revision)
    if downloaded is not None:
        return downloaded
    snapshot = _ask(name, revision)
    _kept(name, f"{snapshot.commit}.json").keep(snapshot.as_text().encode())
    return snapshot


def _downloaded(name: HubName, revision: str) -> Snapshot | None:
    """What `hf download` has put into the cache; None unless HF_HUB_OFFLINE is set, or if nothing is there."""
    from huggingface_hub import constants, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    if not constants.HF_HUB_OFFLINE:
        return None
    try:
        root = Path(snapshot_download(name.repo_id, repo_type="dataset", revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    found = [path for path in root.rglob("*") if path.is_file()]
    # the cache names what it links to by its hash
    files = ((str(path.relative_to(root)), path.stat().st_size, path.resolve().name) for path in sorted(found))
    return Snapshot(root.name, tuple(files)) if found and _COMMIT.fullmatch(root.name) else None


def _ask(name: HubName, revision: str) -> Snapshot:
    from huggingface_hub import HfApi, constants  # noqa: PLC0415

    def ask() -> Snapshot:
        info = HfApi(library_name="infrascope").dataset_info(
            name.repo_id, revision=revision, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
        if not info.sha or not _COMMIT.fullmatch(info.sha):
            raise SourceError(f"{name.source}: the server does not say which commit {revision} is")
        files = [
            (file.rfilename, int(file.size or 0), file.lfs.sha256 if file.lfs else file.blob_id or "")
            for file in info.siblings or ()
        ]
        return Snapshot(info.sha, tuple(sorted(files)))

    try:
        return patiently(name.source, ask)
    except (ValueError, KeyError, TypeError, AttributeError):  # an answer that is not the Hub's
        raise SourceError(f"{name.source}: the server does not answer as the Hub does") from None


def _pin_file(name: HubName, pins: Path) -> Path:
    digest = hashlib.sha256(name.revision.encode()).hexdigest()[:8]
    return pins / f"{name.repo_id.replace('/', '--')}.{digest}.json"


def _read_pin(file: Path) -> Pin | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        pin = Pin(str(content["commit"]), str(content["latest"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pin if _COMMIT.fullmatch(pin.commit) else None


def _write_pin(file: Path, pin: Pin) -> None:
    with aside(file) as path:
        path.write_text(json.dumps(asdict(pin)), encoding="utf-8")


@dataclass(frozen=True)
class _Kept:
    """Something that is kept in the cache of huggingface_hub (HF_HOME), where its users expect it, with its hash."""

    file: Callable[[], Path]

    def __call__(self) -> bytes | None:
        """What is kept; None if nothing is, or it is damaged."""
        try:
            content = self.file().read_bytes()
        except OSError:
            return None
        digest, content = content[:32], content[32:]
        return content if hashlib.sha256(content).digest() == digest else None

    def keep(self, content: bytes) -> None:
        """Keep it; a cache that cannot be written is done without."""
        with contextlib.suppress(OSError, StorageError), aside(self.file()) as path:
            path.write_bytes(hashlib.sha256(content).digest() + content)

    def forget(self) -> None:
        """Keep it no longer."""
        with contextlib.suppress(OSError):
            self.file().unlink(missing_ok=True)


def _kept(name: HubName, what: str) -> _Kept:
    def file() -> Path:
        from huggingface_hub import cached_assets_path  # noqa: PLC0415

        try:
            return cached_assets_path("infrascope", namespace=name.repo_id, subfolder="listings") / what
        except ValueError as error:  # a file lies where the folder should
            raise OSError(str(error)) from None

    return _Kept(file)
