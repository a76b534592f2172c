"""Pages of the documentation that are generated from the code. `make docs` writes them; a test keeps them current.

What belongs here: functions that return a page as text, and the list of them. What a person writes stands in `docs/`.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from infrascope_core.contract import Table
from infrascope_core.pipeline import GRAPH
from infrascope_core.reports.model import json_schema
from infrascope_core.section import Section
from infrascope_core.settings import Settings
from infrascope_core.store.atomic import write_text
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Scope

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


_TABLES_HEAD = """\
# Tables

Every table with its columns, in the order in which they are made. In `warehouse.duckdb`, pooled tables and findings per
run (marked *copied*) are tables; the other tables per run are views on the lake's Parquet files. In a data folder that
was moved, any `infrascope` command rebuilds the file; until then, views follow
`SET VARIABLE infrascope_data = '/new/place'`. `telemetry` is Parquet only. Times are naive UTC as the files give them;
windows count from 0.

This page is generated from the declarations by `make docs`.
"""

_ARCHITECTURE_HEAD = """\
# Architecture

InfraScope is a graph of *products*: tables that are made together by one function. Each is declared once, in the
`products.py` of its stage, beside the science that it calls. The order of work, what is current and what is stale, the
Dagster assets with their dependencies, conditions and code versions, the warehouse, and this page are derived from the
declarations ([design.md](design.md) says how; [adr/0022](adr/README.md) why). Where something new goes is in
[CONTRIBUTING.md](../CONTRIBUTING.md).

This page is generated from the declarations by `make docs`.

## The graph

An arrow leads from what is read to what is made of it; a dotted one, from what is only quoted. Rounded boxes are made
per run, the others over all runs; heavily framed ones are fitted models.

"""


def pages(docs: Path, graph: Graph = GRAPH) -> dict[Path, str]:
    """Every generated page by its path below the folder `docs`; reads the decision records there."""
    return {
        docs / "tables.md": tables_page(graph),
        docs / "architecture.md": architecture_page(graph),
        docs / "settings.md": settings_page(),
        docs / "adr" / "README.md": decisions_page(docs / "adr"),
        docs / "report.schema.json": json_schema(),
    }


def tables_page(graph: Graph) -> str:
    """The page of all tables: the contract with users."""
    parts = [_TABLES_HEAD]
    for product in graph.order:
        for table in product.tables:
            shown = ", copied" if product.copied and not table.wide else ""
            parts += [f"## {table.name}\n", f"{table.meaning}\n"]
            parts += [f"Stage {product.stage}; {product.scope}{shown}. Key: {', '.join(table.key)}.\n"]
            rows = [f"| {c.name} | {c.dtype} | {_cell(c.meaning)} |" for c in table.columns]
            parts += ["\n".join(["| column | type | meaning |", "|---|---|---|", *rows, ""])]
    return "\n".join(parts)


def architecture_page(graph: Graph) -> str:
    """The page of the structure: the graph as a drawing, the products, the stages and their files, the layers."""
    products = [
        f"| {product.name} | {product.scope} | {_names(product.tables[1:])} | {_names(product.reads)} | "
        f"{_names(product.quotes)} | {', '.join(product.settings)} | {product.code_version} | "
        f"{', '.join(f'{number:04}' for number in product.decisions)} |"
        for product in graph.order
    ]
    parts = [
        _ARCHITECTURE_HEAD + _drawing(graph),
        "## The products\n",
        "\n".join(
            [
                "| product | scope | makes also | reads | quotes | settings | code version | [ADR](adr/README.md) |",
                "|---|---|---|---|---|---|---|---|",
                *products,
                "",
            ]
        ),
        "## The scopes\n",
        *(f"- *{scope}*: {_one_line(meaning)}" for scope, meaning in _scopes().items()),
        "\n## The stages and their files\n",
        "Imports run one way: a stage imports those above it, and what all stand on; nothing imports "
        "`infrascope_dagster`.\n",
    ]
    for stage in stages(graph):
        folder = _CORE / stage
        parts += [f"### {stage}\n", f"{_docstring(folder / '__init__.py')}\n", *_files(folder), ""]
    for title, folder in (("What all stages stand on", _CORE), ("store", _CORE / "store")):
        parts += [f"### {title}\n", *_files(folder), ""]
    return "\n".join(parts)


def stages(graph: Graph) -> list[str]:
    """The stages, each after those whose tables it reads."""
    return list(dict.fromkeys(product.stage for product in graph.products))


_CORE = Path(__file__).parent


def _drawing(graph: Graph) -> str:
    lines = ["```mermaid", "flowchart LR"]
    for stage in stages(graph):
        lines.append(f"  subgraph stage_{stage}[{stage}]")
        for product in graph.order:
            if product.stage == stage:
                shape = "([{}])" if product.scope.per_run else "[[{}]]" if product.scope is Scope.FITTED else "[{}]"
                lines.append(f"    {product.name}{shape.format(' + '.join(t.name for t in product.tables))}")
        lines.append("  end")
    for product in graph.order:
        read = dict.fromkeys(graph.product(table).name for table in product.reads)
        quoted = dict.fromkeys(graph.product(table).name for table in product.quotes)
        lines += [f"  {name} --> {product.name}" for name in read]
        lines += [f"  {name} -.-> {product.name}" for name in quoted]
    return "\n".join([*lines, "```", ""])


def _scopes() -> dict[str, str]:
    """Each scope with the text below it."""
    body = next(node for node in ast.parse(inspect.getsource(Scope)).body if isinstance(node, ast.ClassDef)).body
    return {
        str(assigned.value.value): str(text.value.value)
        for assigned, text in pairwise(body)
        if isinstance(assigned, ast.Assign)
        and isinstance(assigned.value, ast.Constant)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _files(folder: Path) -> list[str]:
    """Each file of a package with the first sentence of its docstring."""
    inner = (path for path in folder.iterdir() if path.is_dir() and (path / "__init__.py").is_file())
    packages = [] if folder == _CORE else [(f"{path.name}/", path / "__init__.py") for path in sorted(inner)]
    modules = [(path.name, path) for path in sorted(folder.glob("[!_]*.py"))]
    return [f"- `{name}`: {_docstring(path)}" for name, path in [*modules, *packages]]


def _docstring(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return _one_line(text.split("\n\n")[0])


def _names(tables: Sequence[Table]) -> str:
    return ", ".join(dict.fromkeys(table.name for table in tables))


def _cell(text: str) -> str:
    return text.replace("|", chr(92) + "|")


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
    if _is_section(annotation):
        return f"`{{{', '.join(annotation.model_fields)}}}`"
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
