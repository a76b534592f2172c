"""Pages of the documentation that are generated from the code. `make docs` writes them; a test keeps them current.

What belongs here: functions that return a page as text, and the list of them. What a person writes stands in `docs/`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from infrascope_core.reports.report import json_schema
from infrascope_core.section import Section
from infrascope_core.settings import Settings
from infrascope_core.store.atomic import write_text

_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
_TYPES = {int: "integer", float: "number", bool: "true or false", str: "text"}

_SETTINGS_HEAD = """\
# Settings

Every tunable with its default, its range and its meaning. A settings file is YAML and names only what differs from the
defaults:

    windows: {samples: 20}
    detectors:
      compare_with: reference
      reference_runs: [train_*_node07]

Pass it with `infrascope run --settings FILE.yaml`, in `INFRASCOPE_SETTINGS` to Dagster, or as `Settings` in Python. A
data folder remembers the settings that it was last filled with (`settings.json`). Changing a section makes again what
depends on it, and nothing else; [architecture.md](architecture.md) shows which products depend on which section.

Times are counted in samples, so that recipes apply to any sampling interval; the text gives the length at 100 ms.

This page is generated from the models by `make docs`.
"""

_DECISIONS_HEAD = """\
# Architecture decision records

One decision a file, at most a page: context, decision, consequence, and the figure that decided. A record is not
rewritten when a decision changes; it is marked as superseded, and a new one says why. To add one, copy the form of the
latest, take the next number, and run `make docs`, which writes this index.

| number | decision | date | status |
|---|---|---|---|
"""


def pages(docs: Path) -> dict[Path, str]:
    """Every generated page by its path below the folder `docs`; reads the decision records there."""
    return {
        docs / "settings.md": settings_page(),
        docs / "adr" / "README.md": decisions_page(docs / "adr"),
        docs / "report.schema.json": json_schema(),
    }


def settings_page() -> str:
    """The page of all settings: a section each, with every field's type, default, range and description."""
    general = {name: field for name, field in Settings.model_fields.items() if not _is_section(field.annotation)}
    parts = [_SETTINGS_HEAD, "## At the top level\n", _table(general)]
    for name, field in Settings.model_fields.items():
        if _is_section(field.annotation):
            section: type[Section] = field.annotation  # type: ignore[assignment]
            parts += [f"## {name}\n", f"{_one_line(section.__doc__ or '')}\n", _table(section.model_fields)]
    return "\n".join(parts)


def decisions_page(folder: Path) -> str:
    """The index of the decision records in a folder.

    Raises
    ------
    ValueError
        A record has no number and title, no date, or no status.
    """
    return _DECISIONS_HEAD + "".join(f"{row}\n" for row in _decisions(folder))


def _decisions(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("[0-9]*.md")):
        text = file.read_text(encoding="utf-8")
        head = re.match(
            r"# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>[\d-]{10})\nStatus: (?P<status>.+)\n", text
        )
        if head is None:
            raise ValueError(f"{file.name}: expected `# N. Title`, an empty line, `Date:` and `Status:`")
        status = re.sub(r"\b\d{4}\b", lambda number: f"[{number[0]}]({_file(folder, number[0])})", head["status"])
        yield f"| [{int(head['number']):04d}]({file.name}) | {head['title']} | {head['date']} | {status} |"


def _file(folder: Path, number: str) -> str:
    return next((file.name for file in folder.glob(f"{number}-*.md")), number)


def _table(fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        f"| {name} | {_type(field.annotation)} | {_default(field)} | {_range(field)} | "
        f"{_one_line(field.description or '').replace('|', chr(92) + '|')} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| setting | type | default | range | meaning |", "|---|---|---|---|---|", *rows, ""])


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        inner = [part for part in get_args(annotation) if part is not Ellipsis]
        return f"list of {_type(inner[0])}" + (
            f", {len(inner)} of them" if Ellipsis not in get_args(annotation) else ""
        )
    return _TYPES.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    values = field.default if isinstance(field.default, tuple) else (field.default,)
    shown = ", ".join(f"{value:.10g}" if isinstance(value, float) else _as_yaml(value) for value in values)
    return f"`[{shown}]`" if isinstance(field.default, tuple) else f"`{shown}`"


def _as_yaml(value: object) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()


def _range(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(each, name):,}"
        for each in field.metadata
        for name, sign in _BOUNDS.items()
        if hasattr(each, name)
    ]
    return ", ".join(bounds)


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    for path, text in pages(Path(sys.argv[1])).items():
        write_text(path, text)
