"""From samples and jobs to run files: one for each job and host.

What belongs here: which series are of which host, what is done already, and the order of the work. Everything else is
in the modules that this one calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.jobs import Job, Listing, host_name, of_label
from infrascope_core.importers.joining import join
from infrascope_core.importers.mapping import JobLabel, Mapping, job_of, lacking, source_patterns, targets
from infrascope_core.importers.prometheus import Api, find_series, quote, read_samples, selector_of
from infrascope_core.importers.samples import Samples, Series, together
from infrascope_core.importers.writing import Naming, run_path, word, write_run_file
from infrascope_core.reports.wording import count
from infrascope_core.run_files.name import run_key

_MOST_COLUMNS = 19_999
"""Metrics of a run file, beside the time (setting `reader.max_columns`)."""


class NoSamplesError(ImportSourceError):
    """A source can be read, and holds nothing of what was asked for."""


@dataclass(frozen=True)
class Plan:
    """What is made of telemetry, wherever it comes from.

    Attributes
    ----------
    out : Path
        Folder of the run files.
    mappings : tuple of Mapping
        What series become; a series follows the first that fits.
    naming : Naming
        What names of run files say.
    host : str, optional
        The host of series that name none.
    host_label : str, optional
        The label that names hosts where a series has it, before those of the mappings.
    full_names : bool
        Keep the domains of hosts.
    again : bool
        Make run files that are there already once more.
    done : frozenset of str
        Run keys of which no run file is made if none is there: it was read and put away, or there were no samples.
    """

    out: Path
    mappings: tuple[Mapping, ...]
    naming: Naming = field(default_factory=Naming)
    host: str | None = None
    host_label: str | None = None
    full_names: bool = False
    again: bool = False
    done: frozenset[str] = frozenset()

    def is_done(self, path: Path) -> bool:
        """Whether nothing is to be made of a job and host, by its run file."""
        known = run_key(path) in self.done
        return known and not path.is_file() if self.again else known or path.is_file()

    def host_of(self, series: Series) -> str | None:
        """The host that a series is of, as names of run files have it; None where nothing says so."""
        label = self.host_label_of(series)
        named = series.label[label] if label else self.host
        return self.host_word(named) if named else None

    def host_word(self, named: str) -> str:
        """A host by what a label or a scheduler calls it."""
        return word(host_name(named, self.full_names))

    def host_label_of(self, series: Series) -> str | None:
        """The label of a series that names its host."""
        candidates = (self.host_label, *self._labels(series)) if self.host_label else self._labels(series)
        return next((label for label in candidates if series.label.get(label)), None)

    def _labels(self, series: Series) -> tuple[str, ...]:
        for mapping in self.mappings:
            if mapping.fitting(series) is not None:
                return mapping.host or tuple(label for other in self.mappings for label in other.host)
        return ()


@dataclass(frozen=True)
class Outcome:
    """What became of a job on a host.

    Attributes
    ----------
    path : Path
        Its run file.
    status : str
        `written`, `kept` (it was there), `empty` (there are no samples of it) or `double` (another job of that name
        began on the host in the same second, and has the run file's name).
    samples, metrics : int
        Rows and columns that were written.
    interval_s : float or None
        Median time between rows.
    notes : tuple of str
        What was left out.
    end : datetime, optional
        Of a job without samples: when it ended, naive UTC.
    """

    path: Path
    status: str
    samples: int = 0
    metrics: int = 0
    interval_s: float | None = None
    notes: tuple[str, ...] = ()
    end: datetime | None = None


def remarks(outcomes: Iterable[Outcome]) -> list[str]:
    """What a person should know of what became of jobs: a sentence each."""
    number = Counter(outcome.status for outcome in outcomes)
    said = []
    if number["double"]:
        said.append(
            f"{count(number['double'], 'job')} left out: another of its name began on the host in the same second"
        )
    if number["empty"]:
        said.append(f"of {count(number['empty'], 'job')} on a host there are no samples")
    return said


def import_samples(samples: Samples, listing: Listing | None, plan: Plan) -> Iterator[Outcome]:
    """Make run files of samples that lie in memory.

    Parameters
    ----------
    samples : Samples
        Of one host or several.
    listing : Listing, optional
        The jobs; by default, everything that a host has is one.
    plan : Plan
        What is made of them.

    Raises
    ------
    NoSamplesError
        No series says which host it is of, none is of a job's host, or no rule fits any.
    """
    by_host = _by_host(samples.series, plan)
    if not by_host:
        raise NoSamplesError(_nothing_of(samples.series, plan))
    if listing is not None:
        _check_hosts(listing.jobs, [*by_host], plan)
    for host, numbers in sorted(by_host.items()):
        own = samples.only(numbers)
        for job, path, status in _tasks(listing.jobs if listing is not None else _all_of(own), host, plan):
            yield Outcome(path, status) if status else _made(own, job, host, path, plan, series=own.series)


def jobs_of_samples(samples: Samples, label: JobLabel, plan: Plan) -> Listing:
    """Jobs by a label of series.

    Raises
    ------
    ImportSourceError
        No series has the label.
    """
    about = []
    for number, one in enumerate(samples.series):
        if (job := job_of(one, label)) and (host := plan.host_of(one)):
            about.append((number, job, host))
    if not about:
        raise NoSamplesError(f"no series has a label {label.label!r} that names a job")
    spans = (
        samples.only([number for number, *_ in about])
        .values.group_by("series")
        .agg(first=pl.col("ts").min(), last=pl.col("ts").max(), gap=pl.col("ts").sort().diff().median())
    )
    gap = spans["gap"].median()
    found = [(*about[number][1:], first, last) for number, first, last in spans.drop("gap").iter_rows()]
    # just short of the next sample, which is no longer the job's
    return of_label(found, gap * 0.99 if isinstance(gap, timedelta) else timedelta(0))


def jobs_of_prometheus(api: Api, label: JobLabel, start: datetime, end: datetime, plan: Plan) -> Listing:
    """Jobs by a label of series of a server: raw samples of one metric, the one that tells of most jobs.

    Raises
    ------
    ImportSourceError
        No series has the label, or the server cannot be asked.
    """
    found = find_series(api, source_patterns(plan.mappings), start, end, label.label)
    series = [one for one in found if job_of(one, label) and plan.host_of(one)]
    if not series:
        raise NoSamplesError(f"{api.shown}: no series has a label {label.label!r} that names a job and a host")
    told: dict[str, set[tuple[str | None, str | None]]] = {}
    number: dict[str, int] = {}
    for one in series:
        told.setdefault(one.name, set()).add((job_of(one, label), plan.host_of(one)))
        number[one.name] = number.get(one.name, 0) + 1
    best = max(told, key=lambda name: (len(told[name]), -number[name], name))
    chosen = f"{{__name__={quote(best)},{label.label}!={quote('')}}}"
    return jobs_of_samples(read_samples(api, chosen, start, end, number[best]), label, plan)


def import_prometheus(api: Api, listing: Listing, plan: Plan) -> Iterator[Outcome]:
    """Make run files of what a server holds about jobs, host after host; run files that are there stay.

    Raises
    ------
    NoSamplesError
        The server has no series that a rule fits, none that says which host it is of, or none of a job's host.
    ImportSourceError
        The server cannot be asked.
    """
    jobs, taken = [], set()
    for job in listing.jobs:
        # of a job whose hosts are known, it is known without a request whether there is anything to be done
        paths = [run_path(plan.out, job, host, plan.naming) for host in _hosts_of(job, plan)]
        if paths and all(map(plan.is_done, paths)):
            yield from (Outcome(path, "double" if path in taken else "kept") for path in paths)
            taken.update(paths)
        else:
            jobs.append(job)
    if not jobs:
        return
    first, last = min(job.start for job in jobs), max(job.end for job in jobs)
    series = find_series(api, source_patterns(plan.mappings), first, last)
    by_host = {host: [series[n] for n in numbers] for host, numbers in _by_host(series, plan).items()}
    for host in sorted({*by_host, *(host for job in jobs for host in _hosts_of(job, plan))}):
        for job, path, status in _tasks(jobs, host, plan):
            if status or host not in by_host:
                yield Outcome(path, status) if status else Outcome(path, "empty", end=job.end)
            else:
                samples = _read_host(api, by_host[host], job, plan)
                yield _made(samples, job, host, path, plan, series=by_host[host])
    if not series:
        raise NoSamplesError(f"{api.shown}: has no series between {first} and {last} that the mapping knows")
    if not by_host:
        raise NoSamplesError(_nothing_of(series, plan))
    _check_hosts(jobs, [*by_host], plan)


def _check_hosts(jobs: Sequence[Job], known: Sequence[str], plan: Plan) -> None:
    """Complain if no job is on a host that there are samples of: it is called something else there."""
    wanted = sorted({host for job in jobs for host in _hosts_of(job, plan)})
    if wanted and all(job.hosts for job in jobs) and not {*wanted} & {*known}:
        raise NoSamplesError(
            f"none of the jobs' {count(len(wanted), 'host')} ({_some(wanted)}) is one of the {len(known):,} with "
            f"samples ({_some(sorted(known))}); --host-label says which label names them"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])


def _domains(series: Iterable[Series], plan: Plan) -> list[str]:
    """A sentence if series of hosts with different domains are taken for one host's."""
    named = {one.label[label] if (label := plan.host_label_of(one)) else plan.host or "" for one in series}
    full = {host_name(name, True): host_name(name, plan.full_names) for name in named}
    apart = sorted(name for name, short in full.items() if name != short)
    return [f"{_some(apart)} are taken for one host; --full-names tells them apart"] if len(apart) > 1 else []


def _hosts_of(job: Job, plan: Plan) -> list[str]:
    """The hosts of a job, as names of run files have them; none where all take part."""
    return [*dict.fromkeys(map(plan.host_word, job.hosts or ()))]


def _read_host(api: Api, series: Sequence[Series], job: Job, plan: Plan) -> Samples:
    """Samples of the series of a host in the time of a job: a request for each label that names hosts."""
    # what the mapping leaves out, and other jobs' series, need not travel
    wanted = {series[target.series] for target in targets(series, plan.mappings, job.number)}
    by_label: dict[str, list[Series]] = {}
    for one in series:
        if one in wanted and (label := plan.host_label_of(one)):
            by_label.setdefault(label, []).append(one)
    parts = []
    for label, of in sorted(by_label.items()):
        selector = selector_of({one.name for one in of}, (label, sorted({one.label[label] for one in of})))
        parts.append(read_samples(api, selector, job.start, job.end, len(of)))
    return together(parts)


def _made(samples: Samples, job: Job, host: str, path: Path, plan: Plan, *, series: Sequence[Series]) -> Outcome:
    """The run file of a job and host, of whose series the samples are; `series` are all that the host has."""
    joined = join(samples, targets(samples.series, plan.mappings, job.number), job.start, job.end)
    notes = (*joined.notes, *lacking(series, plan.mappings), *_domains(series, plan))
    metrics = joined.rows.width - 1
    if not joined.rows.height or not metrics:
        return Outcome(path, "empty", notes=notes, end=job.end)
    if metrics > _MOST_COLUMNS:
        raise ImportSourceError(
            f"{host} has {metrics:,} metrics, and a run file at most {_MOST_COLUMNS:,}; leave some out with a mapping "
            "of your own (column: [])"
        )
    write_run_file(path, joined, host)
    return Outcome(path, "written", joined.rows.height, metrics, joined.interval_s, notes)


def _by_host(series: Iterable[Series], plan: Plan) -> dict[str, list[int]]:
    """Series that a rule fits, by host."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(series):
        if any(mapping.fitting(one) is not None for mapping in plan.mappings) and (host := plan.host_of(one)):
            found.setdefault(host, []).append(number)
    return found


def _all_of(samples: Samples) -> list[Job]:
    """One job from the first to the last sample."""
    first, last = samples.values["ts"].min(), samples.values["ts"].max()
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return []
    return [Job(first.replace(microsecond=0), last)]


def _tasks(jobs: Iterable[Job], host: str, plan: Plan) -> Iterator[tuple[Job, Path, str]]:
    """Jobs that a host took part in, each with its run file and, where nothing is to be done, the reason."""
    taken: set[Path] = set()
    for job in jobs:
        if job.hosts is None or host in _hosts_of(job, plan):
            path = run_path(plan.out, job, host, plan.naming)
            status = "double" if path in taken else "kept" if plan.is_done(path) else ""
            taken.add(path)
            yield job, path, status


def _nothing_of(series: Sequence[Series], plan: Plan) -> str:
    """Why no host was found."""
    if not series:
        return "there are no samples"
    fitting = [one for one in series if any(mapping.fitting(one) is not None for mapping in plan.mappings)]
    if not fitting:
        names = sorted({one.name for one in series})
        return f"no rule of the mapping fits any of {len(names):,} names, such as {names[0][:60]!r}"
    labels = ", ".join(sorted(fitting[0].label))[:200] or "none"
    return f"nothing says which host {fitting[0].name[:60]!r} is of; give --host or --host-label (its labels: {labels})"
