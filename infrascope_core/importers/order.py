"""What is to be imported: the options of `infrascope import`, from the command line or from a YAML file.

What belongs here: the models of an order, and which reader, mappings and jobs follow from it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from infrascope_core.errors import ImportSourceError, RunFileError
from infrascope_core.importers.dcgmi import samples_of_dcgmi
from infrascope_core.importers.importing import (
    Outcome,
    Plan,
    import_prometheus,
    import_samples,
    jobs_of_prometheus,
    jobs_of_samples,
)
from infrascope_core.importers.jobs import Listing, by_hand, expand_hosts, jobs_of_sacct, moment, time_zone, whole_jobs
from infrascope_core.importers.ldms import samples_of_ldms
from infrascope_core.importers.mapping import JobLabel, Mapping, Strict, known_mappings, load_mapping, unmapped
from infrascope_core.importers.nvidia_smi import samples_of_nvidia_smi
from infrascope_core.importers.openmetrics import samples_of_text
from infrascope_core.importers.prometheus import Api
from infrascope_core.importers.sadf import samples_of_sadf
from infrascope_core.importers.samples import Samples, between, together
from infrascope_core.importers.table import HOST, samples_of_table
from infrascope_core.importers.writing import Naming
from infrascope_core.reports.wording import count
from infrascope_core.run_files.content import is_packed, pieces, read_bounded, regular_file
from infrascope_core.section import fault_in_words, yaml_fault_in_words

TOKEN = "INFRASCOPE_PROMETHEUS_TOKEN"
"""Variable with a bearer token."""
_SETTLED = timedelta(minutes=1)
"""What was scraped so long ago is there to be read."""
_MOST_BYTES = 2**30
"""Largest file that is read, as for run files."""
_LARGEST_ORDER = 2**20
_EXPORTERS = ("node_exporter", "dcgm_exporter", "cgroup_exporter", "slurm_exporter")
"""Mappings of what Prometheus usually scrapes on a cluster."""
_USUAL = {
    "prometheus": _EXPORTERS,
    "openmetrics": _EXPORTERS,
    "sar": ("sadf",),
    "nvidia-smi": ("nvidia_smi",),
    "dcgm": ("dcgmi_dmon",),
    "ldms": ("ldms",),
    "table": (),
}
_HOST_LABELS = {"sar": "nodename", "table": HOST}


def _as_text(value: object) -> object:
    """YAML reads a time without quotes as a time."""
    return value.isoformat() if isinstance(value, date) else value


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_host_list(value: object) -> object:
    return ",".join(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value


def _as_lines(value: object) -> object:
    """Headers, as `Name: value` or as a mapping."""
    return [f"{name}: {text}" for name, text in value.items()] if isinstance(value, dict) else value


_Moment = Annotated[str | None, BeforeValidator(_as_text)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


@dataclass(frozen=True)
class Work:
    """An order that is being carried out.

    Attributes
    ----------
    outcomes : iterable of Outcome
        One per job and host; the work is done as they are taken.
    notes : tuple of str
        What was left out before.
    """

    outcomes: Iterable[Outcome]
    notes: tuple[str, ...] = ()


class Order(Strict):
    """What orders have in common, whatever they import from; the fields are the options of the commands."""

    start: _Moment = None
    end: _Moment = None
    sacct: Path | None = None
    job_label: str | None = None
    time_zone: str = "UTC"
    mapping: _Texts = ()
    model: str | None = None
    task: str = "Unknown"
    dataset: str = "default"
    phase: Literal["train", "infer"] = "train"
    host: str | None = None
    host_label: str | None = None
    full_names: bool = False

    source: str

    def plan(self, out: Path, *, again: bool = False, done: Set[str] = frozenset()) -> Plan:
        """What is made of the telemetry, with run files in a folder.

        Raises
        ------
        ImportSourceError
            A mapping cannot be used.
        """
        mappings = tuple(load_mapping(name) for name in self.mapping or _USUAL[self.source])
        naming = Naming(self.model, self.task, self.dataset, self.phase)
        label = _HOST_LABELS.get(self.source, self.host_label)
        return Plan(out, mappings, naming, self.host, label, self.full_names, again, frozenset(done))

    def tz(self) -> tzinfo:
        """The zone of times without an offset."""
        return UTC if self.time_zone == "UTC" else time_zone(self.time_zone)

    def moment(self, text: str | None, now: datetime | None = None) -> datetime | None:
        """A time as naive UTC; see `jobs.moment`."""
        return None if text is None else moment(text, self.tz(), now)

    def by_sacct(self, now: datetime, standing: bool) -> Listing | None:
        """Jobs that have ended by the output of sacct; None without such output."""
        if self.sacct is None:
            return None
        if self.job_label is not None:
            raise ImportSourceError("--sacct and --job-label both say what the jobs are; give one")
        text, zone = content_of(self.sacct).decode("utf-8", "replace"), self.tz()
        try:
            listing = jobs_of_sacct(text, zone, now - _SETTLED if standing else now)
        except ImportSourceError as error:
            raise ImportSourceError(f"{self.sacct}: {error}") from None
        if not listing.jobs and not standing:
            raise ImportSourceError("; ".join((f"{self.sacct}: holds no job that has ended", *listing.notes)))
        return listing

    def work(self, plan: Plan, now: datetime, *, standing: bool = False) -> Work:
        """Begin to carry it out.

        Parameters
        ----------
        plan : Plan
            As `plan` gives it.
        now : datetime
            Naive UTC.
        standing : bool
            It is carried out again and again: jobs that may still be running are left for a later time.

        Raises
        ------
        ImportSourceError
            What it names cannot be read, or nothing is there that it asks for.
        """
        raise NotImplementedError

    def read_from(self) -> list[Path]:
        """The files that it names, beside mappings."""
        return [self.sacct] if self.sacct else []


class ServerOrder(Order):
    """From Prometheus, or from what speaks its API."""

    source: Literal["prometheus"] = "prometheus"
    url: str
    hosts: Annotated[str | None, BeforeValidator(_as_host_list)] = None
    headers: Annotated[tuple[str, ...], BeforeValidator(_as_lines)] = ()
    token_file: Path | None = None
    timeout: float = Field(60.0, ge=1)

    def work(self, plan: Plan, now: datetime, *, standing: bool = False) -> Work:
        """Begin to carry it out; see `Order.work`."""
        api = Api(self.url, self._headers(), self.timeout)
        listing = self.by_sacct(now, standing) or self._by_time(api, plan, now, standing)
        return Work(import_prometheus(api, listing, plan), listing.notes)

    def _by_time(self, api: Api, plan: Plan, now: datetime, standing: bool) -> Listing:
        # jobs by a label have times of their own; a time that says itself what is a run must stay what it is
        first = self.moment(self.start, None if self.job_label is None else now)
        last = self.moment(self.end)
        if first is None:
            raise ImportSourceError("say which times to import: --sacct, or --start and --end")
        if self.job_label is not None:
            label, last = JobLabel(label=self.job_label), last or now
            found = jobs_of_prometheus(api, label, first, last, plan)
            return whole_jobs(found, first, min(last, now)) if standing else found
        if standing and last is None:
            raise ImportSourceError("say when the time to import ends: end, or name sacct or job_label")
        listing = by_hand(first, last or now, expand_hosts(self.hosts) if self.hosts else ())
        if standing and last is not None and last > now - _SETTLED:
            return Listing((), (f"the time until {last} is not over yet",))
        return listing

    def _headers(self) -> dict[str, str]:
        """Headers of requests, with the bearer token if there is one."""
        headers = {}
        for line in self.headers:
            name, colon, value = line.partition(":")
            if not colon or not name.strip() or not line.isprintable():
                raise ImportSourceError(f"{line[:60]!r}: expected a header as 'X-Scope-OrgID: lab'")
            headers[name.strip()] = value.strip()
        held = content_of(self.token_file).decode("utf-8", "replace") if self.token_file else os.environ.get(TOKEN, "")
        if token := held.strip():
            if not token.isprintable():
                raise ImportSourceError("the bearer token is not one line of text")
            headers["Authorization"] = f"Bearer {token}"
        return headers


class FilesOrder(Order):
    """From files of this machine, which are joined in time."""

    source: Literal["openmetrics", "sar", "nvidia-smi", "dcgm", "ldms", "table"]
    files: Annotated[tuple[Path, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    interval: float | None = Field(None, ge=0.001)

    @model_validator(mode="after")
    def _only_dcgm_counts(self) -> Self:
        if self.interval is not None and self.source != "dcgm":
            raise ValueError("interval is for logs without times, which only dcgm has")
        return self

    def work(self, plan: Plan, now: datetime, *, standing: bool = False) -> Work:
        """Begin to carry it out; see `Order.work`."""
        listing = self.by_sacct(now, standing)
        samples = together(self._samples(path, plan.mappings) for path in self.paths())
        # where lines have no times, the start is theirs
        start = None if self.interval else self.start
        samples = between(samples, self.moment(start), self.moment(self.end))
        if listing is None and self.job_label is not None:
            listing = jobs_of_samples(samples, JobLabel(label=self.job_label), plan)
        notes = [*(listing or Listing(())).notes]
        read = [samples.series[number] for number in samples.values["series"].unique()]
        if names := unmapped(read, plan.mappings):
            notes.append(f"{count(len(names), 'name')} in no rule of the mapping, such as {', '.join(names[:3])}")
        return Work(import_samples(samples, listing, plan), tuple(notes))

    def read_from(self) -> list[Path]:
        """The files that it names, beside mappings."""
        return [*self.paths(), *super().read_from()]

    def paths(self) -> list[Path]:
        """The files, each once; what is no file is looked up as a pattern of the shell."""
        found = (([path] if os.path.lexists(path) else _fitting(path)) or [path] for path in self.files)
        return [*dict.fromkeys(path for paths in found for path in paths)]

    def _samples(self, path: Path, mappings: Sequence[Mapping]) -> Samples:
        content, zone = content_of(path), self.tz()
        match self.source:
            case "openmetrics":
                return samples_of_text(path, content)
            case "sar":
                return samples_of_sadf(path, content, zone)
            case "nvidia-smi":
                return samples_of_nvidia_smi(path, content, zone)
            case "dcgm":
                return samples_of_dcgmi(path, content, zone, self.moment(self.start), self.interval)
            case "ldms":
                beside = path.with_name(f"{path.name}.HEADER")
                header = content_of(beside).decode("utf-8", "replace") if beside.is_file() else None
                return samples_of_ldms(path, content, header)
            case "table":
                shape = next((mapping.table for mapping in mappings), None)
                if shape is None:
                    raise ImportSourceError(
                        f"{', '.join(self.mapping) or 'the mapping'}: has no section `table`, which says which column "
                        "holds what"
                    )
                return samples_of_table(path, content, shape, zone)


def _fitting(pattern: Path) -> list[Path]:
    return sorted(map(Path, glob.glob(str(pattern))))  # noqa: PTH207 - the folder may be part of the pattern


def load_order(path: Path) -> ServerOrder | FilesOrder:
    """What a YAML file says is to be imported; paths in it begin in its folder.

    Raises
    ------
    ImportSourceError
        It cannot be read, or is no such file; names the field.
    """
    try:
        with regular_file(path) as stream:
            content = yaml.safe_load(read_bounded(path, stream, _LARGEST_ORDER))
    except RunFileError as error:
        raise ImportSourceError(str(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ImportSourceError(f"{path}: cannot be read as YAML ({yaml_fault_in_words(error)})") from None
    try:
        return _beside(order_of(content), path.parent)
    except ImportSourceError as error:
        raise ImportSourceError(f"{path}: {error}") from None


def order_of(options: object) -> ServerOrder | FilesOrder:
    """An order by its fields.

    Raises
    ------
    ImportSourceError
        One is missing, unknown, or not what it should be.
    """
    source = options.get("source") if isinstance(options, dict) else None
    if not isinstance(source, str) or source not in _USUAL:
        found = "nothing" if source is None else repr(source)[:60] if isinstance(source, str) else "something else"
        raise ImportSourceError(f"source: expected one of {', '.join(_USUAL)}, found {found}")
    model = ServerOrder if source == "prometheus" else FilesOrder
    try:
        return model.model_validate(options)
    except ValidationError as error:
        raise ImportSourceError(fault_in_words(model, error)) from None


def _beside(order: ServerOrder | FilesOrder, folder: Path) -> ServerOrder | FilesOrder:
    """The same order with paths that begin in a folder."""
    paths: dict[str, object] = {
        "mapping": tuple(name if name in known_mappings() else str(folder / name) for name in order.mapping),
        "sacct": order.sacct and folder / order.sacct,
    }
    if isinstance(order, ServerOrder):
        paths["token_file"] = order.token_file and folder / order.token_file
    else:
        paths["files"] = tuple(folder / path for path in order.files)
    return order.model_copy(update=paths)


def content_of(path: Path) -> bytes:
    """A file's bytes, unpacked if its name ends in .gz.

    Raises
    ------
    ImportSourceError
        It cannot be read, or is too large.
    """
    try:
        with regular_file(path) as stream:
            if is_packed(path):
                return b"".join(pieces(path, stream, _MOST_BYTES))
            return read_bounded(path, stream, _MOST_BYTES)
    except RunFileError as error:
        raise ImportSourceError(str(error)) from None
