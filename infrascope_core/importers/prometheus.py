"""Prometheus and what speaks its HTTP API (Thanos, Mimir, VictoriaMetrics): series and raw samples over time.

What belongs here: requests, retries, and asking for less where a server limits samples. Raw samples are those of an
instant query for a range vector (`name[6h]`); a range query would give values on a grid of its own
(https://prometheus.io/docs/prometheus/latest/querying/api/).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import requests

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.matrix import NotAnAnswerError, samples_of_matrix, series_of_answer
from infrascope_core.importers.samples import Samples, Series, together

_ATTEMPTS = 4
_BACKOFF_S = 0.5
_LONGEST_WAIT_S = 30.0
"""A server that asks for a longer pause (Retry-After) is asked again after this one."""
_CONNECT_S = 10.0
_PASSING = (429, 500, 502, 503, 504)
"""States that may pass."""
_FORM_IS_LOST = (301, 302, 303)
"""Redirections after which the address is asked without what was posted."""
_MOST_BYTES = 256 * 2**20
_PIECE = 2**20
_TOO_MUCH = re.compile(r"too many|limit|exceed|maximum|timed? ?out|memory", re.IGNORECASE)
"""What servers say when a query asks for too much; each words it differently."""
_LEAST = timedelta(seconds=5)
_MOST_SAMPLES = 500_000
_USUAL_INTERVAL_S = 15.0
_LONGEST_CHUNK = timedelta(hours=6)
_SHORTEST_CHUNK = timedelta(minutes=5)
_CONNECTIONS = 4

_T = TypeVar("_T")


class _TooMuchError(Exception):
    """The server will not, or cannot, answer this much at once."""


@dataclass(frozen=True)
class Api:
    """A server.

    Attributes
    ----------
    url : str
        With the path under which `/api/v1` lies; user and password may stand in it.
    headers : dict
        Sent with every request, for example `Authorization` or `X-Scope-OrgID`.
    timeout_s : float
        Longest time of one request.
    wait : callable
        Called with the seconds between two attempts.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 60.0
    wait: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ImportSourceError(f"{self.url[:100]!r}: expected an address as http://prometheus:9090")

    @property
    def shown(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def find_series(
    api: Api, names: Sequence[str], start: datetime, end: datetime, label: str | None = None
) -> list[Series]:
    """The series that have samples between two times (naive UTC).

    A server that limits series is asked for those of some names, and then of the others.

    Parameters
    ----------
    api : Api
        Whom to ask.
    names : sequence of str
        Regular expressions (RE2) of whole names.
    start, end : datetime
        When.
    label : str, optional
        Only series with this label.

    Raises
    ------
    ImportSourceError
        The server cannot be asked, or says why not.
    """
    matchers = [f"__name__=~{quote('|'.join(names))}", *([f"{label}!={quote('')}"] if label else [])]
    form = {"match[]": f"{{{','.join(matchers)}}}", "start": _seconds(start), "end": _seconds(end)}
    try:
        return _ask(api, "series", form, series_of_answer)
    except _TooMuchError as error:
        if len(names) < 2:
            raise ImportSourceError(f"{api.shown}: has too many series to list ({error})") from None
    half = len(names) // 2
    parts = (find_series(api, part, start, end, label) for part in (names[:half], names[half:]))
    return [*dict.fromkeys(one for part in parts for one in part)]


def read_samples(api: Api, selector: str, start: datetime, end: datetime, series: int) -> Samples:
    """Raw samples of a selector between two times (naive UTC, both inclusive), in several requests.

    Parameters
    ----------
    api : Api
        Whom to ask.
    selector : str
        Of an instant vector.
    start, end : datetime
        When.
    series : int
        About how many series there are, from which the length of a request follows.

    Raises
    ------
    ImportSourceError
        The server cannot be asked, or says why not, or limits samples to less than seconds of them.
    """
    length = timedelta(seconds=_MOST_SAMPLES / max(series, 1) * _USUAL_INTERVAL_S)
    length = min(max(length, _SHORTEST_CHUNK), _LONGEST_CHUNK)
    number = max(1, -((start - end) // length))
    bounds = [start + i * length for i in range(number)] + [end]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        asked = [pool.submit(_chunk, api, selector, *chunk) for chunk in pairwise(bounds)]
        try:
            return together(one.result() for one in asked)
        except BaseException:
            for one in asked:
                one.cancel()
            raise


def selector_of(names: Iterable[str], *matchers: tuple[str, Sequence[str]]) -> str:
    """A selector of series by exact names and, for each further label, exact values.

    `{__name__=~"a|b", instance=~"h1:9100"}`; any character may occur in them.
    """
    parts = [("__name__", sorted(names)), *((label, sorted(values)) for label, values in matchers)]
    quoted = [f"{label}=~{quote('|'.join(map(re.escape, values)))}" for label, values in parts]
    return "{" + ",".join(quoted) + "}"


def quote(text: str) -> str:
    """A string literal of PromQL, whose escapes are those of Go and, for these characters, of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _chunk(api: Api, selector: str, start: datetime, end: datetime) -> Samples:
    """Samples of one chunk; of its halves, if it is too much for the server."""
    # a millisecond more: a range excludes its beginning from Prometheus 3 on
    length_ms = round((end - start) / timedelta(milliseconds=1)) + 1
    form = {"query": f"{selector}[{length_ms}ms]", "time": _seconds(end)}
    try:
        return _ask(api, "query", form, samples_of_matrix)
    except _TooMuchError as error:
        if end - start < 2 * _LEAST:
            asked_for = f"{(end - start).total_seconds():.3g} s of the samples of a host"
            raise ImportSourceError(f"{api.shown}: refuses even {asked_for} ({error})") from None
    middle = start + (end - start) / 2
    middle = middle.replace(microsecond=middle.microsecond // 1000 * 1000)
    return together([_chunk(api, selector, start, middle), _chunk(api, selector, middle, end)])


def _ask(api: Api, path: str, form: dict[str, str], parse: Callable[[bytes], _T]) -> _T:
    """Post a form, as often as it takes, and parse the answer."""
    url = f"{api.url.rstrip('/')}/api/v1/{path}"
    reason = ""
    for pause in _pauses():
        if pause:
            api.wait(pause)
        try:
            status, headers, body = _post(api, url, form)
        except requests.RequestException as error:
            reason = _in_words(error)
            continue
        said = _error_of(body)
        if status == 413 or (status in (400, 422, 503) and _TOO_MUCH.search(said)):
            raise _TooMuchError(said or f"HTTP {status}")
        if status in _PASSING:
            reason = f"HTTP {status}{f', {said}' if said else ''}"
            api.wait(_asked_to_wait(headers))
            continue
        if status in _FORM_IS_LOST:
            place = urlsplit(headers.get("Location", ""))
            shown = urlunsplit(place._replace(netloc=place.netloc.rpartition("@")[2], query="", fragment=""))[:200]
            raise ImportSourceError(f"{api.shown}: sends requests on to {shown!r}; give the address that they end at")
        if status in (401, 403):
            raise ImportSourceError(f"{api.shown}: refuses access (HTTP {status}); give --token-file or --header")
        if status != 200:
            raise ImportSourceError(f"{api.shown}: answers HTTP {status}{f' ({said})' if said else ''}")
        try:
            return parse(body)
        except NotAnAnswerError:
            raise ImportSourceError(f"{api.shown}: answers something else than the API of Prometheus") from None
    raise ImportSourceError(f"{api.shown}: does not answer after {_ATTEMPTS} attempts ({reason})")


def _pauses() -> Iterator[float]:
    """Seconds before each attempt."""
    return (0.0 if attempt == 0 else _BACKOFF_S * 2**attempt for attempt in range(_ATTEMPTS))


def _asked_to_wait(headers: requests.structures.CaseInsensitiveDict[str]) -> float:
    """Seconds that the server asks for, within reason; 0 where it does not."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT_S) if text.isdecimal() else 0.0


def _post(api: Api, url: str, form: dict[str, str]) -> tuple[int, requests.structures.CaseInsensitiveDict[str], bytes]:
    """One request: status, headers and body; a body that trickles or never ends is given up."""
    deadline = time.monotonic() + api.timeout_s
    timeouts = (min(_CONNECT_S, api.timeout_s), api.timeout_s)
    with requests.post(url, data=form, headers=api.headers, timeout=timeouts, stream=True) as response:
        for sent_on in response.history:
            if sent_on.status_code in _FORM_IS_LOST:
                return sent_on.status_code, sent_on.headers, b""
        pieces, size = [], 0
        for piece in response.iter_content(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise _TooMuchError(f"an answer of more than {_MOST_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise requests.ReadTimeout
        return response.status_code, response.headers, b"".join(pieces)


def _error_of(body: bytes) -> str:
    """What the server says is wrong, on one line; empty if it says nothing."""
    try:
        said = json.loads(body).get("error", "") if body[:1] == b"{" and len(body) < _PIECE else ""
    except (ValueError, AttributeError, RecursionError):
        return ""
    return " ".join(str(said).split())[:200]


def _in_words(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate cannot be verified"
    if isinstance(error, requests.ConnectionError):
        return "the connection was refused or cut"
    return type(error).__name__


def _seconds(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=UTC).timestamp():.3f}"
