"""The arrows of the design: the core imports no orchestrator, and its parts import one another in one direction.

Nothing here is a list to keep: the order of the stages is that of the declarations.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from infrascope_core.documentation import stages
from infrascope_core.pipeline import GRAPH

ROOT = Path(__file__).parents[1]
CORE = ROOT / "infrascope_core"
FILES = sorted(CORE.rglob("*.py"))
STAGES = stages(GRAPH)


def unit(parts: tuple[str, ...]) -> str:
    """What looks one way: a stage, a package, or a module; the settings of a stage stand below all."""
    return "/".join(parts[:2]) if parts[1:] == ("settings",) else parts[0]


def unit_of(path: Path) -> str:
    parts = path.relative_to(CORE).with_suffix("").parts
    return unit(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports_of(path: Path) -> dict[str, list[str]]:
    """Names by imported module."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name: [] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.setdefault(node.module, []).extend(alias.name for alias in node.names)
    return found


def units_used(path: Path) -> set[str]:
    used = set()
    for module, names in imports_of(path).items():
        if module == "infrascope_core":
            used |= {unit((name,)) for name in names if (CORE / name).exists() or (CORE / f"{name}.py").exists()}
        elif module.startswith("infrascope_core."):
            used.add(unit(tuple(module.split(".")[1:])))
    return used - {unit_of(path)}


def test_parts_of_the_core_look_one_way():
    """No part of the core is, however indirectly, above itself."""
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        if path != CORE / "__init__.py":
            arrows.setdefault(unit_of(path), set()).update(units_used(path))
    assert len(list(TopologicalSorter(arrows).static_order())) >= len(STAGES)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_a_stage_looks_at_earlier_stages_and_at_nobodys_private_parts(path):
    own = unit_of(path)
    if own in STAGES:
        later = STAGES[STAGES.index(own) + 1 :]
        assert not units_used(path) & set(later)
    for module, names in imports_of(path).items():
        assert not module.startswith(("dagster", "infrascope_dagster")), f"{path.name} imports {module}"
        if module.startswith("infrascope_core.") and unit(tuple(module.split(".")[1:])) != own:
            assert not [name for name in names if name.startswith("_")], f"{path.name} takes private parts of {module}"


def test_a_stage_reads_tables_of_earlier_stages():
    for product in GRAPH.order:
        for table in (*product.reads, *product.quotes):
            assert STAGES.index(GRAPH.product(table).stage) <= STAGES.index(product.stage), (product.name, table.name)


def test_every_stage_is_a_folder_with_its_declarations():
    declared = {path.parent.name for path in CORE.glob("*/products.py")}
    assert declared == set(STAGES)
    for stage in STAGES:
        assert {"__init__.py", "products.py", "tables.py"} <= {path.name for path in (CORE / stage).iterdir()}


@pytest.mark.parametrize("path", [p for p in FILES if p.name != "py.typed"], ids=lambda p: str(p.relative_to(CORE)))
def test_a_file_opens_with_what_belongs_in_it(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_the_core_runs_without_dagster():
    """Importing all of the core, the command line included, imports no dagster."""
    program = (
        "import sys, pkgutil, importlib, infrascope_core\n"
        "for module in pkgutil.walk_packages(infrascope_core.__path__, 'infrascope_core.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'dagster'], 'dagster was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_sql_files_say_what_they_read_and_give():
    statements = list(CORE.glob("*/sql/*.sql"))
    assert statements
    for path in statements:
        head = path.read_text(encoding="utf-8")
        assert head.startswith("-- ") and "\n-- in:" in head and "\n-- out:" in head, path.name
