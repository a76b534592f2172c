"""`infrascope import`: other people's telemetry as run files.

What belongs here: arguments of the sources, and the lines about what was written. The work is in `importers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, Unpack

import typer
from rich.console import Console
from rich.text import Text

from infrascope_core.cli.console import DebugOption, complain, one_sentence
from infrascope_core.errors import ImportSourceError, RunFileError
from infrascope_core.reports.wording import count, printable

if TYPE_CHECKING:  # for a fast `--help`
    from infrascope_core.importers.importing import Outcome, Plan
    from infrascope_core.importers.jobs import Listing
    from infrascope_core.importers.mapping import JobLabel
    from infrascope_core.importers.samples import Samples
    from infrascope_core.importers.writing import Naming

_MOST_BYTES = 2**30
"""Largest file that is read, as for run files."""
_MOST_NOTES = 5
_TOKEN = "INFRASCOPE_PROMETHEUS_TOKEN"
_EXPORTERS = ("node_exporter", "dcgm_exporter", "cgroup_exporter", "slurm_exporter")
"""Mappings of what Prometheus usually scrapes on a cluster."""

Files = Annotated[list[Path], typer.Argument(help="Files; those of one host are joined in time.")]
Out = Annotated[Path, typer.Option(help="Folder for the run files.")]
Model = Annotated[str | None, typer.Option(help="Model, for the files' names; by default the job's name.")]
Task = Annotated[str, typer.Option(help="Task, for the files' names; begins with a capital.")]
DatasetOption = Annotated[str, typer.Option(help="Dataset, for the files' names.")]
Phase = Annotated[Literal["train", "infer"], typer.Option(help="What the jobs do.")]
Start = Annotated[
    str | None, typer.Option(help="Begin, as 2026-11-20T10:00:00 (UTC unless --time-zone says otherwise).")
]
End = Annotated[str | None, typer.Option(help="End, in the same form.")]
Sacct = Annotated[Path | None, typer.Option(help="Output of sacct -P: a run for each job and host.")]
JobLabelOption = Annotated[
    str | None,
    typer.Option("--job-label", help="Label that holds a job's number, such as hpc_job: a run for each job."),
]
Zone = Annotated[str, typer.Option("--time-zone", help="Zone of times without an offset, as Europe/Berlin.")]
HostOption = Annotated[str | None, typer.Option(help="Host, where the files do not name it.")]
HostLabel = Annotated[str | None, typer.Option("--host-label", help="Label that names the host.")]
FullNames = Annotated[bool, typer.Option("--full-names", help="Keep the domains of hosts: gpu01.cluster is not gpu01.")]
MappingOption = Annotated[
    list[str] | None, typer.Option(help="Mapping by name or path, several times; a series follows the first that fits.")
]
Again = Annotated[bool, typer.Option("--again", help="Make run files that are there already once more.")]


class _How(TypedDict, total=False):
    """What of a plan a source may leave as it usually is."""

    naming: Naming
    host: str | None
    host_label: str | None
    full_names: bool
    again: bool


@dataclass(frozen=True)
class _Times:
    """How jobs are found."""

    start: str | None = None
    end: str | None = None
    sacct: Path | None = None
    job_label: str | None = None
    zone: str = "UTC"

    def tz(self) -> tzinfo:
        from infrascope_core.importers.jobs import time_zone  # noqa: PLC0415

        return UTC if self.zone == "UTC" else time_zone(self.zone)

    def moment(self, text: str | None) -> datetime | None:
        from infrascope_core.importers.jobs import moment  # noqa: PLC0415

        return None if text is None else moment(text, self.tz())


def import_app() -> typer.Typer:
    """The command `import` with a command for each source."""
    app = typer.Typer(
        help="Make run files of other people's telemetry: one for each job and host (docs/importing.md).",
        no_args_is_help=True,
    )
    app.command("prometheus")(prometheus)
    app.command("openmetrics")(openmetrics)
    app.command("sar")(sar)
    app.command("nvidia-smi")(nvidia_smi)
    app.command("dcgm")(dcgm)
    app.command("ldms")(ldms)
    app.command("table")(table)
    return app


def prometheus(
    url: Annotated[str, typer.Argument(help="Address of the server, as http://prometheus:9090.")],
    out: Out,
    hosts: Annotated[str | None, typer.Option(help="Hosts, as gpu[01-04],login1; by default all.")] = None,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    job_label: JobLabelOption = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    host_label: HostLabel = None,
    full_names: FullNames = False,
    header: Annotated[list[str] | None, typer.Option(help="Sent with every request, as 'X-Scope-OrgID: lab'.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with a bearer token; or the variable {_TOKEN}.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Longest time of a request, in seconds.")] = 60.0,
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """Raw samples of Prometheus, or of what speaks its API (Thanos, Mimir, VictoriaMetrics).

    Jobs come from --sacct, from --job-label with --start and --end, or are --start, --end and --hosts. Run files that
    are there already are kept: a call that was cut off continues.

    Example: infrascope import prometheus http://localhost:9090 --sacct jobs.txt --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.importing import import_prometheus, jobs_of_prometheus  # noqa: PLC0415
        from infrascope_core.importers.jobs import by_hand, expand_hosts  # noqa: PLC0415
        from infrascope_core.importers.prometheus import Api  # noqa: PLC0415

        plan = _plan(
            out,
            mapping or _EXPORTERS,
            naming=_naming(model, task, dataset, phase),
            host_label=host_label,
            full_names=full_names,
            again=again,
        )
        api = Api(url, _headers(header, token_file), timeout)
        times = _Times(start, end, sacct, job_label, time_zone)
        listing = _listing(times)
        if listing is None:
            first, last = times.moment(start), times.moment(end) or datetime.now(UTC).replace(tzinfo=None)
            if first is None:
                raise ImportSourceError("say which times to import: --sacct, or --start and --end")
            if job_label is not None:
                listing = jobs_of_prometheus(api, _job_label(job_label), first, last, plan)
            else:
                listing = by_hand(first, last, expand_hosts(hosts) if hosts else ())
        _show(import_prometheus(api, listing, plan), listing.notes, plan)


