"""Parts of a file of the Hugging Face Hub over HTTP: what is asked, what an answer means, and when to ask again.

The requests are those of huggingface_hub (its session, headers, token, endpoint, offline mode and timeouts). Its own
downloads are not used, because they fetch whole files; nor are its retries, because they wait for as long as a server
says and do not go on in the middle of a part (docs/adr/0039).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from infrascope_core.errors import SourceError

_AGAIN = (408, 429, 500, 502, 503, 504)
"""Statuses that pass: those that huggingface_hub retries (`utils/_http.py`)."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_NAP_S = 0.2
"""How soon a wait ends after nobody needs what is waited for."""
_T = TypeVar("_T")


class UnreachableError(SourceError):
    """The Hub does not answer, and will not the next minute either: nothing else need be tried."""


class ChangedError(SourceError):
    """A file of the Hub is not the one that was listed."""


class AgainError(Exception):
    """A request failed in a way that passes; `wait_s` is what the server asks for, if it does."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        self.wait_s = wait_s
        super().__init__(why)


@dataclass(frozen=True)
class Patience:
    """When to ask again, and when to give up.

    Attributes
    ----------
    tries : int
        Attempts after the first, without a byte in between.
    first_wait_s, longest_wait_s : float
        Wait before the second attempt, and the most that it doubles to.
    longest_told_s : float
        Longest wait that a server may ask for: the Hub counts requests in windows of five minutes.
    grace_s, slowest : float
        A part has this time, and that of its bytes at this rate (bytes/s), before it is given up.
    """

    tries: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 8.0
    longest_told_s: float = 330.0
    grace_s: float = 60.0
    slowest: float = 10_000.0


PATIENCE = Patience()


@dataclass(frozen=True)
class RemoteFile:
    """A file of the Hub at one commit.

    Attributes
    ----------
    url : str
        Where it is resolved (`hf_hub_url`); signed addresses are asked for anew each time, since they expire.
    name : str
        What sentences call it.
    size : int
        Bytes, as listed.
    etag : str
        Hash of its content, as listed: sha256 of large files, git's of small ones.
    """

    url: str
    name: str
    size: int
    etag: str


def read_part(
    file: RemoteFile,
    start: int,
    end: int,
    *,
    patience: Patience | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[bytes]:
    """The bytes of a file from `start` to the one before `end`, as they come; goes on where a connection was cut.

    Raises
    ------
    ChangedError
        The file is another one than was listed.
    SourceError
        It cannot be had; one sentence. Also if `is_over` says that nobody waits for it any more.
    """
    patience = patience or PATIENCE
    tries, position = _Tries(file.name, patience), start
    deadline = time.monotonic() + patience.grace_s + (end - start) / patience.slowest
    while position < end:
        try:
            for received in _answer(file, position, end):
                part = received[: end - position]
                position += len(part)
                tries.made = 0
                if part:
                    yield part
                if is_over():
                    raise SourceError(f"{file.name}: given up")
                if time.monotonic() > deadline:
                    raise UnreachableError(f"{file.name}: comes at less than {patience.slowest:,.0f} bytes a second")
            if position < end:
                raise AgainError("the answer ended early")
        except AgainError as again:
            deadline += tries.wait(again, is_over)


def patiently(name: str, call: Callable[[], _T], patience: Patience | None = None) -> _T:
    """What a call of huggingface_hub gives, tried again while its failure is one that passes.

    Raises
    ------
    SourceError
        It failed for good, or too often.
    """
    tries = _Tries(name, patience or PATIENCE)
    while True:
        try:
            with in_words(name):
                return call()
        except AgainError as again:
            tries.wait(again)


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """Turn what huggingface_hub and its HTTP client raise into a sentence, or into another try."""
    import httpx2  # noqa: PLC0415 - half a second, for those who use the Hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

    try:
        yield
    except OfflineModeIsEnabled:
        raise UnreachableError(f"{name}: HF_HUB_OFFLINE is set, and it is not in the cache") from None
    except HfHubHTTPError as error:
        raise_for(error.response.status_code, error.response.headers, name)
        raise SourceError(f"{name}: {_first_line(error)}") from None
    except httpx2.TransportError as error:
        raise AgainError(_first_line(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceError(f"{name}: {_first_line(error)}") from None


def raise_for(status: int, headers: Mapping[str, str], name: str, *, redirected: bool = False) -> None:
    """Say what a status of 400 or more means; returns if it is less.

    Parameters
    ----------
    status : int
        Of the answer.
    headers : mapping
        Of the answer; the Hub names the reason in `X-Error-Code`.
    name : str
        What was asked for.
    redirected : bool
        The answer is not the Hub's own, but that of a store to which it sent the request by a signed address.

    Raises
    ------
    AgainError
        It passes.
    ChangedError, SourceError
        It does not.
    """
    code = headers.get("X-Error-Code", "")
    if status < 400:
        return
    if status in _AGAIN:
        raise AgainError(f"the server answers with status {status}", told_to_wait(headers))
    if redirected and status in (400, 401, 403):
        raise AgainError(f"the signed address is not valid any more (status {status})")
    if status == 416:
        raise ChangedError(f"{name}: is shorter than it was when it was listed; list it again")
    if code == "GatedRepo":
        raise SourceError(f"{name}: its owner asks for consent on its page at the Hub, and for a token in HF_TOKEN")
    if status in (401, 403):
        raise SourceError(f"{name}: does not exist, or is private and HF_TOKEN holds no token that may read it")
    if status == 404:
        what = {"RevisionNotFound": "there is no such revision", "EntryNotFound": "there is no such file"}
        raise SourceError(f"{name}: {what.get(code, 'there is no such data set at the Hub')}")
    raise SourceError(f"{name}: the server answers with status {status}")


def told_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait: `Retry-After` (seconds or a date), or the Hub's `RateLimit`."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined] # noqa: PLC0415

    told = headers.get("Retry-After", "").strip()
    if told.isdigit():
        return float(told)
    if told:
        try:
            until = parsedate_to_datetime(told)
        except ValueError:
            return None
        return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    limit = parse_ratelimit_headers(headers)
    return float(limit.reset_in_seconds) if limit is not None and limit.remaining == 0 else None


class _Tries:
    """How often something was tried in vain."""

    def __init__(self, name: str, patience: Patience) -> None:
        self._name = name
        self._patience = patience
        self.made = 0

    def wait(self, again: AgainError, is_over: Callable[[], bool] = lambda: False) -> float:
        """Wait for the next try; returns for how long, or raises if it was the last, or nobody waits any more."""
        patience = self._patience
        self.made += 1
        if self.made > patience.tries:
            raise UnreachableError(f"{self._name}: {again}; tried {self.made} times") from None
        wait_s = min(patience.first_wait_s * 2.0 ** (self.made - 1), patience.longest_wait_s)
        if again.wait_s is not None:
            if again.wait_s > patience.longest_told_s:
                told = f"asks to wait {again.wait_s:,.0f} seconds"
                raise UnreachableError(f"{self._name}: {again} and {told}; try again later") from None
            wait_s = again.wait_s
        until = time.monotonic() + wait_s
        while (left := until - time.monotonic()) > 0:
            if is_over():
                raise SourceError(f"{self._name}: given up") from None
            time.sleep(min(left, _NAP_S))
        return wait_s


def _answer(file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
    """What comes back for one request of a part."""
    from huggingface_hub import constants, get_session  # noqa: PLC0415
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined] # noqa: PLC0415

    asked = {
        **build_hf_headers(library_name="infrascope"),
        "Range": f"bytes={start}-{end - 1}",
        "Accept-Encoding": "identity",
    }
    with (
        in_words(file.name),
        get_session().stream(
            "GET", file.url, headers=asked, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT, follow_redirects=True
        ) as response,
    ):
        _check(file, response, start, end)
        yield from response.iter_raw()


def _check(file: RemoteFile, response: Any, start: int, end: int) -> None:
    """Make sure that an answer is the part that was asked for, of the file that was listed."""
    raise_for(response.status_code, response.headers, file.name, redirected=bool(response.history))
    etag = _etag(response)
    if etag and file.etag and etag != file.etag:
        raise ChangedError(f"{file.name}: is another file than when it was listed (its ETag is {etag[:80]})")
    whole = (start, end) == (0, file.size)
    if response.status_code == 200 and whole:
        return
    if response.status_code != 206:
        raise SourceError(
            f"{file.name}: the server does not give parts of files (status {response.status_code}); "
            "download the archive and name the file instead"
        )
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if match is None or int(match[1]) != start:
        raise SourceError(f"{file.name}: the server answers with another part than was asked for")
    if match[3] not in ("*", str(file.size)):
        raise ChangedError(f"{file.name}: has {int(match[3]):,} bytes, {file.size:,} when it was listed")


def _etag(response: Any) -> str:
    """Hash of the content: the Hub's own word, since a store behind it has another one of its own."""
    for answer in (*response.history, response):
        if linked := answer.headers.get("X-Linked-Etag"):
            return _bare(linked)
    return "" if response.history else _bare(response.headers.get("ETag", ""))


def _bare(etag: str) -> str:
    return etag.strip().removeprefix("W/").strip('"')


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
