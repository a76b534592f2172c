"""The project's own files: what is imported is declared, and what the packages read at run time is shipped."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN = {"infrascope_core", "infrascope_dagster", "tests", "benchmarks"}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements: list[str]) -> set[str]:
    return {normalised(re.split(r"[\[<>=!~ ;]", requirement)[0]) for requirement in requirements}


RUNTIME = names_of(PROJECT["project"]["dependencies"])
EXTRAS = PROJECT["project"]["optional-dependencies"]


def imported(folder: Path) -> set[str]:
    """Distributions whose packages the Python files below a folder import."""
    found = set()
    files = sorted(folder.rglob("*.py"))
    beside = {file.stem for file in files}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    distributions = packages_distributions()
    foreign = found - set(sys.stdlib_module_names) - OWN - beside
    return {normalised(distributions.get(package, [package])[0]) for package in foreign}


@pytest.mark.parametrize(("package", "extra"), [("infrascope_core", ()), ("infrascope_dagster", EXTRAS["ui"])])
def test_what_the_packages_import_is_declared(package, extra):
    assert imported(ROOT / package) - names_of(extra) <= RUNTIME


def test_pandas_is_declared_where_frames_become_its_frames():
    """Polars imports it on its own, so that no import of ours says so."""
    uses = [file for file in (ROOT / "infrascope_core").rglob("*.py") if ".to_pandas(" in file.read_text("utf-8")]
    assert not uses or "pandas" in RUNTIME


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_what_tests_and_benchmarks_import_is_declared(folder):
    assert imported(ROOT / folder) <= RUNTIME | names_of(EXTRAS["test"])


def test_every_dependency_has_a_lower_bound_that_the_pins_meet():
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split() if "==" in line
    )
    pinned = {normalised(name): version for name, version in pins.items()}
    for requirement in [*PROJECT["project"]["dependencies"], *(r for extra in EXTRAS.values() for r in extra)]:
        if requirement.startswith("infrascope["):
            continue
        name, bound = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement).groups()
        assert [int(n) for n in bound.split(".")] <= [int(n) for n in pinned[normalised(name)].split(".")[:3]], name


def test_data_files_are_shipped():
    core = ROOT / "infrascope_core"
    shipped = {
        f for pattern in PROJECT["tool"]["setuptools"]["package-data"]["infrascope_core"] for f in core.glob(pattern)
    }
    data = {f for f in core.rglob("*") if f.is_file() and f.suffix not in {".py", ".pyc"}}
    assert data and data <= shipped


def test_hooks_download_nothing():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    assert {hook["language"] for repo in hooks["repos"] for hook in repo["hooks"]} == {"system"}
