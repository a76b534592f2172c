"""`infrascope import`: other people's telemetry as run files.

What belongs here: arguments of the sources, and the lines about what was written. The work is in `importers`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from infrascope_core.cli.console import DebugOption, complain, one_sentence
from infrascope_core.errors import ImportSourceError
from infrascope_core.reports.wording import count, printable

_MOST_NOTES = 5

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
    headers: Annotated[
        list[str] | None, typer.Option("--header", help="Sent with every request, as 'X-Scope-OrgID: lab'.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a bearer token; or the variable INFRASCOPE_PROMETHEUS_TOKEN.")
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
    _carry_out("prometheus", **locals())


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
    _carry_out("openmetrics", **locals())


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
    _carry_out("sar", **locals())


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
    _carry_out("nvidia-smi", **locals())


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
    _carry_out("dcgm", **locals())


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
    _carry_out("ldms", **locals())


def table(
    files: Files,
    out: Out,
    mapping: Annotated[str, typer.Option(help="Mapping file with a section `table`.")],
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
    _carry_out("table", **locals())


def _carry_out(source: str, out: Path, again: bool, debug: bool, **options: Any) -> None:
    """Import, with a line for each run file as it is written, and then what was left out.

    Options are the fields of an order; those that were not given are left to it.
    """
    with one_sentence(debug):
        from infrascope_core.importers.importing import remarks  # noqa: PLC0415 - for a fast `--help`
        from infrascope_core.importers.order import order_of  # noqa: PLC0415

        order = order_of({"source": source, **{name: of for name, of in options.items() if of is not None}})
        work = order.work(order.plan(out, again=again), datetime.now(UTC).replace(tzinfo=None))
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        outcomes, said = [], [*work.notes]
        for outcome in work.outcomes:
            outcomes.append(outcome)
            if outcome.status == "written":
                every = "" if outcome.interval_s is None else f" every {outcome.interval_s:g} s"
                line = f"{outcome.samples:,} samples{every}, {outcome.metrics:,} metrics: {outcome.path}"
                console.print(Text(printable(line)))
            said += [f"{outcome.path.name}: {note}" for note in outcome.notes]
        if not any(outcome.status in ("written", "kept") for outcome in outcomes):
            why = next(
                (note for outcome in outcomes for note in outcome.notes), "no host of any job has samples in its time"
            )
            raise ImportSourceError(f"nothing to write into {out}: {why}")
        if kept := sum(outcome.status == "kept" for outcome in outcomes):
            said.append(f"{count(kept, 'run file')} already there and kept (--again makes them once more)")
        said += remarks(outcomes)
        for note in said[:_MOST_NOTES]:
            complain(note)
        if len(said) > _MOST_NOTES:
            complain(f"{len(said) - _MOST_NOTES} more remarks of this kind")
