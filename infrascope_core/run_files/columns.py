"""The column-name grammar: Source:metric[.instance].host[unit].

A metric is a column's name without its host, unit kept: `Turbostat:Busy%.-.htc-g004[%]` becomes
`Turbostat:Busy%.-[%]`. That name is the same on every host and can be turned back into the column's name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import yaml

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.telemetry import KEY_COLUMNS

SUBSYSTEMS = ("CPU", "GPU", "Memory", "Network", "Storage", "Other")

_SPLIT = re.compile(r"(?P<body>.*?)(?P<unit>\[[^\[\]]*\])?", re.DOTALL)
_HOST = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9-]*")
_INSTANCES = (
    # cores, packages, GPUs: a number between dots, or `-` for all of them
    re.compile(r"(?<=\.)(?:\d+|-)(?=\[|\.|$)"),
    re.compile(r"(?<=^CPU:CPU)\d+(?=Utilization)"),
    # instances of a GPU that is cut up
    re.compile(r"(?<=\.)mig\d+(?=\[|\.|$)"),
    # interfaces, as systemd and the kernel name them; block devices
    re.compile(r"(?<=\.)(?:lo|(?:eth|ib|en|wl|ww|bond|br|veth|docker|hsn|mlx|team|tun|tap)\w*)(?=\[|\.|$)"),
    re.compile(r"(?<=\.)(?:[svh]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d+n\d+(?:p\d+)?|(?:dm-|md|loop|sr|zram)\d+)(?=\[|\.|$)"),
)
_DIFFERENCED = re.compile(r"^[^:]*_diff:")
_MIN_SHARE = 0.1
"""A host other than the file name's must own this share of the columns, else it is part of a metric."""


@dataclass(frozen=True)
class ColumnName:
    """One column: the host it was read on and its host-free metric."""

    host: str
    metric: str


def column_name(metric: str, host: str) -> str:
    """The column's name as the file has it: the host before the unit."""
    match = _SPLIT.fullmatch(metric)
    assert match is not None
    return f"{match['body']}.{host}{match['unit'] or ''}"


def catalogue_name(metric: str, host: str, names: str) -> str:
    """The name under which metrics are pooled: the column's (`names` is `column`), or the host-free one (`metric`)."""
    return column_name(metric, host) if names == "column" else metric


def unit(metric: str) -> str:
    """The unit in square brackets, or an empty string."""
    match = _SPLIT.fullmatch(metric)
    return match["unit"][1:-1] if match and match["unit"] else ""


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    text = (resources.files(__package__) / "subsystems.yaml").read_text(encoding="utf-8")
    return tuple((rule["subsystem"], re.compile(rule["pattern"], re.IGNORECASE)) for rule in yaml.safe_load(text))


@lru_cache(maxsize=65_536)
def subsystem(metric: str) -> str:
    """The subsystem a metric belongs to, by the table in `subsystems.yaml`; `Other` if no rule fits."""
    return next((name for name, pattern in _rules() if pattern.search(metric)), "Other")


@lru_cache(maxsize=65_536)
def family(metric: str) -> str:
    """What a metric is an instance of: its name with the core, GPU, interface or disk as `#`.

    `Turbostat:Busy%.11[%]` and `Turbostat:Busy%.-[%]` are of one family, as are `CPU:CPU3Utilization[%]` and its like.
    Other numbers are part of the name: `C1%` is not `C2%`, and 38 anonymous metrics `d01` to `d38` are 38 families.
    """
    for instance in _INSTANCES:
        metric = instance.sub("#", metric)
    return metric


@lru_cache(maxsize=65_536)
def instance(metric: str) -> str:
    """The core, GPU, interface or disk that a metric is of; empty if it is of none."""
    return " ".join(found[0] for pattern in _INSTANCES if (found := pattern.search(metric)))


def is_differenced(metric: str) -> bool:
    """Whether its source says that the collector wrote changes since the sample before (`Storage_diff:...`)."""
    return _DIFFERENCED.match(metric) is not None


def is_gpu_metric(metric: str) -> bool:
    """Whether the metric makes its file a GPU platform's (docs/design.md, Recipes)."""
    return metric.startswith("GPU:")


def parse_columns(path: Path, names: Sequence[str], file_host: str) -> list[ColumnName]:
    """Split the metric columns of a header into host and metric.

    Hosts are the file name's host and any other last component that owns a tenth of the columns and repeats
    the first host's metrics (two-host files). A column without a known host keeps its whole name as metric,
    on the file name's host.

    Raises
    ------
    RunFileError
        A column occurs twice, is empty, or has a reserved name.
    """
    hosts = _hosts(names, file_host)
    parsed = []
    for position, name in enumerate(names, start=2):
        if not name.strip():
            raise RunFileError(path, f"column {position} of the header has no name")
        body, suffix = _body(name)
        host = next((h for h in hosts if body.endswith("." + h)), None)
        metric = body.removesuffix(f".{host}") + suffix if host else name
        if metric in KEY_COLUMNS:
            raise RunFileError(path, f"column {position} has the reserved name {metric!r}")
        parsed.append(ColumnName(host or hosts[0], metric))
    column, times = Counter(parsed).most_common(1)[0]
    if times > 1:
        raise RunFileError(path, f"the column {column.metric!r} occurs {times} times for host {column.host}")
    return parsed


def _body(name: str) -> tuple[str, str]:
    match = _SPLIT.fullmatch(name)
    assert match is not None
    return match["body"], match["unit"] or ""


def _hosts(names: Sequence[str], file_host: str) -> list[str]:
    """Hosts that own columns, the file name's first."""
    owned: dict[str, set[str]] = {}
    for name in names:
        body, suffix = _body(name)
        head, _, last = body.rpartition(".")
        host = file_host if body.endswith("." + file_host) else last
        if head and (host == file_host or _HOST.fullmatch(host)):
            owned.setdefault(host, set()).add(body.removesuffix("." + host) + suffix)
    hosts = [file_host] if file_host in owned else []
    for host, metrics in sorted(owned.items(), key=lambda item: (-len(item[1]), item[0])):
        if host in hosts or len(metrics) < _MIN_SHARE * len(names):
            continue
        if not hosts or len(metrics & owned[hosts[0]]) * 2 >= len(metrics):
            hosts.append(host)
    return hosts or [file_host]
