"""`infrascope page` and `infrascope serve`: where pages lie, and refusals in one sentence."""

from __future__ import annotations

import socket

import pytest
import typer
from typer.testing import CliRunner

from infrascope_core.cli.page import page, serve
from infrascope_core.pages.products import index_file, page_file
from infrascope_core.reports.products import report_files
from infrascope_core.store.folder import DataFolder
from tests.runs import run_name, write_run

KEY = run_name(1).removesuffix(".txt")


@pytest.fixture
def folder(tmp_path, make_all) -> DataFolder:
    write_run(tmp_path / "runs", 1, samples=60)
    filled = make_all(tmp_path / "data", tmp_path / "runs")
    filled.remember_settings()
    return filled


def call(command, folder: DataFolder, *arguments: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*arguments, "--data", str(folder.root)])


def test_pages_are_named_and_made_where_they_are_gone(folder):
    files = {KEY[:12]: page_file(folder, KEY), None: index_file(folder)}
    for asked, file in files.items():
        content = file.read_bytes()
        for _ in range(2):
            result = call(page, folder, *([asked] if asked else []))
            assert (result.exit_code, result.stdout) == (0, f"{file}\n")
            assert file.read_bytes() == content
            file.unlink()
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("content", "fault"), [(None, "is not there"), *((c, "cannot be read; delete it") for c in "{[")]
)
def test_without_its_report_there_is_no_page(folder, content, fault):
    _, as_data = report_files(folder, KEY)
    page_file(folder, KEY).unlink()
    as_data.unlink()
    if content is not None:
        as_data.write_text(content)
    result = call(page, folder, KEY)
    assert result.exit_code == 1
    wanted = f"a page is made from this report, which {fault}; `infrascope run` makes both again"
    assert result.stderr == f"infrascope: {as_data}: {wanted}\n"


def test_nothing_is_served_without_pages_or_on_a_port_that_is_taken(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = call(serve, folder, "--port", str(port))
    assert (result.exit_code, f"port {port}: " in result.stderr) == (1, True)
    index_file(folder).unlink()
    result = call(serve, folder)
    assert result.stderr == f"infrascope: {folder.root}: there is no page yet; `infrascope run` makes them\n"
