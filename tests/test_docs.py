"""The documentation: pages are current, settings are described, decisions are listed, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from infrascope_core.documentation import decisions_page, pages, settings_page
from infrascope_core.section import Section
from infrascope_core.settings import Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = pages(DOCS)
RECORDS = sorted((DOCS / "adr").glob("[0-9]*.md"))
WRITTEN = sorted(
    path
    for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("data/sample/*.md")]
    if path not in {DOCS / "evaluation.md"}
)

UNITS = re.compile(
    r"\b(seconds?|days|samples?|windows?|bytes|share|per cent|probability|confidence|quantile|correlation|decades"
    r"|standard deviations|multiples|weight|seed|number of|points|moves|falls|pairs|steps|baskets|items|runs|metrics"
    r"|fields|columns|trees|claims|rules|reasons|names)\b",
    re.IGNORECASE,
)
"""What a number can be counted or measured in."""


def leaves(model: type[Section] = Settings, prefix: str = "") -> dict[str, Any]:
    """All settings that hold a value, by dotted name."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            found |= leaves(kind, f"{name}.")
        else:
            found[f"{prefix}{name}"] = field
    return found


SETTINGS = leaves()
QUANTITIES = {
    name: field for name, field in SETTINGS.items() if {int, float} & {field.annotation, *get_args(field.annotation)}
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_pages_are_current(path):
    assert path.read_text(encoding="utf-8") == PAGES[path], "run `make docs`"


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_description(name):
    assert len((SETTINGS[name].description or "").split()) >= 2
    assert f"| {name.rsplit('.', 1)[-1]} |" in settings_page()


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_number_has_a_unit(name):
    assert UNITS.search(QUANTITIES[name].description), QUANTITIES[name].description


def test_a_field_without_a_text_has_no_description():
    """The descriptions come from the texts under the fields, not from anywhere else."""

    class Example(Section):
        described: int = 1
        """So many windows."""
        undescribed: int = 2

    assert Example.model_fields["described"].description == "So many windows."
    assert Example.model_fields["undescribed"].description is None


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name[:4])
def test_a_decision_has_a_date_and_a_status_and_fits_on_a_page(record):
    text = record.read_text(encoding="utf-8")
    status = re.search(r"^Status: (accepted|superseded by \d{4})(?:[;,( ].*)?$", text, re.MULTILINE)
    assert status and re.search(r"^Date: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert len(text.splitlines()) <= 45
    numbers = {path.name[:4] for path in RECORDS}
    assert set(re.findall(r"\b0\d{3}\b", status[0])) <= numbers - {record.name[:4]}


def test_decisions_are_numbered_without_gaps():
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_a_decision_without_a_status_is_not_listed_in_silence(tmp_path):
    (tmp_path / "0001-example.md").write_text("# 1. Example\n\n**Context.** None.\n")
    with pytest.raises(ValueError, match=r"0001-example\.md: expected .*Status:"):
        decisions_page(tmp_path)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|src=\"([^\"]+)\"", text):
        link = next(filter(None, target))
        if not re.match(r"[a-z]+://", link):
            assert (path.parent / link).exists(), link


def test_the_glossary_names_files_that_exist():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|\.yaml|/))(?:: (\w+))?`", text)
    assert len(named) > 30
    for path, symbol in named:
        assert (ROOT / "infrascope_core" / path).exists(), path
        if symbol:
            assert re.search(rf"\b{symbol}\b", (ROOT / "infrascope_core" / path).read_text(encoding="utf-8")), symbol


@pytest.mark.parametrize("path", sorted(ROOT.glob("infrascope_*/**/*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_cites_documents_that_exist(path):
    text = path.read_text(encoding="utf-8")
    unknown = re.search(r"\bDESIGN section|\(FORMAT\b|of FORMAT\b|\bseed 0\d\d", text)
    assert unknown is None, f"{unknown[0]}: cite a page of docs/"
    for number in re.findall(r"docs/adr/(\d{4})", text):
        assert list((DOCS / "adr").glob(f"{number}-*.md")), number
    for page, heading in re.findall(r"docs/(design|format)\.md(?:, ([A-Z][A-Za-z ]+))?", text):
        headings = re.findall(r"^#+ (.+)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
        assert not heading or any(heading.startswith(known) for known in headings), heading
