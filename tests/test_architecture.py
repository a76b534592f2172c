"""The arrows of docs/design.md, Structure: the core knows no orchestrator, and its layers look one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "infrascope_core"

LAYERS = [
    ["errors", "tables", "telemetry", "blas"],
    ["settings"],
    ["run_file", "collect", "standardisation", "references", "calibration", "alarms"],
    ["simulate"],
    ["lake", "recipes"],
    ["warehouse"],
    [
        "ingestion",
        "quality",
        "curation",
        "windows",
        "discretization",
        "features",
        "patterns",
        "reanalysis",
        "metric_classes",
        "selection",
        "hosts",
        "agreement",
        "similarity",
    ],
    ["detectors", "catalogue"],
    ["baselines"],
    ["attribution", "retransmissions"],
    ["episodes", "latency"],
    ["report"],
    ["pipeline"],
    ["models", "mining"],
    ["steps"],
    ["summary", "checks", "fleet_comparisons"],
    ["evaluation"],
    ["cli"],
]
"""From the bottom up. A module may import its own layer's packages' insides and anything below."""

_LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda p: str(p.relative_to(CORE)))
def test_arrows_run_one_way(path):
    own = path.relative_to(CORE).parts[0].removesuffix(".py")
    for module in imports_of(path):
        assert not module.startswith(("dagster", "infrascope_dagster")), f"{path.name} imports {module}"
        if module.startswith("infrascope_core.") and own != "__init__":
            other = module.split(".")[1]
            assert other == own or _LEVEL[other] < _LEVEL[own], f"{own} imports {other}"


def test_every_module_has_a_place():
    modules = {p.name.removesuffix(".py") for p in CORE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert modules - {"__init__"} == set(_LEVEL)


def test_the_core_runs_without_dagster():
    """Importing all of the core pulls in no dagster, and `--help` of the command none either."""
    program = (
        "import sys, pkgutil, importlib, infrascope_core\n"
        "for module in pkgutil.walk_packages(infrascope_core.__path__, 'infrascope_core.'):\n"
        "    importlib.import_module(module.name)\n"
        "import infrascope_dagster.command\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'dagster'], 'dagster was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_sql_files_say_what_they_read_and_give():
    for path in (CORE / "sql").glob("*.sql"):
        head = path.read_text(encoding="utf-8")
        assert head.startswith("-- ") and "\n-- in:" in head and "\n-- out:" in head, path.name


def test_the_page_of_tables_is_current():
    from infrascope_core.contract import as_markdown

    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == as_markdown(), "run `make docs`"
