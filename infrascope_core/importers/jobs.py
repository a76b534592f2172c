"""Jobs: which hosts and which times make a run, from `sacct`, from labels of series, or as somebody says.

What belongs here: text in, jobs out. Hosts and names are as the source spells them; `writing` makes names of runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from ipaddress import IPv6Address
from zoneinfo import ZoneInfo

from infrascope_core.errors import ImportSourceError

_MOST_HOSTS = 20_000
_JOB = re.compile(r"\d")
_NEVER = ("", "Unknown", "None")
_RUNNING = "have not ended yet, and are left for a later import"
_STEP = re.compile(r"\.")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SACCT_NEEDS = ("JobID", "NodeList", "Start", "End")
_AGE = re.compile(r"(\d{1,5})([hdw])")
_AGES = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SILENT = timedelta(minutes=5)
"""A series without samples for so long is over, as Prometheus has it."""
_PORT = re.compile(r":\d+\Z")
_BRACKETED = re.compile(r"\[(.+)\](?::\d+)?")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|.*:.*")


@dataclass(frozen=True)
class Job:
    """A stretch of time on some hosts.

    Attributes
    ----------
    start, end : datetime
        Naive UTC, both inclusive.
    hosts : tuple of str, optional
        Short host names; None where every host takes part.
    number : str, optional
        What the scheduler calls it.
    name : str, optional
        What its owner calls it.
    """

    start: datetime
    end: datetime
    hosts: tuple[str, ...] | None = None
    number: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return f"job {self.number}" if self.number else f"{self.start} to {self.end}"


@dataclass(frozen=True)
class Listing:
    """Jobs that were found, and sentences about those that cannot be imported."""

    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=65_536)
def host_name(text: str, full: bool = False) -> str:
    """A host by the value of a label: without port and, unless `full`, domain (`gpu01.cluster:9100` is gpu01).

    An address of IPv6 has hyphens for its colons, so that it can be part of a name: `[fd00::1]:9100` is fd00--1.
    """
    text = text.strip()
    bracketed = _BRACKETED.fullmatch(text)
    try:
        address = IPv6Address(bracketed[1] if bracketed else text).compressed
    except ValueError:
        host = _PORT.sub("", text)
        return host if full or _ADDRESS.fullmatch(host) else host.partition(".")[0] or host
    filled = f"{'0' * address.startswith(':')}{address}{'0' * address.endswith(':')}"
    return filled.replace(":", "-").replace("%", "-")


def moment(text: str, zone: tzinfo = UTC, now: datetime | None = None) -> datetime:
    """A time as naive UTC: ISO 8601, or seconds since 1970; one without an offset is of the given zone.

    Where it is known what time it is now (naive UTC), `12h`, `2d` or `1w` is a time so long ago.

    Raises
    ------
    ImportSourceError
        It is none.
    """
    text = text.strip()
    try:
        if now is not None and (age := _AGE.fullmatch(text)):
            return now - int(age[1]) * _AGES[age[2]]
        if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
            return datetime.fromtimestamp(float(text), UTC).replace(tzinfo=None)
        found = datetime.fromisoformat(text)
        aware = found if found.tzinfo else found.replace(tzinfo=zone)
        return aware.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ImportSourceError(f"expected a time as 2026-11-20T10:00:00, found {text[:60]!r}") from None


def time_zone(name: str) -> tzinfo:
    """A time zone by its name (`Europe/Berlin`).

    Raises
    ------
    ImportSourceError
        There is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ImportSourceError(f"{name[:60]!r}: no such time zone; expected one as Europe/Berlin") from None


def jobs_of_sacct(text: str, zone: tzinfo = UTC, now: datetime | None = None) -> Listing:
    """Jobs by the output of `sacct -P`, with at least the columns JobID, NodeList, Start and End.

    Steps (`123.batch`) are parts of their jobs and are left out. So are jobs that did not start, and those that have
    not ended: their run files would have to be made again. A job's name may hold anything, also what ends lines and
    separates columns: what is no line of a job is left out, and stops no other.

    Raises
    ------
    ImportSourceError
        A column is missing, or a time or host list cannot be read.
    """
    first, *lines = text.removeprefix("\ufeff").replace("\r", "").split("\n")
    header = first.split("|")
    missing = [name for name in _SACCT_NEEDS if name not in header]
    if missing:
        raise ImportSourceError(
            f"the output of sacct has no column {missing[0]}; expected that of "
            f"sacct -P --format={','.join((*_SACCT_NEEDS, 'JobName'))}"
        )
    jobs, left = [], Counter[str]()
    unreadable: list[int] = []
    for number, line in enumerate(lines, start=2):
        cells = _cells(line, header)
        if cells is None:
            unreadable += [number] * bool(line.strip())
        elif not _STEP.search(cells["JobID"]):
            try:
                found = _job(cells, zone, now)
            except ImportSourceError as error:
                raise ImportSourceError(f"line {number} of the output of sacct: {error}") from None
            if isinstance(found, Job):
                jobs.append(found)
            else:
                left[found] += 1
    notes = [f"{number} of the jobs in the output of sacct {why}" for why, number in left.items()]
    if unreadable:
        number = len(unreadable)
        notes.append(f"{number} lines of the output of sacct are no jobs, such as line {unreadable[0]}: left out")
    return Listing(tuple(sorted(jobs, key=lambda job: (job.start, job.number or ""))), tuple(notes))