def openmetrics(
    files: Files,
    out: Out,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    job_label: JobLabelOption = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    host: HostOption = None,
    host_label: HostLabel = None,
    full_names: FullNames = False,
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """OpenMetrics or Prometheus text with times, as promtool tsdb dump-openmetrics writes it.

    Example: infrascope import openmetrics dump.om --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.openmetrics import samples_of_text  # noqa: PLC0415

        plan = _plan(
            out,
            mapping or _EXPORTERS,
            naming=_naming(model, task, dataset, phase),
            host=host,
            host_label=host_label,
            full_names=full_names,
            again=again,
        )
        times = _Times(start, end, sacct, job_label, time_zone)
        _import_files((samples_of_text(path, _content(path)) for path in files), times, plan)


def sar(
    files: Files,
    out: Out,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    full_names: FullNames = False,
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """What sysstat recorded, as sadf -j writes it.

    Example: sadf -j /var/log/sysstat/sa20 -- -A > sa20.json; infrascope import sar sa20.json --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.sadf import samples_of_sadf  # noqa: PLC0415

        plan = _plan(
            out,
            mapping or ["sadf"],
            naming=_naming(model, task, dataset, phase),
            host_label="nodename",
            full_names=full_names,
            again=again,
        )
        times = _Times(start, end, sacct, None, time_zone)
        _import_files((samples_of_sadf(path, _content(path), times.tz()) for path in files), times, plan)


def nvidia_smi(
    files: Files,
    out: Out,
    host: HostOption = None,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """Logs of nvidia-smi --query-gpu=timestamp,index,... --format=csv -l 1, of one host.

    Example: infrascope import nvidia-smi gpu01.csv --host gpu01 --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.nvidia_smi import samples_of_nvidia_smi  # noqa: PLC0415

        plan = _plan(
            out, mapping or ["nvidia_smi"], naming=_naming(model, task, dataset, phase), host=host, again=again
        )
        times = _Times(start, end, sacct, None, time_zone)
        _import_files((samples_of_nvidia_smi(path, _content(path), times.tz()) for path in files), times, plan)


def dcgm(
    files: Files,
    out: Out,
    host: HostOption = None,
    start: Start = None,
    end: End = None,
    interval: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds between samples, where lines have no times.")
    ] = None,
    sacct: Sacct = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """Logs of dcgmi dmon, of one host; with times in front of the lines, or --start and --interval.

    Example: infrascope import dcgm dmon.log --host gpu01 --start 2026-11-20T10:00:00 --interval 1 --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.dcgmi import samples_of_dcgmi  # noqa: PLC0415

        plan = _plan(
            out, mapping or ["dcgmi_dmon"], naming=_naming(model, task, dataset, phase), host=host, again=again
        )
        times = _Times(start if interval is None else None, end, sacct, None, time_zone)
        first = times.moment(start)
        parts = (samples_of_dcgmi(path, _content(path), times.tz(), first, interval) for path in files)
        _import_files(parts, times, plan)


def ldms(
    files: Files,
    out: Out,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    job_label: JobLabelOption = None,
    time_zone: Zone = "UTC",
    mapping: MappingOption = None,
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    full_names: FullNames = False,
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """CSV files of LDMS' store_csv, joined in time; a file FILE.HEADER beside one is its header.

    Example: infrascope import ldms csv/meminfo csv/procstat --job-label job_id --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.ldms import samples_of_ldms  # noqa: PLC0415

        plan = _plan(
            out, mapping or ["ldms"], naming=_naming(model, task, dataset, phase), full_names=full_names, again=again
        )
        times = _Times(start, end, sacct, job_label, time_zone)
        _import_files((samples_of_ldms(path, _content(path), _header_beside(path)) for path in files), times, plan)


def table(
    files: Files,
    out: Out,
    mapping: Annotated[Path, typer.Option(help="Mapping file with a section `table`.")],
    host: HostOption = None,
    start: Start = None,
    end: End = None,
    sacct: Sacct = None,
    job_label: JobLabelOption = None,
    time_zone: Zone = "UTC",
    model: Model = None,
    task: Task = "Unknown",
    dataset: DatasetOption = "default",
    phase: Phase = "train",
    full_names: FullNames = False,
    again: Again = False,
    debug: DebugOption = False,
) -> None:
    """Any CSV or Parquet file, long or wide, as a mapping describes it.

    Example: infrascope import table power.csv --mapping power.yaml --out runs
    """
    with one_sentence(debug):
        from infrascope_core.importers.table import HOST, samples_of_table  # noqa: PLC0415

        plan = _plan(
            out,
            [str(mapping)],
            naming=_naming(model, task, dataset, phase),
            host=host,
            host_label=HOST,
            full_names=full_names,
            again=again,
        )
        shape = plan.mappings[0].table
        if shape is None:
            raise ImportSourceError(f"{mapping}: has no section `table`, which says which column holds what")
        times = _Times(start, end, sacct, job_label, time_zone)
        _import_files((samples_of_table(path, _content(path), shape, times.tz()) for path in files), times, plan)


def _plan(out: Path, mappings: Sequence[str], **how: Unpack[_How]) -> Plan:
    from infrascope_core.importers.importing import Plan  # noqa: PLC0415
    from infrascope_core.importers.mapping import load_mapping  # noqa: PLC0415

    return Plan(out, tuple(load_mapping(name) for name in mappings), **how)


def _naming(model: str | None, task: str, dataset: str, phase: Literal["train", "infer"]) -> Naming:
    from infrascope_core.importers.writing import Naming  # noqa: PLC0415

    return Naming(model, task, dataset, phase)


def _listing(times: _Times) -> Listing | None:
    """Jobs by the output of sacct; None without one."""
    from infrascope_core.importers.jobs import jobs_of_sacct  # noqa: PLC0415

    if times.sacct is None:
        return None
    if times.job_label is not None:
        raise ImportSourceError("--sacct and --job-label both say what the jobs are; give one")
    text = _content(times.sacct).decode("utf-8", "replace")
    listing = jobs_of_sacct(text, times.tz(), datetime.now(UTC).replace(tzinfo=None))
    if not listing.jobs:
        raise ImportSourceError(f"{times.sacct}: holds no job that has ended{''.join('; ' + n for n in listing.notes)}")
    return listing


def _import_files(parts: Iterable[Samples], times: _Times, plan: Plan) -> None:
    """Join samples of files in time, and make run files of them."""
    from infrascope_core.importers.importing import import_samples, jobs_of_samples  # noqa: PLC0415
    from infrascope_core.importers.jobs import Listing  # noqa: PLC0415
    from infrascope_core.importers.mapping import unmapped  # noqa: PLC0415
    from infrascope_core.importers.samples import between, together  # noqa: PLC0415

    listing = _listing(times)
    samples = between(together(parts), times.moment(times.start), times.moment(times.end))
    if listing is None and times.job_label is not None:
        listing = jobs_of_samples(samples, _job_label(times.job_label), plan)
    notes = [*(listing or Listing(())).notes]
    read = [samples.series[number] for number in samples.values["series"].unique()]
    if names := unmapped(read, plan.mappings):
        notes.append(f"{count(len(names), 'name')} in no rule of the mapping, such as {', '.join(names[:3])}")
    _show(import_samples(samples, listing, plan), notes, plan)


def _job_label(text: str) -> JobLabel:
    from infrascope_core.importers.mapping import JobLabel  # noqa: PLC0415

    return JobLabel(label=text)


def _show(outcomes: Iterable[Outcome], notes: Iterable[str], plan: Plan) -> None:
    """A line for each run file as it is written, then what was left out."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    tally = dict.fromkeys(("written", "kept", "empty", "double"), 0)
    said = list(notes)
    for outcome in outcomes:
        tally[outcome.status] += 1
        if outcome.status == "written":
            every = "" if outcome.interval_s is None else f" every {outcome.interval_s:g} s"
            line = f"{outcome.samples:,} samples{every}, {outcome.metrics:,} metrics: {outcome.path}"
            console.print(Text(printable(line)))
            said += [f"{outcome.path.name}: {note}" for note in outcome.notes]
    if not tally["written"] + tally["kept"]:
        raise ImportSourceError(f"nothing to write into {plan.out}: no host of any job has samples in its time")
    if tally["kept"]:
        said.append(f"{count(tally['kept'], 'run file')} already there and kept (--again makes them once more)")
    if tally["double"]:
        said.append(
            f"{count(tally['double'], 'job')} left out: another of its name began on the host in the same second"
        )
    if tally["empty"]:
        said.append(f"of {count(tally['empty'], 'job')} on a host there are no samples")
    for note in said[:_MOST_NOTES]:
        complain(note)
    if len(said) > _MOST_NOTES:
        complain(f"{len(said) - _MOST_NOTES} more remarks of this kind")


def _headers(lines: list[str] | None, token_file: Path | None) -> dict[str, str]:
    """Headers of requests.

    Raises
    ------
    ImportSourceError
        One is no header.
    """
    headers = {}
    for line in lines or ():
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not (name + value).isprintable():
            raise ImportSourceError(f"{line[:60]!r}: expected a header as 'X-Scope-OrgID: lab'")
        headers[name.strip()] = value.strip()
    token = os.environ.get(_TOKEN) if token_file is None else _content(token_file).decode("utf-8", "replace")
    if token and token.strip():
        if not token.strip().isprintable():
            raise ImportSourceError("the bearer token is not one line of text")
        headers["Authorization"] = f"Bearer {token.strip()}"
    return headers


def _header_beside(path: Path) -> str | None:
    beside = path.with_name(f"{path.name}.HEADER")
    return _content(beside).decode("utf-8", "replace") if beside.is_file() else None


def _content(path: Path) -> bytes:
    """A file's bytes, unpacked if its name ends in .gz."""
    from infrascope_core.run_files.content import is_packed, pieces, read_bounded, regular_file  # noqa: PLC0415

    try:
        with regular_file(path) as stream:
            if is_packed(path):
                return b"".join(pieces(path, stream, _MOST_BYTES))
            return read_bounded(path, stream, _MOST_BYTES)
    except RunFileError as error:
        raise ImportSourceError(str(error)) from None
