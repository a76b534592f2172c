"""`sadf -j` of sysstat: JSON to samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import polars as pl

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import SCHEMA, Samples, Series

_DEEPEST = 8
_NAMES = {"disk-device": "device"}
"""Labels that mappings call by another name."""


def samples_of_sadf(path: Path, text: bytes, zone: tzinfo = UTC) -> Samples:
    """Samples of every host in the output of `sadf -j`.

    A number is called by its place, as in `network.net-dev.rxkB`; texts beside it are its labels, the host is
    `nodename`.
    Times are UTC, as sadf gives them unless it is told otherwise (`-t`, `-T`): those are of the given zone.

    Raises
    ------
    ImportSourceError
        It is something else, or holds a time that cannot be read.
    """
    place: dict[Series, int] = {}
    rows: list[tuple[int, datetime, float]] = []
    try:
        for host in json.loads(text)["sysstat"]["hosts"]:
            name = str(host["nodename"])
            for reading in host["statistics"]:
                stamp = reading.get("timestamp")
                if stamp is None:  # a restart is noted without a time of its own
                    continue
                moment = _moment(stamp, zone)
                for quantity, labels, value in _numbers(reading, "", ()):
                    series = Series.of(quantity, {**dict(labels), "nodename": name}, name)
                    rows.append((place.setdefault(series, len(place)), moment, value))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ImportSourceError(f"{path}: cannot be read as the output of sadf -j") from None
    return Samples(tuple(place), pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _moment(stamp: dict[str, Any], zone: tzinfo) -> datetime:
    found = datetime.fromisoformat(f"{stamp['date']}T{stamp['time']}")
    return found.replace(tzinfo=UTC if stamp.get("utc") else zone).astimezone(UTC).replace(tzinfo=None)


def _numbers(
    part: dict[str, Any], name: str, labels: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Every number below a part, with its place and the texts beside it."""
    if name.count(".") > _DEEPEST:
        raise ValueError("too deep")
    texts = tuple((_NAMES.get(key, key), value) for key, value in part.items() if isinstance(value, str))
    for key, value in part.items():
        place = f"{name}.{key}" if name else key
        if key == "timestamp" and not name:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield place, (*labels, *texts), float(value)
        elif isinstance(value, dict):
            yield from _numbers(value, place, (*labels, *texts))
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict):
                    yield from _numbers(one, place, (*labels, *texts))