def _cells(line: str, header: Sequence[str]) -> dict[str, str] | None:
    """A line by column; None if it is not one of a job."""
    # the name may hold the separator, and stands last in what the guide asks for
    cells = line.split("|", len(header) - 1) if header[-1] == "JobName" else line.split("|")
    if len(cells) != len(header) or not _JOB.match(cells[header.index("JobID")]):
        return None
    return dict(zip(header, cells, strict=True))


def _job(cells: Mapping[str, str], zone: tzinfo, now: datetime | None) -> Job | str:
    """A job, or why it is left out."""
    if cells["Start"] in _NEVER or cells["NodeList"] in ("", "None assigned"):
        return "never started"
    if cells["End"] in _NEVER:
        return _RUNNING
    start, end = moment(cells["Start"], zone), moment(cells["End"], zone)
    if now is not None and end > now:
        return _RUNNING
    if end <= start:
        return "have no length; if the clock was put back, let sacct write seconds (SLURM_TIME_FORMAT=%s)"
    return Job(start, end, expand_hosts(cells["NodeList"]), cells["JobID"], cells.get("JobName") or None)


def expand_hosts(text: str) -> tuple[str, ...]:
    """Hosts of a Slurm host list: `gpu[01-03,07],login1` are five.

    Raises
    ------
    ImportSourceError
        It cannot be read, or names more than 20,000 hosts.
    """
    hosts: list[str] = []
    for part in _parts(text):
        for host in _expanded(part):
            hosts.append(host)
            if len(hosts) > _MOST_HOSTS:
                raise ImportSourceError(f"the host list {text[:60]!r} names more than {_MOST_HOSTS:,} hosts")
    return tuple(dict.fromkeys(hosts))


def _parts(text: str) -> Iterator[str]:
    """The parts of a list at the commas that are in no brackets."""
    for part in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text):
        yield part.strip()
    if re.sub(r"\[[^\[\]]*\]", "", text).count("[") or re.sub(r"\[[^\[\]]*\]", "", text).count("]"):
        raise ImportSourceError(f"expected a host list as gpu[01-03,07], found {text[:60]!r}")


def _expanded(part: str) -> Iterator[str]:
    match = _BRACKET.search(part)
    if match is None:
        yield part
        return
    for piece in match[1].split(","):
        ends = _RANGE.fullmatch(piece.strip())
        if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
            raise ImportSourceError(f"expected a host list as gpu[01-03,07], found {part[:60]!r}")
        first, last = ends[1], ends[2] or ends[1]
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{part[: match.start()]}{number:0{len(first)}}{part[match.end() :]}")


def by_hand(start: datetime, end: datetime, hosts: Sequence[str] = ()) -> Listing:
    """One job, as somebody says: its times, and its hosts or all of them.

    Raises
    ------
    ImportSourceError
        It ends before it starts.
    """
    if end <= start:
        raise ImportSourceError(f"the end {end} is not after the start {start}")
    return Listing((Job(start, end, tuple(dict.fromkeys(hosts)) or None),))


def of_label(spans: Sequence[tuple[str, str, datetime, datetime]], gap: timedelta) -> Listing:
    """Jobs by a label of series: from the first to the last sample that bears it.

    Parameters
    ----------
    spans : sequence of (job, host, first, last)
        Where samples of a job were seen.
    gap : timedelta
        The sampling interval: a job lasts until just before the sample that no longer bears its number.
    """
    jobs: dict[str, Job] = {}
    for number, host, first, last in sorted(spans):
        known = jobs.get(number, Job(first, last + gap, (), number))
        jobs[number] = replace(
            known,
            start=min(known.start, first),
            end=max(known.end, last + gap),
            hosts=tuple(dict.fromkeys((*(known.hosts or ()), host))),
        )
    return Listing(tuple(sorted(jobs.values(), key=lambda job: (job.start, job.number or ""))))


def whole_jobs(listing: Listing, first: datetime, last: datetime) -> Listing:
    """Of jobs by a label, those that began and ended in the time that was looked at; the others may be longer."""
    running = [job for job in listing.jobs if job.end > last - _SILENT]
    before = [job for job in listing.jobs if job not in running and job.start < first + _SILENT]
    notes = []
    if running:
        notes.append(f"{len(running)} of the jobs had samples until just now, and are left until they have none")
    if before:
        notes.append(f"{len(before)} of the jobs may have begun before {first}, and are left out; say an earlier start")
    jobs = tuple(job for job in listing.jobs if job not in running and job not in before)
    return Listing(jobs, (*listing.notes, *notes))
