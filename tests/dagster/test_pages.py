"""Links from the UI, and what answers there: files of the data folder and of the project, and nothing else."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from infrascope_core.pipeline import refresh
from infrascope_dagster import pages
from infrascope_dagster.links import ADDRESS
from tests.runs import write_run

HOSTILE = (
    "# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![y](http://far.example/y)\n"
)


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pages.serving(tmp_path / "data", port) as address:
        yield address


def ask(url: str, host: str | None = None) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of an answer."""
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode(errors="replace"), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, "", {}


def urls(metadata: dict[str, Any]) -> list[str]:
    """Links, and pictures that are shown where they are linked."""
    found = [str(value.url) for value in metadata.values() if isinstance(value, dg.UrlMetadataValue)]
    shown = [str(value.md_str) for value in metadata.values() if isinstance(value, dg.MarkdownMetadataValue)]
    pictures = [
        match["url"] for text in shown if (match := re.fullmatch(r"\[!\[picture\]\((?P<url>.*)\)\]\(.*\)", text))
    ]
    return found + pictures


def test_every_link_of_an_asset_and_of_a_partition_leads_somewhere(location, address, monkeypatch):
    monkeypatch.setenv(ADDRESS, address)
    key = write_run(location.runs, 1, samples=600, burst=(300, 380)).stem
    assert location.materialize("run_files", "telemetry", "faults", "metric_types", keys=[key]).success
    per_run = ["quality_metrics", "window_features", "structural_changes"]
    per_run += ["anomaly_scores", "anomaly_reasons", "level_offsets", "metric_deviations"]
    per_run += ["curated_metrics", "group_windows", "baskets", "anomaly_episodes", "anomaly_report", "run_page"]
    assert location.materialize(*per_run, keys=[key]).success
    asked = {
        "report": urls(location.metadata("anomaly_report", key)),
        "page": urls(location.metadata("run_page", key)),
        "picture": urls(location.metadata("anomaly_scores", key)),
    }
    asset = location.defs.get_repository_def().asset_graph.get(dg.AssetKey("anomaly_scores"))
    asked["definition"] = urls(asset.metadata)
    assert list(map(len, asked.values())) == [1, 2, 1, 6]
    assert [url.rpartition(".")[2] for url in asked["page"]] == ["html", "png"]
    for url in (url for found in asked.values() for url in found):
        status, text, headers = ask(url)
        assert status == 200, url
        policy = text if url.endswith(".html") else headers["content-security-policy"]
        assert "default-src 'none'" in policy.replace("&#39;", "'")
        anchor = url.partition("#")[2]
        assert not anchor or f'id="{anchor}"' in text, url
    assert key in ask(asked["report"][0])[1]


def test_what_stands_in_a_file_is_shown_and_not_interpreted(tmp_path, address):
    (tmp_path / "data" / "reports").mkdir(parents=True)
    (tmp_path / "data" / "reports" / "evil.md").write_text(HOSTILE)
    _, text, _ = ask(f"{address}/reports/evil.md")
    assert "alert(1)" in text
    assert not any(tag in text for tag in ("<script", "<img src=x", 'href="javascript'))


@pytest.mark.parametrize(
    "path",
    ["/docs/../pyproject.toml", "/docs/%2e%2e/pyproject.toml", "/reports/..%2f..%2fsecret.md", "/reports/link.md",
     "/pyproject.toml", "/lake/run_files/x.parquet", "/warehouse.duckdb", "//etc/passwd", "/docs", "/reports/none.md",
     "/reports/%00", f"/reports/{'x' * 5_000}.md"],
)  # fmt: skip
def test_nothing_else_is_shown(tmp_path, address, path):
    (tmp_path / "data" / "reports").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "data" / "warehouse.duckdb").write_text("secret")
    (tmp_path / "data" / "reports" / "link.md").symlink_to(tmp_path / "secret.md")
    assert ask(address + path)[0] == 404


def test_no_other_site_may_ask_under_its_own_name(address):
    assert ask(f"{address}/docs/tables.md")[0] == 200
    assert ask(f"{address}/docs/tables.md", host="far.example")[0] == 400


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"), pages.serving(tmp_path, other.getsockname()[1]):
            pass


def test_without_pages_a_link_is_a_path(location):
    key = write_run(location.runs, 1, samples=600).stem
    refresh(location.folder)
    location.materialize("anomaly_report", keys=[key])
    path = location.metadata("anomaly_report", key)["report"]
    assert isinstance(path, dg.PathMetadataValue)
    assert path.path == str(location.folder.root / "reports" / f"{key}.md")
